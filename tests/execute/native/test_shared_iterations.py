"""Threads share the iterations of loops that carry nothing: each does whole iterations alone."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from executing import compare, inputs_of, native, planned

import chainrule as cr
from chainrule.execute.native.runtime import machine
from chainrule.graph.graph import Graph
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.work import parts_inside

RANDOM = np.random.default_rng(3)
W = RANDOM.normal(size=(48, 48)).astype(np.float32)
X = RANDOM.normal(size=(8, 48, 48)).astype(np.float32)


def products(x: Any, W: Any) -> Any:
    def one(_: Any, row: Any) -> Any:
        return None, np.tanh(row @ W) @ row

    return cr.scan(one, None, x)[1]


def copied_rows(x: Any, W: Any) -> Any:
    """Rows are transposed for each iteration: in memory of its thread."""

    def one(_: Any, row: Any) -> Any:
        return None, (cr.softmax(row @ W), np.sum(row, axis=0))

    return cr.scan(one, None, np.transpose(x, (0, 2, 1)), reverse=True)[1]


def loops_inside(x: Any, W: Any) -> Any:
    def one(_: Any, row: Any) -> Any:
        return None, cr.scan(lambda s, r: (0.1 * np.sin(s @ W * 0.02) + r, s), row[0], row)

    return cr.scan(one, None, x)[1]


def indices(x: Any, W: Any) -> Any:
    def one(_: Any, row: Any) -> Any:
        place = np.sum(row).astype(np.int64) % 48
        return None, np.tanh(row @ W)[place] * row

    return cr.scan(one, None, x)[1]


def small(x: Any, W: Any) -> Any:
    return cr.scan(lambda _, row: (None, row * 2), None, x[:, 0, :2])[1]


def carrying(x: Any, W: Any) -> Any:
    return cr.scan(lambda s, row: (np.tanh(s @ W), row @ s), W, x)[1]


def much_memory(x: Any, W: Any) -> Any:
    """Each iteration makes large arrays of a short row, and leaves a number."""

    def one(_: Any, row: Any) -> Any:
        return None, np.sum(np.tanh(np.outer(row, row) @ W) @ W)

    return cr.scan(one, None, x[:, 0])[1]


SHARED = products, copied_rows, loops_inside


def loops(graph: Graph, threads: int) -> list[FlowWork]:
    results = [node for _, node in graph.outputs]
    works = planned(graph, results, threads=threads).works
    return [one for one in works if isinstance(one, FlowWork)]


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("function", SHARED, ids=lambda one: one.__name__)
def test_values_are_those_of_one_thread(function: Any, count: int) -> None:
    """To the bit, on memory between guards; with three threads as well."""
    graph = cr.trace(function, X[:count], W)
    results, inputs = (
        [node for _, node in graph.outputs],
        inputs_of(graph, {"x": X[:count], "W": W}),
    )
    alone = native(graph, inputs, results)
    assert alone is not None
    for threads in (2, 3):
        got = native(graph, inputs, results, threads=threads)
        assert got is not None
        for node in results:
            np.testing.assert_array_equal(got[node], alone[node])
    compare(graph, inputs, results, 1e-5, threads=2)


def test_threads_that_work_at_the_same_time_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterations long enough for the second thread to come, in several calls."""
    x = RANDOM.normal(size=(6, 192, 192)).astype(np.float32)
    W = RANDOM.normal(size=(192, 192)).astype(np.float32)
    wanted = cr.trace(copied_rows, x, W).run(x=x, W=W, executor="reference")
    monkeypatch.setattr(machine, "_default_threads", lambda: 2)
    compiled = cr.trace(copied_rows, x, W).compile(executor="native", strict=True)
    for _ in range(20):
        for name, got in zip(("out[0]", "out[1]"), compiled(x=x, W=W), strict=True):
            np.testing.assert_allclose(got, wanted[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("function", SHARED, ids=lambda one: one.__name__)
def test_iterations_are_shared(function: Any) -> None:
    (work,) = loops(cr.trace(function, X, W), threads=2)
    assert work.parts == len(X)
    assert parts_inside(work) == 1


def test_memory_is_that_of_each_thread() -> None:
    graph = cr.trace(products, X, W)
    (alone,), (two,), (three,) = (loops(graph, threads) for threads in (1, 2, 4))
    assert two.own_nbytes > 0
    assert (two.workspace_nbytes, three.workspace_nbytes) == (
        2 * two.own_nbytes,
        4 * two.own_nbytes,
    )
    assert alone.workspace_nbytes == two.own_nbytes


@pytest.mark.parametrize("function", [indices, small, carrying, much_memory])
def test_other_loops_are_not_shared(function: Any) -> None:
    """What may stop the run, takes no time, needs the iteration before, or much memory."""
    for work in loops(cr.trace(function, X, W), threads=2):
        assert work.parts == 1


def test_a_few_iterations_that_threads_cannot_share_evenly_are_not_shared() -> None:
    assert [one.parts for one in loops(cr.trace(products, X[:3], W), threads=2)] == [1]
    assert [one.parts for one in loops(cr.trace(products, X[:5], W), threads=2)] == [5]


def test_the_plan_says_who_does_what() -> None:
    graph = cr.trace(products, X, W)
    text = str(planned(graph, [node for _, node in graph.outputs], threads=2))
    assert "8 iterations of compiled code  2 threads: each does some" in text


def long(x: Any, W: Any) -> Any:
    """Hours: each thread in a loop of its own."""

    def one(_: Any, row: Any) -> Any:
        return None, cr.fori_loop(0, 100_000_000, lambda i, s: np.tanh(s @ W) + 0.1, row)

    return cr.scan(one, None, x)[1]


def test_a_signal_is_seen_while_threads_do_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the thread that Python called gives it turns; the others stop with it."""
    monkeypatch.setattr(machine, "_default_threads", lambda: 2)
    graph = cr.trace(long, X, W)
    assert loops(graph, threads=2)[0].parts > 1
    compiled = graph.compile(executor="native", strict=True)
    compiled.plan()
    seen: list[int] = []

    def ring(*_: Any) -> None:
        seen.append(threading.get_ident())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    begun = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            compiled(x=X, W=W)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == [threading.main_thread().ident]
    assert time.perf_counter() - begun < 60
