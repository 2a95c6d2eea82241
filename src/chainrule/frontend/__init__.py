"""Traces Python into graphs: traced arrays with NumPy's protocols, names, containers."""
