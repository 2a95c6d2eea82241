"""Values that several ranks have parts of: how they lie, and the graph that each rank computes."""
