"""The `chainrule` command; `main` is what the shell and `python -m chainrule` call."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from contextlib import suppress
from typing import Any

import click

from chainrule.version import VERSION

# Each subcommand, and the module of this room that it is imported from when it is asked for.
COMMANDS = {
    "train": "command",
    "predict": "command",
    "memory": "command",
    "cost": "command",
    "draw": "command",
    "equations": "command",
    "python": "command",
    "explain": "command",
    "batch": "advice",
    "ways": "advice",
    "devices": "devices",
    "run": "run",
}

# What the system says of an output that takes nothing more: a full disk, a quota, a device.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
FAILED = 1  # exit code, as of every error that is not one of usage


class LazyGroup(click.Group):
    """Imports the one subcommand that is asked for; all of them take half as long again."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; one that cannot print ends with 1 and says so."""
        if sys.stdout is None:  # it was closed: what is printed goes nowhere, files are written
            sys.stdout = open(os.devnull, "w", encoding="utf-8")
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if error.filename is not None or error.errno not in UNWRITABLE:
                raise
            with suppress(OSError):  # Python would try again at its end, with its own message
                sys.stdout.close()
            click.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
            sys.exit(FAILED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first sentence of each subcommand's help, whole; click cuts it to a line."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(limit=1000)) for name, one in commands if one]
            )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all subcommands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand with this name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        return getattr(importlib.import_module(f"{__name__}.{COMMANDS[cmd_name]}"), cmd_name)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, package_name="chainrule", message="%(prog)s %(version)s")
def main() -> None:
    """A training step as one explicit computational graph."""


__all__ = ["main"]
