"""Iterations of a loop are machine code, without Python between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import InputError
from chainrule.execute.native.plan_to_ir.bodies import Iterations

RANDOM = np.random.default_rng(0)


@pytest.fixture
def no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python calls no iteration."""

    def called(self: Iterations, inputs: Any) -> Any:
        raise AssertionError("Python called an iteration")

    monkeypatch.setattr(Iterations, "__call__", called)


def swapped(xs: Any, h: Any) -> Any:
    """States change places, and results are given values."""

    def cell(state: Any, x: Any) -> Any:
        a, b, count = state
        return (b, a + x, count + 1), (a, x, a + x, a + x, count)

    (a, b, count), rows = cr.scan(cell, (h, 2 * h, np.int64(0)), xs)
    return a, b, count, *rows


def batch_first(xs: Any, h: Any) -> Any:
    """The rows do not lie in C order."""
    h, hs = cr.scan(lambda h, x: (np.tanh(h + x), h * x), xs[:, 0], np.swapaxes(xs, 0, 1))
    return h, hs


def numbers(xs: Any, h: Any) -> Any:
    """States and rows of one element."""
    total, sums = cr.scan(lambda t, x: (t + np.sin(x), t), np.sum(h), xs[:, 0, 0], reverse=True)
    return total, sums


def counted(xs: Any, h: Any) -> Any:
    """No rows at all."""
    return cr.fori_loop(0, 9, lambda i, h: np.cos(h) + i, h) + xs[0]


def empty(xs: Any, h: Any) -> Any:
    h, hs = cr.scan(lambda h, x: (h, np.sum(x)), h[:0], xs)
    return h, hs


def backwards(xs: Any, h: Any) -> Any:
    return cr.scan(lambda h, x: (h * x + 1, h), h, xs, reverse=True)


def leaves(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize(
    "function", [swapped, batch_first, numbers, counted, empty, backwards]
)  # fmt: skip
def test_results_are_those_of_the_reference(no_python: None, function: Any) -> None:
    xs, h = RANDOM.normal(size=(7, 5, 40)), RANDOM.normal(size=(5, 40))
    graph = cr.trace(function, xs, h)
    expected = graph.compile(executor="reference")(xs=xs, h=h)
    compiled = graph.compile(executor="native")
    for _ in range(2):  # the second call finds the memory of the first
        found = compiled(xs=xs, h=h)
        for one, other in zip(leaves(found), leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, strict=True)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_gradient_goes_back_by_machine_code_too(no_python: None, reverse: bool) -> None:
    def loss(W: Any, xs: Any) -> Any:
        h, _ = cr.scan(lambda h, x: (np.tanh(x + h @ W), None), xs[0], xs, reverse=reverse)
        return np.sum(h**2)

    W, xs = RANDOM.normal(size=(8, 8)) / 3, RANDOM.normal(size=(30, 4, 8))
    found = cr.grad(loss, executor="native")(W, xs)
    np.testing.assert_allclose(found, cr.grad(loss, executor="reference")(W, xs), rtol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_an_index_out_of_range_stops_in_its_iteration(reverse: bool) -> None:
    def chosen(table: Any, at: Any) -> Any:
        return cr.scan(lambda t, i: (t + table[i], None), 0.0, at, reverse=reverse)[0]

    at = np.array([0, 1, 2, 0, 7, 1, 2, 0])
    table = np.arange(3.0)
    compiled = cr.trace(chosen, table, at).compile(executor="native")
    with pytest.raises((InputError, IndexError), match="7") as caught:
        compiled(table=table, at=at)
    assert __file__ in str(caught.value)
    right = np.minimum(at, 2)
    assert compiled(table=table, at=right) == table[right].sum()
