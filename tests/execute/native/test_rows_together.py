"""Nests whose last sweep goes over several rows at once compute what they do row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emitted import TARGETS
from executing import compare, inputs_of, native, planned

import chainrule as cr
from chainrule.graph.graph import Graph
from chainrule.plan.loops import nest
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.work import NestWork

RANDOM = np.random.default_rng(5)


def layer_norm(x: Any, weight: Any, bias: Any, g: Any) -> Any:
    y, pull = cr.vjp(cr.layer_norm, x, weight, bias)
    return y, *pull(g)


def scaled_rows(x: Any, weight: Any, bias: Any, g: Any) -> Any:
    """Rows without their means, scaled and moved, and backwards: like layer_norm, of two sweeps."""
    rows = centred(x)
    return rows * weight + bias, centred(g * weight), np.sum(g * rows, axis=0), np.sum(g, axis=0)


def arguments(rows: int, columns: int, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    shapes = {"x": (rows, columns), "weight": columns, "bias": columns, "g": (rows, columns)}
    return {name: RANDOM.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def results_of(graph: Graph) -> list[Any]:
    return [node for _, node in graph.outputs]


def layouts(graph: Graph, **options: Any) -> list[NestLayout]:
    works = planned(graph, results_of(graph), **options).works
    return [one for work in works if isinstance(work, NestWork) for one in work.layouts]


def together(function: Any, *arrays: np.ndarray) -> list[int]:
    """How many rows each nest of the function takes at once."""
    return [one.rows_together for one in layouts(cr.trace(function, *arrays))]


def values(graph: Graph, given: dict[str, np.ndarray], **options: Any) -> list[np.ndarray]:
    found = native(graph, inputs_of(graph, given), results_of(graph), **options)
    assert found is not None
    return [found[node] for node in results_of(graph)]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows, columns", [(8, 1024), (9, 1030), (23, 2048), (34, 2100)])
def test_several_rows_at_once_give_the_bits_of_rows_one_by_one(
    rows: int, columns: int, dtype: Any, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = arguments(rows, columns, dtype)
    graph = cr.trace(scaled_rows, *given.values())
    assert [one.rows_together for one in layouts(graph, threads=threads)] == [nest.ROWS_TOGETHER]
    at_once = values(graph, given, threads=threads)
    monkeypatch.setattr(nest, "ROWS_TOGETHER", 1)
    for got, wanted in zip(at_once, values(graph, given, threads=threads), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [8, 14, 41])
@pytest.mark.parametrize("function", [layer_norm, scaled_rows])
def test_groups_of_rows_have_the_references_values(function: Any, rows: int, target: str) -> None:
    given = arguments(rows, 1037)
    graph = cr.trace(function, *given.values())
    compare(graph, inputs_of(graph, given), results_of(graph), 1e-5, target=TARGETS[target])


@pytest.mark.parametrize("taken", ["x", "g"])
def test_rows_together_may_be_written_over_an_operand(taken: str) -> None:
    given = arguments(11, 1037)
    graph = cr.trace(scaled_rows, *given.values())
    results = results_of(graph)
    overwrites = {graph.input(taken).node: results[1]}
    assert planned(graph, results, overwrites).overwrites
    compare(graph, inputs_of(graph, given), results, 1e-5, overwrites=overwrites)


def test_rows_are_added_in_their_order() -> None:
    given = arguments(19, 1024)
    graph = cr.trace(scaled_rows, *given.values())
    total = np.zeros(1024, np.float32)
    for row in given["g"]:
        total += row
    np.testing.assert_array_equal(values(graph, given)[3], total)


def centred(x: Any) -> Any:
    return x - np.mean(x, axis=1, keepdims=True)


def masked_rows(x: Any, g: Any) -> Any:
    """A boolean of each row, and a sum of all that a row adds one number to."""
    kept = np.where(np.max(x, axis=1, keepdims=True) > 3.3, centred(x) * g, g)
    return kept, np.sum(kept, axis=0), np.sum(np.mean(x, axis=1))


def divided(x: Any, w: Any, s: Any) -> Any:
    """Divided by a number that all rows share, and by one of the row."""
    scaled = x * (w / s)
    y = centred(scaled) / np.max(scaled, axis=1, keepdims=True)
    return y, np.sum(y, axis=0), np.max(y + w, axis=0)


def picked(x: Any, k: Any, t: Any) -> Any:
    """Rows of a table, and one column of each row: both by an index of the row."""
    hot = np.arange(x.shape[1]) == k[:, None]
    y = np.where(hot, 0, centred(x)) + t[k]
    return y, np.sum(y, axis=0), np.min(y, axis=0)


def with_a_loss(x: Any, g: Any) -> Any:
    """Beside the sums of columns sums of all, of what the first and the last sweep know."""
    centre = centred(x)
    scale = np.sum(centre * g, axis=1, keepdims=True)
    y = scale * centre
    return y, np.sum(y, axis=0), np.sum(scale), np.sum(g * g)


def read_between(x: Any, g: Any) -> Any:
    """A result that is known before, and read in, a sweep that is not the last."""
    y = centred(x)
    distance = np.max(np.abs(y - np.max(y, axis=1, keepdims=True)), axis=1, keepdims=True)
    return y, np.sum(y * g / distance, axis=0)


ROWS, COLUMNS = 11, 2053
X, G, T = (RANDOM.normal(size=(ROWS, COLUMNS)).astype(np.float32) for _ in range(3))
K = RANDOM.integers(0, ROWS, ROWS)
NESTS = {
    "masked rows": (masked_rows, (X, G)),
    "divided": (divided, (X, G[0], np.float32(1.7))),
    "picked": (picked, (X, K, T)),
    "with a loss": (with_a_loss, (X, G)),
    "read between": (read_between, (X, G)),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NESTS)
def test_whatever_the_last_sweep_needs_of_a_row_is_that_rows(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, arrays = NESTS[name]
    monkeypatch.setattr(nest, "CACHE_NBYTES", 0)
    graph = cr.trace(function, *arrays)
    given = dict(zip((one.name for one in graph.inputs), arrays, strict=True))
    assert nest.ROWS_TOGETHER in [one.rows_together for one in layouts(graph, threads=threads)]
    inputs = inputs_of(graph, given)
    compare(graph, inputs, results_of(graph), 1e-5, threads=threads)
    at_once = values(graph, given, threads=threads)
    monkeypatch.setattr(nest, "ROWS_TOGETHER", 1)
    for got, wanted in zip(at_once, values(graph, given, threads=threads), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_rows_go_together_only_where_it_pays() -> None:
    assert together(scaled_rows, *arguments(8, 1024).values()) == [nest.ROWS_TOGETHER]
    assert together(scaled_rows, *arguments(8, 1000).values()) == [1], "stays in the cache"
    assert together(scaled_rows, *arguments(3, 1024).values()) == [1], "too few rows"
    assert together(lambda x: np.sum(x * 2, axis=0), X) == [1], "one sweep"
    assert together(lambda x: x / np.sum(x, 1, keepdims=True), X) == [1], "nothing to add to"


def costly(x: Any, g: Any) -> Any:
    y = cr.softmax(x) - g
    return y, np.sum(y, axis=0)


def test_rows_whose_values_are_kept_in_a_buffer_go_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest, "CACHE_NBYTES", 0)
    graph = cr.trace(costly, X, G)
    (layout,) = layouts(graph)
    assert layout.saved and layout.rows_together == 1


def reduced_last(x: Any, g: Any) -> Any:
    y = centred(x) * g
    return y, np.sum(y, axis=0), np.max(y, axis=1)


def test_rows_that_are_reduced_in_the_last_sweep_go_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest, "CACHE_NBYTES", 0)
    assert together(reduced_last, X, G) == [1]
    assert together(lambda x, g: reduced_last(x, g)[:2], X, G) == [nest.ROWS_TOGETHER]
