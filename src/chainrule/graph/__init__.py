"""Programs as data: types, sizes, nodes, graphs, their invariants and their text."""
