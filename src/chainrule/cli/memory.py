"""`chainrule memory` after its options are read: trace, differentiate, count, show."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chainrule.cli.functions import function_at
from chainrule.errors import InputError
from chainrule.tracing import trace
from chainrule.train import Optimizer, adam, adamw, sgd, training_step
from chainrule.transforms import backward

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.graph.graph import Graph

OPTIMIZERS: Mapping[str, Callable[[], Optimizer]] = {
    "sgd": lambda: sgd(0.1),
    "momentum": lambda: sgd(0.1, momentum=0.9),
    "adam": adam,
    "adamw": adamw,
}


def sizes_of(dims: Sequence[str]) -> dict[str, int]:
    """`n=256` as the user wrote it, as a name and a number."""
    found = {}
    for dim in dims:
        name, _, number = dim.partition("=")
        if not name.strip() or not number.strip().lstrip("-").isdecimal():
            raise click.UsageError(f"--dim {dim} gives no size: --dim n=256")
        found[name.strip()] = int(number)
    return found


def report_of(
    place: str,
    sizes: Mapping[str, int],
    *,
    wrt: Sequence[str],
    of: str | None,
    optimizer: str | None,
    keep: Sequence[str],
    predict: Sequence[str],
    executor: str | None,
) -> MemoryReport:
    """The report of the function at `place`: forward, with `wrt` backward, or a training step."""
    graph = trace(function_at(place))
    predicted = tuple(predict) or None
    if optimizer is not None:
        if keep:
            raise click.UsageError(
                "--keep is for graphs: a training step keeps its outputs\n"
                "  try: leave out --keep, or --optimizer"
            )
        trained = tuple(wrt) or _trained(graph)
        step = training_step(graph, trained, OPTIMIZERS[optimizer](), of=of)
        return step.memory(sizes, predict=predicted, executor=executor)
    if wrt:
        graph = backward(graph, wrt=tuple(wrt), of=of)
    return graph.memory(sizes, keep=_kept(keep), predict=predicted, executor=executor)


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


def draw(report: MemoryReport, path: Path) -> None:
    """Write the timeline; a usage error where the file cannot be written."""
    try:
        report.save_timeline(path)
    except InputError as error:
        raise click.UsageError(f"--timeline {path}: {error}") from error
    except OSError as error:
        raise click.ClickException(
            f"cannot write {path}: {error.strerror or error}\n"
            "  try: another file, --timeline FILE.svg"
        ) from error


def _kept(keep: Sequence[str]) -> Any:
    """`--keep named` and `--keep outputs` are words, others are names of values."""
    if not keep:
        return "outputs"
    return keep[0] if len(keep) == 1 and keep[0] in ("named", "outputs") else tuple(keep)


def _trained(graph: Graph) -> tuple[str, ...]:
    """What is trained where nobody says it: the arrays of floats without the only named size.

    That size is then the number of examples.  With several named sizes, or none, nobody knows.
    """
    floats = [item for item in graph.inputs if item.type.is_float and item.default is None]
    alone = [item.name for item in floats if not any(_named(size) for size in item.type.shape)]
    if len(graph.sizes) == 1 and alone:
        return tuple(alone)
    raise click.UsageError(
        "it is not known which inputs are trained: that is said by --wrt, unless the number of "
        "examples is the only named size\n"
        f"  try: --wrt {(alone or [item.name for item in floats] or ['W'])[-1]}; the inputs of "
        f"floats are: {', '.join(item.name for item in floats) or 'none'}"
    )


def _named(size: Any) -> bool:
    return not isinstance(size, int)
