"""Runs `chainrule draw`, `equations` and `python`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chainrule.cli.graphs import graph_of, pairs_of, sizes_of
from chainrule.cli.program import Program
from chainrule.explain.writing import write_beside

if TYPE_CHECKING:
    from chainrule.graph.graph import Graph

STANDARD_OUTPUT = Path("-")


def viewed(
    program: Program, dims: Sequence[str], wrt: Sequence[str], of: str | None, optimizer: str | None
) -> Graph:
    """The graph that is shown; its named sizes stay letters, but for those that are given."""
    graph = graph_of(program, wrt, of, optimizer)
    sizes = sizes_of(dims)
    return graph.bind(**sizes) if sizes else graph


def symbols_of(given: Sequence[str]) -> dict[str, str]:
    """`weight_decay=λ` as the user wrote it, as a name and what is shown for it."""
    return dict(pairs_of("--symbol", given, "weight_decay=λ"))


def folded(given: Sequence[str]) -> Any:
    """`auto`, `all` and `none` are words, others are names of scopes."""
    if not given:
        return "auto"
    return given[0] if len(given) == 1 and given[0] in ("auto", "all", "none") else tuple(given)


def draw(graph: Graph, output: Path | None, options: Mapping[str, Any]) -> None:
    """Write the drawing to a file, by default one with the name of the function."""
    drawing = graph.draw(**options)
    if output == STANDARD_OUTPUT:
        click.echo(drawing.svg())
        return
    path = output or Path(f"{_file_name(graph)}.svg")
    drawing.save(path)
    click.echo(f"{path}: {drawing}")


def equations(
    graph: Graph, names: Sequence[str], output: Path | None, form: str, options: Mapping[str, Any]
) -> None:
    """Print the equations, or write them to a file whose suffix says how."""
    found = graph.equations(list(names) or None, **options)
    if output is not None:
        found.save(output)
        click.echo(f"{output}: {len(found)} equations")
        return
    match form:
        case "latex":
            click.echo(found.latex())
        case "markdown":
            click.echo(found.markdown())
        case _:
            click.echo(found)


def python(graph: Graph, output: Path | None, options: Mapping[str, Any]) -> None:
    """Print the source, or write it to a file."""
    source = graph.python(**options)
    if output is None:
        click.echo(source, nl=False)
        return
    write_beside(output, source.encode())
    click.echo(f"{output}: {len(source.splitlines())} lines")


def _file_name(graph: Graph) -> str:
    """The name of the function, as far as every file system takes it."""
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in graph.name) or "graph"
