"""Python to graph: traced arrays with NumPy's protocols, names, containers."""
