"""`python -m chainrule` is the `chainrule` command."""

from chainrule.cli import main

if __name__ == "__main__":
    main()
