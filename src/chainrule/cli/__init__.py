"""The `chainrule` command; `main` is what the shell and `python -m chainrule` call."""

from chainrule.cli.command import main

__all__ = ["main"]
