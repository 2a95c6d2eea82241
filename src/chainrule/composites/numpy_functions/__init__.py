"""NumPy functions that only some programs call, as composites: they are loaded when one is."""
