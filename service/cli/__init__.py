"""The command `headcount`."""
