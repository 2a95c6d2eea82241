"""The `chainrule` command; `main` is what the shell and `python -m chainrule` call."""

from chainrule.cli.advice import batch, ways
from chainrule.cli.command import main
from chainrule.cli.devices import devices
from chainrule.cli.run import run

for one in (batch, ways, devices, run):
    main.add_command(one)

__all__ = ["main"]
