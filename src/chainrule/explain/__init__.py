"""Explains graphs, plans and runs to people: pictures, equations, source, memory, reports."""
