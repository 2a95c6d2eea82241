"""Measures how quick this machine is, for predictions of time: a product, a loop, a copy, NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import fsum
from time import perf_counter
from typing import Any

import numpy as np

from chainrule.execute import reference
from chainrule.execute.native.program import NativeProgram
from chainrule.execute.native.runtime.machine import settings_now
from chainrule.graph.graph import Graph
from chainrule.graph.types import array_type
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.plan.speeds import Speeds, scaled, speeds_of
from chainrule.tracing import trace

CALLS, SECONDS = 5, 0.02  # of each measurement at least
SIDE, LENGTH, LARGE = 384, 2**15, 2**22  # of matrices; of arrays in a cache, and far beyond
LEAST = 0.1  # of a ratio


def measured_speeds() -> Speeds:
    """The record of this machine: that of its vectors, its groups of numbers scaled as measured.

    Takes about a second, on one thread.  What a plan does never depends on it: give it to
    `step.tradeoff(speeds=)` and `step.fits(speeds=)`, for times on this machine.
    """
    known = speeds_of(settings_now(1).target.vector_nbytes)
    multiplying = _ratio(lambda x, y: x @ y, (SIDE, SIDE), known)
    computing = _ratio(lambda x, y: np.exp(x) + np.tanh(y), (LENGTH,), known)
    moving = _ratio(lambda x, y: x + y, (LARGE,), known)
    in_numpy = _numpy_ratio(lambda x, y: np.tanh(x @ y) + y, known)
    return scaled(known, products=multiplying, loops=computing, memory=moving, numpy=in_numpy)


def _ratio(function: Callable[..., Any], shape: tuple[int, ...], known: Speeds) -> float:
    """How many times as long as predicted compiled code takes, beyond the same on one element."""
    taken, predicted = 0.0, 0.0
    for sign, size in ((1, shape), (-1, (1,) * len(shape))):
        graph, given = _traced(function, size)
        results = [node for _, node in graph.outputs]
        program = NativeProgram(graph, results, settings=settings_now(1))
        taken += sign * _seconds(partial(program, given))
        predicted += sign * fsum(program.durations(known))
    return max(taken * 1e9 / predicted, LEAST)


def _numpy_ratio(function: Callable[..., Any], known: Speeds) -> float:
    graph, given = _traced(function, (SIDE, SIDE))
    results = [node for _, node in graph.outputs]
    predicted = sum(node_nanoseconds(node, known.numpy) for node in graph.nodes)
    return _seconds(lambda: reference.evaluate(graph, given, results)) * 1e9 / predicted


def _traced(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> tuple[Graph, dict[Any, np.ndarray]]:
    """The graph of a function of two arrays, and these."""
    type_ = array_type(np.dtype(np.float32), shape)
    graph = trace(function, x=type_, y=type_)
    return graph, {item.node: np.full(shape, 0.5, np.float32) for item in graph.inputs}


def _seconds(call: Callable[[], Mapping[Any, Any]]) -> float:
    """The least that a call takes: others may use the processor, too."""
    call()
    found: list[float] = []
    while len(found) < CALLS or sum(found) < SECONDS:
        begun = perf_counter()
        call()
        found.append(perf_counter() - begun)
    return min(found)
