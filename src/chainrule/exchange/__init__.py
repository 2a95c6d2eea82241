"""Brings models of other formats in, and gives graphs to other libraries."""
