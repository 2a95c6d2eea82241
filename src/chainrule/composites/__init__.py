"""Composites: functions made of primitives that are shown as one operation."""
