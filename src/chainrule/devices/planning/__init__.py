"""Devices as data, and the plan of a step that is best on them."""
