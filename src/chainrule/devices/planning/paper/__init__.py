"""Plans of large steps on many devices, from types alone."""
