"""Loops and choices are instructions of compiled code: Python takes no part in them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import InputError, StepLimitError
from chainrule.execute import reference
from chainrule.execute.native.runtime import machine

X = np.random.default_rng(0).normal(size=(9, 3))


@pytest.fixture
def no_numpy(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called on, NumPy evaluates no node."""

    def refused(*_: Any) -> Any:
        raise AssertionError("NumPy evaluates a node")

    return lambda: monkeypatch.setattr(reference, "apply", refused)


def choice_in_a_loop(x: Any) -> Any:
    def step(s: Any, row: Any) -> Any:
        s = cr.cond(row[0] > 0, lambda s: np.sin(s) + row, lambda s: s * row[1], s)
        return s, s

    return cr.scan(step, np.zeros(3), x)


def loop_in_a_loop(x: Any) -> Any:
    def step(s: Any, row: Any) -> Any:
        inner, rows = cr.scan(lambda t, y: (t * 0.5 + y, t), s, np.outer(row, row))
        return inner, np.sum(rows)

    return cr.scan(step, x[0], x, reverse=True)


def loop_in_a_choice(x: Any) -> Any:
    def summed(x: Any) -> Any:
        return cr.scan(lambda t, row: (t + row**2, None), np.zeros(3), x)[0]

    return cr.cond(np.sum(x) > 0, summed, lambda x: x[0] * x[1], x)


def while_it_holds(x: Any) -> Any:
    def more(state: Any) -> Any:
        return (state[0] < 7) & (np.sum(state[1]) < 1e6)

    return cr.while_loop(more, lambda state: (state[0] + 1, state[1] * 2 + x), (0, x))


def bounded_in_a_loop(x: Any) -> Any:
    def step(s: Any, row: Any) -> Any:
        grown = cr.while_loop(
            lambda t: np.sum(t**2) < 50, lambda t: t * 1.5 + 0.1, s + row, max_steps=30
        )
        return grown * 0.01, np.sum(grown)

    return cr.scan(step, np.zeros(3), x)


def no_iterations(x: Any) -> Any:
    return cr.scan(lambda s, row: (s + row, s), x[0], x[:0])


def one_iteration(x: Any) -> Any:
    return cr.scan(lambda s, row: (s @ s + row, s), x[0], x[:1])


def of_several_dtypes(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        count, total, low = state
        return (count + 1, total + row, np.minimum(low, row.astype(np.float32))), (count, total)

    return cr.scan(step, (np.int64(0), x[0], x[0].astype(np.float32)), x)


FLOWS = [
    *(choice_in_a_loop, loop_in_a_loop, loop_in_a_choice, while_it_holds, bounded_in_a_loop),
    *(no_iterations, one_iteration, of_several_dtypes),
]


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple | list):
        return [leaf for one in value for leaf in leaves(one)]
    return [np.asarray(value)]


