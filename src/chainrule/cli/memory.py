"""Runs `chainrule memory`: traces, differentiates, counts bytes, prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from chainrule.cli.graphs import graph_of, step_of
from chainrule.cli.program import Program
from chainrule.execute.executors import executor_with

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.graph.graph import Graph


def report_of(
    program: Program,
    sizes: Mapping[str, int],
    *,
    wrt: Sequence[str],
    of: str | None,
    optimizer: str | None,
    keep: Sequence[str],
    predict: Sequence[str],
    executor: str | None,
    placement_seconds: float,
    budget: int | None,
) -> MemoryReport:
    """The report of a program: forward, with `wrt` backward, or a training step."""
    predicted = tuple(predict) or None
    is_plain = not placement_seconds and budget is None
    searching = executor if is_plain else executor_with(executor, placement_seconds, budget)
    if optimizer is not None:
        if keep:
            raise click.UsageError(
                "--keep is for graphs: a training step keeps its outputs\n"
                "  try: leave out --keep, or --optimizer"
            )
        step = step_of(program, wrt, of, optimizer)
        sizes = _completed(program, step.graph, sizes)
        return step.memory(sizes, predict=predicted, executor=searching)
    graph = graph_of(program, wrt, of)
    sizes = _completed(program, graph, sizes)
    return graph.memory(sizes, keep=_kept(keep), predict=predicted, executor=searching)


def _completed(program: Program, graph: Graph, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """The sizes, with those of the example that are not given."""
    return sizes if set(graph.sizes) <= set(sizes) else {**program.sizes(graph), **sizes}


def show(report: MemoryReport, *, whole: bool) -> None:
    """Print the report: as a rich table where someone watches, else as plain text."""
    rows = {"rows": None} if whole else {}
    if not sys.stdout.isatty():
        click.echo(report.table(**rows))
        return
    from rich.console import Console

    from chainrule.explain.memory.rich_table import rich_text

    Console().print(rich_text(report, **rows))


def show_json(report: MemoryReport) -> None:
    """Print the report as JSON."""
    click.echo(json.dumps(report.json(), indent=2, allow_nan=False))


def _kept(keep: Sequence[str]) -> Any:
    """`--keep named` and `--keep outputs` are words, others are names of values."""
    if not keep:
        return "outputs"
    return keep[0] if len(keep) == 1 and keep[0] in ("named", "outputs") else tuple(keep)
