"""Errors of traced functions: caught, explained, restored, refused."""
