"""Measures how quick this machine is, for predictions of time: a product, a loop, a copy, NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import fsum
from typing import Any

import numpy as np

from chainrule.execute import reference
from chainrule.execute.native.program import NativeProgram
from chainrule.execute.native.runtime.machine import settings_now
from chainrule.explain.cost.measured_runs import least_nanoseconds
from chainrule.graph.graph import Graph
from chainrule.graph.types import array_type
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.plan.speeds import Level, Speeds, scaled, speeds_of
from chainrule.tracing import trace

CALLS, SECONDS = 5, 0.02  # of each measurement at least
# The same for all threads: a virtual machine may move a second thread to a core of its own only
# when it has worked for a tenth of a second.
TOGETHER = 0.3
SIDE, LARGE, LENGTH = 384, 768, 2**15  # of matrices, also for all threads; of arrays in a cache
STREAMED = tuple(2**k for k in range(15, 24, 2))  # lengths of arrays near and far
LEAST = 0.1  # of a ratio


def measured_speeds() -> Speeds:
    """The record of this machine: that of its vectors, its groups of numbers scaled as measured,
    and levels of memory of its own.

    Takes one or two seconds.  What a plan does never depends on it: give it to
    `step.tradeoff(speeds=)` and `step.fits(speeds=)`, for times on this machine.
    """
    settings = settings_now()
    known = speeds_of(settings.target.vector_nbytes)
    multiplying = _ratio(_product, (SIDE, SIDE), known)
    computing = _ratio(lambda x, y: np.exp(x) + np.tanh(y), (LENGTH,), known)
    in_numpy = _numpy_ratio(lambda x, y: np.tanh(x @ y) + y, known)
    found = scaled(known, products=multiplying, loops=computing, numpy=in_numpy)
    crowding = 1.0
    if settings.threads > 1:
        together = _ratio(_product, (LARGE, LARGE), known, settings.threads)
        crowding = max(1.0, together / _ratio(_product, (LARGE, LARGE), known))
    return replace(found, memory=tuple(_levels(known)), crowding=crowding)


def _levels(known: Speeds) -> Iterator[Level]:
    """The levels of memory, each as quick as arrays of half its size are added in it; the nearest
    is not measured, and none is quicker than those before it."""
    nearest = known.memory[0]
    yield nearest
    most = nearest.nbytes_each_nanosecond
    for length in STREAMED:
        nbytes = 3 * length * np.float32().nbytes
        taken = known.moving(nbytes) * _ratio(lambda x, y: x + y, (length,), known)
        most = min(most, nbytes / taken)
        yield Level(2.0 * nbytes if length != STREAMED[-1] else known.memory[-1].nbytes, most)


def _product(x: Any, y: Any) -> Any:
    return x @ y


def _ratio(
    function: Callable[..., Any], shape: tuple[int, ...], known: Speeds, threads: int = 1
) -> float:
    """How many times as long as predicted compiled code takes, beyond the same on one element."""
    taken, predicted = 0.0, 0.0
    for sign, size in ((1, shape), (-1, (1,) * len(shape))):
        graph, given = _traced(function, size)
        results = [node for _, node in graph.outputs]
        program = NativeProgram(graph, results, settings=settings_now(threads))
        seconds = SECONDS if threads == 1 else TOGETHER
        taken += sign * least_nanoseconds(partial(program, given), CALLS, seconds)
        predicted += sign * fsum(program.durations(known))
    return max(taken / predicted, LEAST)


def _numpy_ratio(function: Callable[..., Any], known: Speeds) -> float:
    graph, given = _traced(function, (SIDE, SIDE))
    results = [node for _, node in graph.outputs]
    predicted = sum(node_nanoseconds(node, known.numpy) for node in graph.nodes)
    taken = least_nanoseconds(lambda: reference.evaluate(graph, given, results), CALLS, SECONDS)
    return taken / predicted


def _traced(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> tuple[Graph, dict[Any, np.ndarray]]:
    """The graph of a function of two arrays, and these."""
    type_ = array_type(np.dtype(np.float32), shape)
    graph = trace(function, x=type_, y=type_)
    return graph, {item.node: np.full(shape, 0.5, np.float32) for item in graph.inputs}
