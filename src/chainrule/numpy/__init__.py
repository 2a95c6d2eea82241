"""NumPy's namespace: functions written with other traced functions."""
