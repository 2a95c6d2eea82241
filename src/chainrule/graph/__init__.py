"""What a program is: types, sizes, nodes, graphs, their invariants and their text."""
