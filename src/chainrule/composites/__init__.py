"""NumPy-named composites: functions made of primitives, shown as one thing."""
