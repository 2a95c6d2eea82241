"""Checks for users' own derivatives."""
