"""How a person reads a graph: named values, what computes each, and in which pass."""