@pytest.mark.parametrize("x", [X, -X, np.full((9, 3), np.nan)], ids=["some", "others", "nan"])
@pytest.mark.parametrize("function", FLOWS, ids=lambda one: one.__name__)
def test_results_are_those_of_the_reference(function: Any, x: np.ndarray, no_numpy: Any) -> None:
    compiled = cr.trace(function, x).compile(executor="native", strict=True)
    right = leaves(function(x))
    no_numpy()
    for _ in range(3):  # memory of a call is used again
        found = leaves(compiled(x=x))
        assert [one.dtype for one in found] == [one.dtype for one in right]
        for one, other in zip(found, right, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


DIFFERENTIABLE = [choice_in_a_loop, loop_in_a_loop, loop_in_a_choice, one_iteration]


@pytest.mark.parametrize("function", DIFFERENTIABLE, ids=lambda one: one.__name__)
def test_derivatives_of_both_orders_are_those_of_the_reference(function: Any) -> None:
    def total(x: Any) -> Any:
        return sum(np.sum(np.tanh(one)) for one in function(x)[:]) + np.sum(x**2)

    for derived in (cr.grad(total), cr.hessian(total)):
        graph = cr.trace(derived, X)
        found = graph.compile(executor="native", strict=True)(x=X)
        np.testing.assert_allclose(found, graph.run(x=X).outputs, rtol=1e-10, atol=1e-12)


def shared(x: Any, W: Any) -> Any:
    """Iterations that several threads share, in a loop of such loops."""

    def step(s: Any, row: Any) -> Any:
        inner, _ = cr.scan(lambda t, y: (np.tanh(t @ W + y), None), s, x[:3])
        return inner + row, np.sum(inner)

    return cr.scan(step, x[0], x)


def test_threads_give_the_bits_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    given = {"x": random.normal(size=(20, 96, 128)), "W": random.normal(size=(128, 128)) * 0.1}
    graph = cr.trace(shared, **given)
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(machine, "_default_threads", lambda threads=threads: threads)
        compiled = graph.compile(executor="native", strict=True)
        calls = [leaves(compiled(**given)) for _ in range(5)]
        for one in calls:
            assert [x.tobytes() for x in one] == [x.tobytes() for x in calls[0]]
        found.append(calls[0])
    for one in found:
        for x, y in zip(one, leaves(shared(**given)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10)


def copied_for_a_choice(x: Any) -> Any:
    return cr.cond(np.sum(x) > 0, lambda y: y + 1, lambda y: y * 2, np.sin(x).T)


def copied_for_a_while_loop(x: Any) -> Any:
    return cr.while_loop(lambda y: np.sum(y) < 1e4, lambda y: y * 1.1 + 1, np.sin(x)[::-1])


def copied_for_a_loop(x: Any) -> Any:
    swapped = cr.scan(lambda s, _: (s[::-1], None), (np.sin(x), np.cos(x)), None, length=3)
    return swapped[0][0]


def loops_in_two_functions(x: Any) -> Any:
    """Python has turns in the loop between, so what is before and after it are two functions."""

    def step(y: Any, _: Any) -> Any:
        return np.sin(y), None

    first = cr.scan(step, x, None, length=3)[0]
    between = cr.while_loop(lambda y: y < 3, lambda y: y + 1, np.sum(first) * 0)
    return cr.scan(step, first + between, None, length=3)[0]


COPIED = [copied_for_a_choice, copied_for_a_while_loop, copied_for_a_loop]


@pytest.mark.parametrize(
    "function", [*COPIED, loops_in_two_functions], ids=lambda one: one.__name__
)
def test_threads_share_what_is_large(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(4).normal(size=(300, 200))
    monkeypatch.setattr(machine, "_default_threads", lambda: 2)
    compiled = cr.trace(function, x).compile(executor="native", strict=True)
    for given in (x, -x):
        np.testing.assert_allclose(compiled(x=given), function(given), rtol=1e-12, atol=1e-12)


def test_too_many_iterations_are_told_by_the_limit() -> None:
    def endless(x: Any) -> Any:
        return cr.while_loop(lambda s: np.all(s < 1e9), lambda s: s + 1, x, max_steps=20)

    compiled = cr.trace(endless, X).compile(executor="native", strict=True)
    with pytest.raises(StepLimitError, match="has not ended after max_steps=20 iterations"):
        compiled(x=X)
    assert leaves(compiled(x=X + 1e9))[0].shape == X.shape  # a call after it is as ever


@pytest.mark.parametrize("taken", [True, False])
def test_an_index_fails_where_it_is_read_and_nowhere_else(taken: bool) -> None:
    def read(table: Any, at: Any, x: Any) -> Any:
        def step(s: Any, i: Any) -> Any:
            return cr.cond(x > 0, lambda s: s + table[i], lambda s: s - 1, s), None

        return cr.scan(step, 0.0, at)[0]

    given = {"table": np.arange(4.0), "at": np.array([1, 9, 2]), "x": 1.0 if taken else -1.0}
    compiled = cr.trace(read, **given).compile(executor="native", strict=True)
    if taken:
        with pytest.raises((InputError, IndexError), match="9") as caught:
            compiled(**given)
        assert __file__ in str(caught.value)
    else:
        assert compiled(**given) == -3.0
    assert compiled(**{**given, "at": np.array([1, 3, 2]), "x": 1.0}) == 6.0


def long(x: Any) -> Any:
    return cr.fori_loop(0, 3_000_000, lambda i, x: np.cos(x @ x) + 0.1, x)


def without_end(x: Any) -> Any:
    return cr.while_loop(lambda s: np.sum(s) < 1e30, lambda s: np.sin(s) + 0.5, x)


class Alarm(Exception):
    """What a signal raises."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """A signal after so many seconds, which raises Alarm; it has to be seen before long."""

    def ring(*_: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    begun = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with pytest.raises(Alarm):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - begun < 20


@pytest.mark.parametrize("function", [long, without_end], ids=lambda one: one.__name__)
def test_a_signal_is_seen_while_a_long_loop_runs(function: Any) -> None:
    """Loops of 30 s, or without an end: machine code gives Python a turn every 40 ms or so."""
    x = np.random.default_rng(2).normal(size=(64, 64)).astype(np.float32)
    compiled = cr.trace(function, x).compile(executor="native", strict=True)
    with alarm(0.3):
        compiled(x=x)


def test_a_step_that_a_signal_stops_has_updated_nothing() -> None:
    """Of two parameters one could be updated before the loop."""

    def objective(x: Any, W: Any, V: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            h = np.tanh(h @ W) + x[:1]
            return h, h

        h, hs = cr.scan(step, x[:1], None, length=100_000)
        return np.mean(np.tanh(x @ V) ** 2) + np.mean(h**2) + np.mean(hs)

    random = np.random.default_rng(3)
    x, W, V = (random.normal(size=(n, 48)).astype(np.float32) * 0.1 for n in (2000, 48, 48))
    step = cr.training_step(objective, ("V", "W"), cr.sgd(0.1), executor="native", x=x, W=W, V=V)
    state = step.init(W=W, V=V)
    step(state, x=x)  # compiled
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        step(state, x=x)
        taken.append(time.perf_counter() - begun)
    for part in (0.03, 0.1, 0.3):  # well before it ends, also in a quicker moment
        before = state["V"].copy(), state["W"].copy()
        with alarm(part * min(taken)):
            step(state, x=x)
        np.testing.assert_array_equal(state["V"], before[0])
        np.testing.assert_array_equal(state["W"], before[1])
