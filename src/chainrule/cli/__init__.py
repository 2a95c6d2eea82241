"""The `chainrule` command; `main` is what the shell and `python -m chainrule` call."""

from chainrule.cli.command import main
from chainrule.cli.devices import devices
from chainrule.cli.run import run

main.add_command(devices)
main.add_command(run)

__all__ = ["main"]
