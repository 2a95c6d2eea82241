"""The `chainrule` command; `main` is what the shell and `python -m chainrule` call."""

from __future__ import annotations

import importlib

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


class LazyGroup(click.Group):
    """Imports the one subcommand that is asked for; all of them take half as long again."""

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
