"""Reads the user's bytecode: what becomes of a value that an operation gives."""
