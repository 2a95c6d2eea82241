"""NumPy functions that are loaded when a program first calls one, as composites."""
