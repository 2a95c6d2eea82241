"""Python has turns in long loops of compiled code: signals are seen, and other threads run."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.execute.native.runtime import machine


def long(x: Any) -> Any:
    return cr.fori_loop(0, 3_000_000, lambda i, x: np.cos(x @ x) + 0.1, x)


def without_end(x: Any) -> Any:
    return cr.while_loop(lambda s: np.sum(s) < 1e30, lambda s: np.sin(s) + 0.5, x)


def without_end_in_a_loop(x: Any) -> Any:
    return cr.scan(lambda s, _: (without_end(s), None), x, None, length=3)[0]


def without_end_in_a_choice(x: Any) -> Any:
    return cr.cond(np.sum(x) < 1e9, without_end_in_a_loop, lambda x: x, x)


def long_in_a_loop(x: Any) -> Any:
    return cr.scan(lambda s, _: (long(s), None), x, None, length=3)[0]


def long_and_shared(x: Any) -> Any:
    W = np.tile(x, (8, 8)) * 0.01
    return cr.scan(lambda s, _: (np.tanh(s @ W) + 0.1, None), W, None, length=100_000)[0]


def without_end_and_shared(x: Any) -> Any:
    """Threads wait for the one that Python called, which does the loop inside."""
    W = np.tile(x, (8, 8)) * 0.01

    def step(s: Any, _: Any) -> Any:
        endless = cr.while_loop(lambda t: t < 1e30, lambda t: np.sin(t), np.sum(s))
        return np.tanh(s @ W) + endless, None

    return cr.scan(step, W, None, length=3)[0]


def far_back(x: Any) -> Any:
    def total(x: Any) -> Any:
        def step(state: Any) -> Any:
            return state[0] + 1, np.sin(state[1]) + 0.5

        ended = cr.while_loop(lambda s: s[0] < 10**6, step, (0, x), max_steps=10**6)
        return np.sum(ended[1])

    return cr.grad(total)(x)


def endless_and_shared(x: Any) -> Any:
    W = np.tile(x, (6, 6)) * 0.01

    def step(s: Any) -> Any:
        ended = cr.while_loop(lambda t: t < 0.5, lambda t: t + 0.1, np.sum(s) * 0)
        return np.tanh(s @ W) + ended

    return cr.while_loop(lambda s: np.sum(s) < 1e30, step, W)


LONG = [
    *(long, long_in_a_loop, long_and_shared, far_back),
    *(
        endless_and_shared,
        without_end,
        without_end_in_a_loop,
        without_end_in_a_choice,
        without_end_and_shared,
    ),
]


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


@pytest.mark.parametrize("function", LONG, ids=lambda one: one.__name__)
def test_a_signal_is_seen_while_a_long_loop_runs(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops of 10 s or more, or without an end: Python has a turn every 20 ms or so."""
    monkeypatch.setattr(machine, "_default_threads", lambda: 2)
    x = np.random.default_rng(2).normal(size=(64, 64)).astype(np.float32)
    compiled = cr.trace(function, x).compile(executor="native", strict=True)
    compiled.plan()  # made before the clock runs
    for _ in range(2):  # a call after one that was stopped is as ever
        with alarm(0.2):
            compiled(x=x)


def test_what_a_signal_does_without_raising_changes_nothing() -> None:
    """Not even other compiled code that it runs, also on the threads."""

    def busy(x: Any) -> Any:
        return cr.scan(lambda s, _: (np.cos(s @ s) + 0.1, None), x, None, length=16_000)[0]

    x = np.random.default_rng(2).normal(size=(64, 64)).astype(np.float32)
    compiled = cr.trace(busy, x).compile(executor="native", strict=True)
    right, other = compiled(x=x), cr.compile(lambda x: np.sum(x @ x), executor="native")
    other(x)
    seen: list[Any] = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(other(x)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        found = compiled(x=x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen
    np.testing.assert_array_equal(found, right)


def test_other_threads_of_python_run_meanwhile() -> None:
    x = np.random.default_rng(2).normal(size=(64, 64)).astype(np.float32)
    compiled = cr.trace(without_end_in_a_loop, x).compile(executor="native", strict=True)
    ran: list[float] = []

    def ring() -> None:
        for _ in range(20):
            ran.append(time.perf_counter())
            time.sleep(0.005)
        signal.raise_signal(signal.SIGALRM)

    thread = threading.Thread(target=ring)
    with alarm(100):
        thread.start()
        compiled(x=x)
    thread.join()
    assert len(ran) == 20


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
