"""NumPy's functions, methods and indexing as nodes."""
