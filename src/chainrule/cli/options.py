"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from chainrule.train.digits import Settings


def setting(name: str, explanation: str, type_: Any) -> Any:
    """An option whose default is that of the setting with its name."""
    default = getattr(Settings, name)
    return click.option(
        f"--{name.replace('_', '-')}",
        type=type_,
        default=default,
        show_default=True,
        help=explanation,
    )


def output_option(suffixes: str, otherwise: str) -> Any:
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"Where it goes ({suffixes}); without it, {otherwise}.",
    )


def of_a_graph(dims: str, optimizer: str) -> Callable[[Any], Any]:
    """The argument and options that say which graph; the texts are those of two of them."""
    options = (
        click.argument("place", metavar="FILE.py:FUNCTION"),
        click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help=dims),
        click.option(
            "--wrt", multiple=True, metavar="NAME", help="An input to differentiate by; or all."
        ),
        click.option(
            "--of", metavar="NAME", help="The objective, where the function returns several."
        ),
        click.option(
            "--optimizer", type=click.Choice(["sgd", "momentum", "adam", "adamw"]), help=optimizer
        ),
    )

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
