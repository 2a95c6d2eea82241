"""Runs `chainrule cost`: traces, differentiates, counts, prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from chainrule.cli.graphs import graph_of
from chainrule.cli.program import Program

if TYPE_CHECKING:
    from chainrule.explain.cost.cost import Cost


def cost_of(
    program: Program,
    sizes: Mapping[str, int],
    *,
    wrt: Sequence[str],
    of: str | None,
    optimizer: str | None,
) -> Cost:
    """The cost of a program: forward, with `wrt` backward, or a training step."""
    return graph_of(program, wrt, of, optimizer).cost(sizes)


def show(cost: Cost, *, whole: bool, as_json: bool) -> None:
    """Print the cost: as JSON, as a rich table where someone watches, else as plain text."""
    rows = {"rows": None} if whole else {}
    if as_json:
        click.echo(json.dumps(cost.json(), indent=2, allow_nan=False))
    elif not sys.stdout.isatty():
        click.echo(cost.table(**rows))
    else:
        from rich.console import Console

        from chainrule.explain.cost.rich_table import rich_text

        Console().print(rich_text(cost, **rows))
