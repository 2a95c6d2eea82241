"""`chainrule batch` and `chainrule ways`: how large a batch, and which way to train a step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from chainrule.cli.ending import ending_well
from chainrule.cli.options import (
    GraphCommand,
    executor_option,
    memory_option,
    of_a_graph,
    several,
)

if TYPE_CHECKING:
    from chainrule.cli.program import Program
    from chainrule.train.step.step import TrainingStep

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
PICTURE = click.option(
    "--picture",
    type=click.Path(path_type=Path),
    metavar="FILE.svg",
    help="Draw it, too.",
)


@click.command(cls=GraphCommand)
@of_a_graph(
    "A named size that is not read off the data, such as d=64.",
    "Whose update the step has; by default sgd.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.npz",
    help="Examples by the names of inputs, and parameters; by default those of example().",
)
@several("--sizes", metavar="ROWS", help="Batches that are looked at; by default 1, 2, 4, ...")
@several("--at", metavar="STEP", help="After which steps noise is looked at; by default 0.")
@click.option("--rows", type=click.IntRange(min=2), help="Examples for the noise; by default 512.")
@click.option("--predict", "predicted", is_flag=True, help="Predict times; do not measure them.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of parameters that are drawn.")
@memory_option("--memory", "Leave out batches that need more.")
@executor_option("The executor that runs the training steps.")
@PICTURE
@JSON
def batch(
    program: Program,
    dims: tuple[str, ...],
    wrt: tuple[str, ...],
    of: str | None,
    optimizer: str | None,
    data: Path | None,
    sizes: tuple[str, ...],
    at: tuple[str, ...],
    rows: int | None,
    predicted: bool,
    seed: int,
    memory: int | None,
    executor: str | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Say which batch size is worth it, from the bytes, time and gradient noise of each.

    The examples are those of --data, or of a function example() of the file, as are parameters;
    parameters that neither has are drawn. What it prints recommends a batch, with the reason.
    """
    from chainrule.advice.batch.study import batch_study
    from chainrule.cli.graphs import step_of

    with ending_well():
        _refuse_unwritable(picture)
        step = step_of(program, wrt, of, optimizer or "sgd", executor)
        examples, parameters = _arrays(program, step, data, seed)
        study = batch_study(
            step,
            step.init(parameters),
            examples,
            _numbers("--sizes", sizes) or None,
            at=_numbers("--at", at) or (0,),
            measure=not predicted,
            memory=memory,
            rows=rows,
        )
        if picture is not None:
            study.time_plot.save(picture)
        _show(study, as_json=as_json)


@click.command(cls=GraphCommand)
@of_a_graph(
    "The sizes of the batch, such as n=512.",
    "Whose update the step has; by default adam.",
)
@memory_option("--memory", "What each device has.")
@click.option("--devices", type=click.IntRange(min=1), help="Ranks of this machine that share it.")
@click.option(
    "--cluster",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.toml",
    help="Devices of other machines, as for chainrule devices.",
)
@click.option("--calibrate", is_flag=True, help="Predict by speeds that are measured here first.")
@click.option("--measure", is_flag=True, help="Take steps in every way that fits.")
@executor_option("The executor that runs the training steps.")
@PICTURE
@JSON
def ways(
    program: Program,
    dims: tuple[str, ...],
    wrt: tuple[str, ...],
    of: str | None,
    optimizer: str | None,
    memory: int | None,
    devices: int | None,
    cluster: Path | None,
    calibrate: bool,
    measure: bool,
    executor: str | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Say which way to train: all ways, with their bytes, their time, and the code for each.

    A smaller batch, micro-batches, recomputation, another optimizer; with --devices also pipelines,
    replicas and products in parts. Nothing is run without --measure. Ctrl-C prints what is known.
    """
    from chainrule.advice.ways.ways import ways as ways_of
    from chainrule.cli.graphs import sizes_of, step_of
    from chainrule.devices.planning.devices import Devices
    from chainrule.explain.cost.measured_speeds import measured_speeds

    if cluster is not None and devices is not None:
        raise click.UsageError(
            "--cluster says how many devices there are\n  try: leave out --devices"
        )
    with ending_well():
        _refuse_unwritable(picture)
        step = step_of(program, wrt, of, optimizer or "adam", executor)
        sizes = {**program.sizes(step.graph), **sizes_of(dims)}
        missing = [name for name in step.graph.sizes if name not in sizes]
        if missing:
            raise click.UsageError(
                f"nothing says what {', '.join(missing)} is\n"
                f"  try: {' '.join(f'--dim {name}=512' for name in missing)}"
            )
        shared: Any = devices if cluster is None else Devices.load(cluster)
        speeds = measured_speeds() if calibrate else None
        found = ways_of(step, batch=sizes, memory=memory, devices=shared, speeds=speeds)
        if measure:
            found = found.measure(progress=True)
        if picture is not None:
            found.plot.save(picture)
        _show(found, as_json=as_json)


def _refuse_unwritable(picture: Path | None) -> None:
    """Before anything is measured."""
    from chainrule.explain.writing import refuse_no_svg, refuse_unwritable

    if picture is not None:
        refuse_no_svg(picture, "plot")
        refuse_unwritable(picture)


def _show(found: Any, *, as_json: bool) -> None:
    click.echo(json.dumps(found.json(), indent=2, allow_nan=False) if as_json else str(found))


def _numbers(option: str, given: Sequence[str]) -> tuple[int, ...]:
    for one in given:
        if not one.isdecimal():
            raise click.UsageError(f"{option} {one} is no number\n  try: {option} 1,2,4")
    return tuple(map(int, given))


def _arrays(
    program: Program, step: TrainingStep, data: Path | None, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The examples, and the parameters: of the file of data, of the example, or drawn."""
    from chainrule.data.npz import read_npz

    graph = step.graph
    given: Mapping[str, Any] = {} if data is None else read_npz(data)
    own = {part.name for part in step.persistent}
    wanted = [x.name for x in graph.inputs if x.name not in own and x.default is None]
    if not set(wanted) | set(step.weights) <= set(given):
        given = {**program.arrays(graph), **given}
    missing = [name for name in wanted if name not in given]
    if missing:
        raise click.UsageError(
            f"there are no examples for {', '.join(missing)}\n"
            f"  try: --data FILE.npz with {', '.join(wanted)}, or a function example() in the file"
        )
    generator = np.random.default_rng(seed)
    parameters = {}
    for name in step.weights:
        type_ = graph.input(name).type
        if name in given:
            parameters[name] = given[name]
        elif graph.input(name).default is None:
            shape = tuple(int(one) for one in type_.shape)
            width = shape[-2] if len(shape) > 1 else 1
            numbers = generator.normal(size=shape) / np.sqrt(max(width, 1))
            parameters[name] = (numbers * (len(shape) > 1)).astype(type_.dtype)
    return {name: given[name] for name in wanted}, parameters
