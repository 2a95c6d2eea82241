"""The operations of numpy.linalg."""
