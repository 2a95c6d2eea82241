"""Anything to a person: what a graph, a plan or a run is, said, shown and counted."""
