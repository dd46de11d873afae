"""Headcount: how many concurrent users fit on this GPU, and why."""
