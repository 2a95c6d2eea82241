"""Runs `chainrule predict`: loads weights and images, prints classes or scores."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

from chainrule.cli.images import FEATURES, Images, images_of
from chainrule.cli.training import WEIGHTS, weights_notes
from chainrule.errors import DataFileError
from chainrule.examples import mlp
from chainrule.examples.digits import SCORES, forward_graph
from chainrule.explain.writing import refuse_unwritable, write_beside
from chainrule.train.evaluation.predict import predict
from chainrule.train.step.weights import load_weights

CLASSES = 10
BATCH = 1024  # rows at a time
SUFFIXES = (".npy", ".csv", ".txt")
TRAINED = f"{WEIGHTS} of `chainrule train`"


def predict_and_write(weights: Path, data: Path, output: Path | None, *, scores: bool) -> None:
    """Print a line for each image, or write a file by its suffix."""
    if output is not None:
        _check_output(output, (weights, data))
        refuse_unwritable(output)
    found = class_scores(network(weights), images_of(data))
    if not scores:
        found = found.argmax(axis=1)
    if output is None:
        click.echo(_lines(found, " "), nl=False)
    else:
        write_beside(output, _content(found, output.suffix.lower()))


def network(path: Path) -> dict[str, np.ndarray]:
    """The weights by name; DataFileError for a file without those of `chainrule train`."""
    from safetensors import safe_open

    arrays = load_weights(path)
    with safe_open(path, framework="numpy") as opened:
        notes = weights_notes(opened.metadata() or {})
    if notes is None:
        raise DataFileError(
            f"the weights {path} are not those of a network of `chainrule train`: they have "
            f"{', '.join(arrays) or 'no arrays'}, and do not say so",
            hint=f"{TRAINED}; for another model, cr.load_weights and cr.predict in Python",
        )
    shapes = _shapes(notes.get("settings"))
    there = {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
    if shapes is None or there != {name: ("float32", shape) for name, shape in shapes.items()}:
        listed = ", ".join(f"{name} {dtype}{list(shape)}" for name, (dtype, shape) in there.items())
        raise DataFileError(
            f"the weights {path} do not fit the network that they say they are of, "
            f"{notes.get('settings')!r:.200}: {listed}",
            hint=TRAINED,
        )
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            place = [int(i) for i in np.argwhere(~np.isfinite(array))[0]]
            raise DataFileError(
                f"the weights {path} are not finite: {name}{place} is {array[tuple(place)]}",
                hint="use the weights of a training that did not diverge",
            )
    return arrays


def class_scores(weights: dict[str, np.ndarray], images: Images) -> np.ndarray:
    """The scores float32[n, 10] of the images, which are checked as they are used."""
    graph = forward_graph("b" in weights, 0.0)

    def batches() -> Iterator[dict[str, np.ndarray]]:
        for start in range(0, len(images), BATCH):
            yield {"x": images.rows(start, start + BATCH)}

    return predict(graph, weights, batches(), SCORES, executor="reference")


def _shapes(settings: object) -> dict[str, tuple[int, ...]] | None:
    """The shapes of the weights of a network with these settings; None where it has none."""
    if not isinstance(settings, dict):
        return None
    hidden, bias = settings.get("hidden"), settings.get("bias")
    if type(hidden) is not int or type(bias) is not bool:
        return None
    return mlp.shapes((FEATURES, hidden, CLASSES), bias)


def _check_output(output: Path, inputs: tuple[Path, ...]) -> None:
    """A usage error for a file that cannot be written, or should not be."""
    if output.suffix.lower() not in SUFFIXES:
        raise click.UsageError(
            f"predictions cannot be written as {output.suffix or 'a file without an ending'}, "
            f"asked for by {output}\n  try: a name that ends in {', '.join(SUFFIXES)}"
        )
    if not output.parent.is_dir():
        raise click.UsageError(f"there is no folder {output.parent}\n  try: make it first")
    for one in inputs:
        if output.exists() and one.exists() and output.samefile(one):
            raise click.UsageError(f"{output} is also an input file\n  try: another")


def _content(found: np.ndarray, suffix: str) -> bytes:
    if suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, found, allow_pickle=False)
        return buffer.getvalue()
    if suffix == ".txt":
        return _lines(found, " ").encode()
    names = "class" if found.ndim == 1 else ",".join(f"score_{i}" for i in range(CLASSES))
    return f"{names}\n{_lines(found, ',')}".encode()


def _lines(found: np.ndarray, between: str) -> str:
    """A row a line; numbers are the shortest that are read back as they are."""
    if found.ndim == 1:
        return "".join(f"{one}\n" for one in found.tolist())
    return "".join(between.join(map(str, row)) + "\n" for row in found)
