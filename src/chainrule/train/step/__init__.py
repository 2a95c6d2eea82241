"""One training step as one graph, and the state between steps."""
