"""Routines of LAPACK in LLVM's text, and their addresses."""
