"""The graph drawn: squares are variables, circles are operators."""
