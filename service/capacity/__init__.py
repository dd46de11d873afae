"""The arithmetic: pure, integer, and importing nothing else of ours."""
