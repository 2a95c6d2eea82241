"""The graphs that a page of the documentation traces, with values for their inputs."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import chainrule as cr
from chainrule import tracing
from chainrule.errors import ChainruleError

LARGEST = 1 << 28  # floating-point operations of a graph that is run here
TRIALS = 40


def _pages() -> Any:
    path = Path(__file__).parents[1] / "docs" / "pages.py"
    spec = importlib.util.spec_from_file_location("pages", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("pages", module)
    spec.loader.exec_module(module)
    return module


PAGES = _pages()


def pages_with_python() -> list[Path]:
    """The pages that have programs."""
    return [
        page
        for page in PAGES.PAGES
        if any(one.is_run for one in PAGES.blocks(page.read_text(encoding="utf-8")))
    ]


def graphs_of(page: Path) -> list[cr.Graph]:
    """All graphs that the page traces, each once."""
    found: list[cr.Graph] = []
    check = tracing.check

    def checked(graph: cr.Graph) -> cr.Graph:
        found.append(check(graph))
        return found[-1]

    quiet = {"CHAINRULE_NUM_THREADS": "2", "CHAINRULE_EXECUTOR": "reference"}
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        warnings.catch_warnings(),
        patch.object(tracing, "check", checked),
        patch.dict(os.environ, quiet),
    ):
        warnings.simplefilter("ignore")
        PAGES.run_page(page)
    return list({str(graph): graph for graph in found}.values())


def with_values(graph: cr.Graph) -> tuple[cr.Graph, dict[str, Any]] | None:
    """The graph with numbers for its sizes, and values for its inputs for which it is finite.

    None for one that is too large for a test, or that has no value for any input.
    """
    rng = np.random.default_rng(0)
    for trial in range(TRIALS):
        sizes = {name: 3 + place for place, name in enumerate(graph.sizes)}
        if trial:
            sizes = {name: int(rng.choice([2, 3, 4, 5, 6, 8, 12])) for name in graph.sizes}
        with contextlib.suppress(ChainruleError, np.linalg.LinAlgError, ValueError):
            bound = graph.bind(**sizes) if sizes else graph
            if sum(one.primitive.flops(one) for one in bound.nodes) > LARGEST:
                return None
            given = {item.name: _value(item, trial, rng) for item in bound.inputs}
            results = bound.run(given)
            arrays = [np.asarray(results[name]) for name, _ in bound.outputs]
            if all(one.dtype.kind != "f" or np.all(np.isfinite(one)) for one in arrays):
                return bound, given
    return None


def _value(item: Any, trial: int, rng: np.random.Generator) -> Any:
    """Numbers around 0; then positive ones, and regular matrices."""
    kind = item.node.type
    if item.default is not None and not isinstance(item.default, float):
        return np.asarray(item.default)
    if kind.dtype.kind == "b":
        return np.asarray(rng.random(kind.shape) < 0.5)
    if kind.dtype.kind != "f":
        return np.asarray(rng.integers(0, 2, kind.shape), kind.dtype)
    if trial % 2 == 0:
        scale = 1 / np.sqrt(kind.shape[-2]) if kind.ndim > 1 and kind.shape[-2] else 0.4
        return np.asarray(rng.normal(size=kind.shape) * scale, kind.dtype)
    found = rng.uniform(0.2, 0.9, kind.shape)
    if kind.ndim > 1 and kind.shape[-1] == kind.shape[-2]:
        found = found + np.swapaxes(found, -1, -2) + kind.shape[-1] * np.eye(kind.shape[-1])
    return np.asarray(found, kind.dtype)


def gradient_of(graph: cr.Graph) -> cr.Graph | None:
    """Forward and backward, of the first output that has a gradient; None if none has."""
    wrt = tuple(item.name for item in graph.inputs if item.node.dtype.kind == "f")
    outputs = [(name, node) for name, node in graph.outputs if node.dtype.kind == "f"]
    if not wrt or not outputs:
        return None
    name, node = outputs[0]
    seed = {} if node.ndim == 0 else {"seed": "a_seed"}
    return cr.backward(graph, of=name, wrt=wrt, **seed)


def seeds(graph: cr.Graph, given: dict[str, Any]) -> dict[str, Any]:
    """Values for the inputs that a gradient adds."""
    rng = np.random.default_rng(1)
    missing = [item for item in graph.inputs if item.name not in given]
    more = {one.name: rng.normal(size=one.node.shape).astype(one.node.dtype) for one in missing}
    return {**given, **more}


def disagreement(found: Any, wanted: Any, tolerance: float) -> str:
    """What differs, if anything does by more than rounding."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind != "f":
        return "" if np.array_equal(found, wanted) else "other integers"
    largest = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)
    if np.allclose(found, wanted, tolerance, tolerance * largest, equal_nan=True):
        return ""
    return f"{np.nanmax(np.abs(found - wanted)):.3g} of {largest:.3g}"


def tolerance_of(graph: cr.Graph) -> float:
    """By the narrowest floats in it."""
    widths = [one.dtype.itemsize for one in graph.nodes if one.dtype.kind == "f"]
    return {2: 2e-2, 4: 2e-4, 8: 1e-9}[min(widths, default=8)]


def each_input(graph: cr.Graph) -> Iterator[str]:
    """Numbers with a default, which would be constants of the file."""
    return (item.name for item in graph.inputs if isinstance(item.default, float))
