"""Indices out of range: the reference executor's message, and nothing that was given is changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executing import compare, inputs_of, native

import chainrule as cr
from chainrule import float32, int64
from chainrule.errors import IndexOutOfRangeError
from chainrule.execute import reference
from chainrule.execute.native.program import NativeProgram
from chainrule.execute.run import kept_nodes

pytestmark = pytest.mark.usefixtures("every_width")

ROWS = 21


def lookup(x: Any, i: Any) -> Any:
    return np.sum(x[i] ** 2)


def loss(x: Any, i: Any) -> Any:
    return cr.cross_entropy(x, i)


def shifted(x: Any, i: Any) -> Any:
    return np.sum(x[i - 1]) + np.sum(cr.embedding(x, i) ** 2)


def columns(x: Any, i: Any) -> Any:
    return np.sum(np.tanh(x[:, i]))


def half(x: Any, i: Any) -> Any:
    return np.sum(x.astype(np.float16)[i].astype(np.float32))


def nothing(x: Any, i: Any) -> Any:
    return np.sum(x[:, :0][i])


FUNCTIONS = (lookup, loss, shifted, columns, half, nothing)
X = np.random.default_rng(0).normal(size=(ROWS, ROWS))


def traced(function: Any) -> Any:
    rows = "n" if function is loss else "m"
    graph = cr.trace(function, x=float32["n", ROWS], i=int64[rows])
    return cr.backward(graph, wrt="x")


@pytest.mark.sweep(5)
@pytest.mark.parametrize("bad", [ROWS, ROWS + 1, -ROWS - 1, 2**62, -(2**63)])
@pytest.mark.parametrize("place", [0, 3, ROWS - 1])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_message_is_the_references(function: Any, place: int, bad: int) -> None:
    graph = traced(function)
    indices = np.arange(ROWS) % 7 + 1
    indices[place] = bad if function is not shifted or bad > 0 else -ROWS
    bound = graph.bind(**dict.fromkeys(graph.sizes, ROWS))
    inputs = inputs_of(bound, {"x": X, "i": indices})
    with pytest.raises(IndexOutOfRangeError) as wanted:
        reference.evaluate(bound, inputs, kept_nodes(bound, "outputs"), graph)
    with pytest.raises(IndexOutOfRangeError) as got:
        NativeProgram(bound, kept_nodes(bound, "outputs"), traced=graph)(inputs)
    assert str(got.value) == str(wanted.value)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("threads", [1, 3])
def test_indices_in_range_are_found_whatever_lies_behind_them(function: Any, threads: int) -> None:
    for rows in (1, 2, 5, 8, 13, ROWS):
        graph = traced(function)
        indices = np.arange(rows) % 7
        indices[-1] = ROWS - 1 if function is not loss else 0
        x = X if function is not loss else X[:rows]
        sizes = {"n": len(x), "m": rows}
        bound = graph.bind(**{name: sizes[name] for name in graph.sizes})
        inputs = inputs_of(bound, {"x": x, "i": indices})
        compare(bound, inputs, kept_nodes(bound, "outputs"), 1e-4, threads=threads)


def test_negative_indices_count_from_the_end() -> None:
    def both(x: Any, y: Any, i: Any) -> Any:
        return np.sum(x[i] * y[i]) + np.sum(y[:, i] ** 2)

    y = np.random.default_rng(1).normal(size=(5, ROWS))
    graph = cr.backward(cr.trace(both, X, y, np.array([0, -1, -3, 4, -5])), wrt=("x", "y"))
    inputs = inputs_of(graph, {"x": X, "y": y, "i": np.array([0, -1, -3, 4, -5])})
    compare(graph, inputs, kept_nodes(graph, "named"), 1e-12)


@pytest.mark.parametrize("threads", [1, 3])
def test_no_parameter_is_overwritten_before_an_index_fails(threads: int) -> None:
    def update(W: Any, V: Any, i: Any) -> Any:
        y = cr.embedding(W, i) @ V
        return W - 0.1 * np.sum(y), V * 0.9 - y[0, 0]

    random = np.random.default_rng(1)
    W, V = random.normal(size=(9, 4)), random.normal(size=(4, 3))
    indices = np.array([0, 2, 8, 3])
    graph = cr.trace(update, W, V, indices)
    arrays = inputs_of(graph, {"W": W, "V": V, "i": indices})
    results = [node for _, node in graph.outputs]
    overwrites = dict(zip([item.node for item in graph.inputs[:2]], results, strict=True))
    compare(graph, arrays, results, 1e-12, overwrites=overwrites, threads=threads)
    arrays[graph.inputs[2].node] = np.array([0, 2, 9, 3])
    assert native(graph, arrays, results, overwrites, threads=threads) is None


def test_lanes_behind_the_last_index_do_not_fail() -> None:
    def program(x: Any, i: Any) -> Any:
        return cr.embedding(x[:, :1], i - 1)  # what is not there is read as 0, and 0 - 1 is bad

    for count in (1, 2, 3, 5, 9, 13, ROWS):
        indices = 1 + np.arange(count) % 7
        graph = cr.trace(program, X, indices)
        inputs = inputs_of(graph, {"x": X, "i": indices})
        compare(graph, inputs, kept_nodes(graph, "outputs"), 1e-12)
