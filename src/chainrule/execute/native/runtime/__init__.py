"""Compiled code at run time: loaded, called, kept on disk, shared by threads."""
