"""Sizes of axes as integer polynomials in names: `2*n + 1`."""
