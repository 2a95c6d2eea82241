"""Elementary functions as vector code: one family in each file."""
