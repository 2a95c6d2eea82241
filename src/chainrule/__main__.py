"""Runs the `chainrule` command for `python -m chainrule`."""

from chainrule.cli import main

if __name__ == "__main__":
    main()
