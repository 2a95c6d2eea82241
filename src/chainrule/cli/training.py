"""`chainrule train` after its options are checked: train, show, write, tell."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from chainrule import __version__
from chainrule.cli.files import write_files
from chainrule.graph.graph import Graph
from chainrule.train.digits import Measures, Training, measure, train_epoch

WEIGHTS, GRAPH, METRICS = "weights.safetensors", "graph.txt", "metrics.json"
Shower = Callable[[str], None]


def train_and_write(training: Training, folder: Path, *, quiet: bool) -> None:
    """Train all epochs, write the three files, and print what came out."""
    if not quiet:
        click.echo(_opening(training))
    begin = time.perf_counter()
    measures = _train(training, quiet)
    seconds = time.perf_counter() - begin
    write_files(
        folder,
        {
            WEIGHTS: _weights(training, measures),
            GRAPH: (training.step.graph.text(origins=True) + "\n").encode(),
            METRICS: _json(_metrics(training, measures, seconds=seconds)).encode(),
        },
    )
    click.echo(_summary(training, measures, seconds, folder))


def _train(training: Training, quiet: bool) -> Measures:
    """Every epoch, with a line for each; the measures after the last one."""
    epochs = training.settings.epochs
    with _progress(epochs, quiet) as (show, advance):
        for epoch in range(1, epochs + 1):
            train_epoch(training, epoch)
            now = measure(training)
            show(
                f"epoch {epoch:{len(str(epochs))}}/{epochs}  objective {now.objective:.4f}  "
                f"test accuracy {now.test_accuracy:.1%}"
            )
            advance()
    return measure(training)


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[tuple[Shower, Callable[[], None]]]:
    """How to show a line and how to advance: a bar below the lines where someone watches it."""
    if quiet:
        yield (lambda line: None), (lambda: None)
    elif not sys.stdout.isatty() or os.environ.get("CI", "").lower() in ("true", "1"):
        yield click.echo, (lambda: None)
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

        columns = ("training", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, transient=True) as bar:
            task = bar.add_task("training", total=total)
            yield (
                lambda line: bar.console.print(line, highlight=False, markup=False),
                lambda: bar.advance(task),
            )


def _weights(training: Training, measures: Measures) -> bytes:
    """The weights as safetensors; the metadata is one entry, for several have no fixed order."""
    from safetensors.numpy import save

    metadata = {"chainrule": json.dumps(_metrics(training, measures), sort_keys=True)}
    return save(training.state.parameters, metadata)


def _metrics(training: Training, measures: Measures, **more: float) -> dict[str, object]:
    return {
        "chainrule": __version__,
        "data": "digits",
        "settings": asdict(training.settings),
        "steps": training.state.steps,
        "parameters": training.parameter_count,
        "train_rows": len(training.train.y),
        "test_rows": len(training.test.y),
        **asdict(measures),
        **more,
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _opening(training: Training) -> str:
    settings = training.settings
    widths = " - ".join(map(str, _widths(training)))
    return (
        f"digits: {len(training.train.y)} images to train, {len(training.test.y)} to test; "
        f"network {widths}{' with bias' if settings.bias else ''}, "
        f"{training.parameter_count} parameters"
    )


def _widths(training: Training) -> tuple[int, ...]:
    arrays = training.state.arrays
    return (*arrays["W1"].shape, arrays["W2"].shape[1])


def _summary(training: Training, measures: Measures, seconds: float, folder: Path) -> str:
    settings, graph = training.settings, training.step.graph
    rows = {
        "objective": f"{measures.objective:.4f} on the training images, weight decay included",
        "accuracy": f"train {measures.train_accuracy:.2%}, test {measures.test_accuracy:.2%}",
        "time": f"{seconds:.2f} s for {settings.epochs} epochs of {training.steps_per_epoch} steps",
        "parameters": f"{training.parameter_count}",
        "weights": folder / WEIGHTS,
        "metrics": folder / METRICS,
        "graph": f"{folder / GRAPH}: the training step, {len(graph)} nodes, these with names:",
    }
    lines = [f"{what:<10}  {text}" for what, text in rows.items()]
    return "\n".join(lines + [f"  {part:<8}  {names}" for part, names in _parts(graph).items()])


def _parts(graph: Graph) -> dict[str, str]:
    """The names of the values by the part of the step that makes them."""
    inputs = {item.node for item in graph.inputs}
    names: dict[str, list[str]] = {"forward": [], "backward": [], "update": []}
    for node in graph.nodes:
        if node in graph.name_of and node not in inputs:
            names.setdefault(node.origin.transform or "forward", []).append(graph.name_of[node])
    return {part: " ".join(found) for part, found in names.items()}
