"""Finds what tracing would freeze: random numbers, clocks and files."""
