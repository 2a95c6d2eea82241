"""Runs `chainrule explain`: makes the arrays of one run, and writes the report page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from chainrule.cli.graphs import graph_of, sizes_of, step_of
from chainrule.cli.program import Program, sizes_seen
from chainrule.data.npz import read_npz
from chainrule.explain.report import Report, report
from chainrule.explain.report.report import checked_path
from chainrule.graph.graph import Graph
from chainrule.train import TrainingStep

if TYPE_CHECKING:
    from chainrule.examples.digits import Training


def explain(
    program: Program,
    dims: Sequence[str],
    wrt: Sequence[str],
    of: str | None,
    optimizer: str | None,
    *,
    inputs: Path | None,
    seed: int | None,
    history: Path | None,
    executor: str,
    tradeoff: bool,
    output: Path | None,
) -> None:
    """Write the page about a program, by default to a file with its name."""
    sizes = sizes_of(dims)
    path = checked_path(output or Path(f"{program.name.replace('.', '_')}.html"))
    given = None if inputs is None else read_npz(inputs)
    what = step_of(program, wrt, of, optimizer) if optimizer else graph_of(program, wrt, of)
    graph = what.graph if isinstance(what, TrainingStep) else what
    given, notes = _with_example(program, graph, given, sizes)
    missing = [name for name in graph.sizes if name not in sizes]
    if tradeoff and missing and given is None and seed is None:
        raise click.UsageError(
            f"--tradeoff plans a run, and nothing says what {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'}\n"
            f"  try: {' '.join(f'--dim {name}=256' for name in missing)}"
        )
    if given is not None or seed is not None:
        given, more = _completed(what, graph, given or {}, sizes, seed)
        notes += more
    made = report(
        what, given, sizes=sizes or None, executor=executor, history=history, tradeoff=tradeoff
    )
    made = _noted(made, notes, path)
    made.save(path)
    click.echo(f"{path}: {made}")


def training_report(training: Training, history: Sequence[Mapping[str, Any]]) -> Report:
    """The page about a network that was trained: one more step on the first minibatch, and curves.

    `history` has a dict for each point of the curves: "step", and numbers by their names.
    """
    rows = slice(training.settings.batch)
    batch = {"x": training.train.x[rows], "y": training.train.y[rows]}
    made = report(
        training.step, batch, state=training.state, history=history, title="digits, trained"
    )
    return _noted(made, ["The values are those of one more step, on the first minibatch."])


def _with_example(
    program: Program,
    graph: Graph,
    given: Mapping[str, np.ndarray] | None,
    sizes: Mapping[str, int],
) -> tuple[Mapping[str, np.ndarray] | None, list[str]]:
    """The arrays of --inputs, and those of the example beside them, if it has the sizes that were
    asked for; and what the page says of that."""
    needed = {item.name for item in graph.inputs if item.default is None}
    example = program.arrays(graph) if needed - set(given or {}) else {}
    if not example:
        return given, []
    seen = sizes_seen(graph, {**example, **(given or {})})
    other = [f"{name}={number}" for name, number in sizes.items() if seen.get(name) != number]
    if other:
        note = f"The arrays of the example have other sizes than {', '.join(other)}: not used."
        return given, [note]
    added = [name for name in example if name not in (given or {})]
    return {**example, **(given or {})}, [f"{', '.join(added)}: of the example in {program.file}."]


def _noted(made: Report, notes: Sequence[str], path: Path | None = None) -> Report:
    """The same page with these sentences before its other notes."""
    return Report({**made.data, "notes": [*notes, *made.data["notes"]]}, path)


def _completed(
    what: Graph | TrainingStep,
    graph: Graph,
    given: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    seed: int | None,
) -> tuple[dict[str, np.ndarray], list[str]]:
    """All arrays of a run, and what the page says about those that were drawn from `seed`.

    A usage error where arrays are missing and there is no seed, or their sizes are not known.
    """
    own = {p.name for p in what.persistent} if isinstance(what, TrainingStep) else set()
    own -= set(what.parameters) if isinstance(what, TrainingStep) else set()
    needed = [item for item in graph.inputs if item.default is None and item.name not in own]
    missing = [item.name for item in needed if item.name not in given]
    if not missing:
        return dict(given), []
    names = ", ".join(missing)
    if seed is None:
        raise click.UsageError(
            f"the file of --inputs has no array called {missing[0]}; it has {', '.join(given)}\n"
            f"  try: --random 0, which draws what is missing: {names}"
        )
    known = {**sizes_seen(graph, given), **sizes}
    unknown = [name for name in graph.sizes if name not in known]
    if unknown:
        raise click.UsageError(
            f"random arrays need a number for each size, and nothing says what "
            f"{', '.join(unknown)} {'is' if len(unknown) == 1 else 'are'}\n"
            f"  try: {' '.join(f'--dim {name}=16' for name in unknown)}"
        )
    generator = np.random.default_rng(seed)
    drawn = {}
    for item in graph.bind(**known).inputs:
        if item.name in missing:
            shape = tuple(int(size) for size in item.type.shape)
            is_float = item.type.is_float
            numbers = generator.normal(size=shape) if is_float else np.zeros(shape)
            drawn[item.name] = numbers.astype(item.type.dtype)
    note = (
        f"These are not your numbers: {names} {'was' if len(missing) == 1 else 'were'} drawn from "
        f"seed {seed}, standard normal numbers for floats and zeros for all else."
    )
    return {**given, **drawn}, [note]
