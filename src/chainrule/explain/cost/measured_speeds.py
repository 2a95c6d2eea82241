"""Measures how quick this machine is, for predictions of time: a product, a loop, a copy, NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import fsum, inf
from time import perf_counter_ns
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
from chainrule.plan.work import ProductWork
from chainrule.tracing import trace

# In turns, of which the least counts: another process, or another machine on the same processor,
# seldom disturbs all of them.
TURNS, CALLS, SECONDS = 3, 2, 0.01
# The same for all threads: a virtual machine may move a second thread to a core of its own only
# when it has worked for a tenth of a second.
TOGETHER = 0.15
SIDE, LARGE, LENGTH = 384, 768, 2**15  # of matrices, also for all threads; of arrays in a cache
ROWS, WIDTH, LINKS = (128, 1024), 128, 8  # of layers that threads compute: few rows, and many
STREAMED = tuple(2**k for k in range(15, 24, 2))  # lengths of arrays near and far
LEAST = 0.1  # of a ratio
# Nanoseconds for which arrays of so many numbers are left alone, to see whether a cache keeps them.
PAUSES, LEFT = tuple(1e6 * 2**k for k in range(5)), 2**17


def measured_speeds() -> Speeds:
    """The record of this machine: that of its vectors, its groups of numbers scaled as measured,
    and levels of memory of its own.

    Takes one or two seconds.  What a plan does never depends on it: give it to
    `step.tradeoff(speeds=)` and `step.fits(speeds=)`, for times on this machine.
    """
    settings = settings_now()
    known = speeds_of(settings.target.vector_nbytes)
    multiplying = _Probe(_product, (SIDE, SIDE), known)
    by_blas = _Probe(_product, (LARGE, LARGE), known)
    together = _Probe(_product, (LARGE, LARGE), known, settings.threads)
    computing = _Probe(lambda x, y: np.exp(x) + np.tanh(y), (LENGTH,), known)
    adding = [_Probe(lambda x, y: x + y, (length,), known) for length in STREAMED]
    in_numpy = _InNumPy(lambda x, y: np.tanh(x @ y) + y, known)
    chains = [
        [_Probe(_chain, (rows, WIDTH), known, count) for count in (1, settings.threads)]
        for rows in ROWS
    ]
    probes = [multiplying, by_blas, computing, *adding, in_numpy]
    probes += [together, *chains[0], *chains[1]] if settings.threads > 1 else []
    for _ in range(TURNS):
        for one in probes:
            one.turn()
    products, levels = multiplying.ratio, tuple(_levels(known, adding))
    found = scaled(known, products=products, loops=computing.ratio, numpy=in_numpy.ratio)
    if settings.threads > 1:
        crowding = max(1.0, together.ratio / by_blas.ratio)
        more = [
            (shared.nanoseconds - alone.nanoseconds * crowding / settings.threads) / LINKS
            for alone, shared in chains
        ]
        sharing, exchanging = _meeting(more, known)
        found = replace(found, crowding=crowding, sharing=sharing, exchanging=exchanging)
    return replace(
        found,
        memory=levels,
        kept=_kept(adding[STREAMED.index(LEFT)], levels),
        blas=by_blas.ratio / products if by_blas.is_by_blas else 1.0,
    )


def _meeting(more: Sequence[float], known: Speeds) -> tuple[float, float]:
    """What threads take to meet, and for a byte that others have: from what two layers take longer
    than shared evenly, in each of which they meet twice, and pass on two matrices."""
    small, large = (2 * rows * WIDTH * np.float32().nbytes for rows in ROWS)
    exchanging = max(0.0, (more[1] - more[0]) / (large - small))
    sharing = (more[0] - exchanging * small) / 2
    return max(LEAST * known.sharing, sharing), exchanging


def _levels(known: Speeds, adding: Sequence[_Probe]) -> Iterator[Level]:
    """The levels of memory, each as quick as arrays of half its size are added in it; the nearest
    is not measured, and none is quicker than those before it."""
    nearest = known.memory[0]
    yield nearest
    most = nearest.nbytes_each_nanosecond
    for length, probe in zip(STREAMED, adding, strict=True):
        nbytes = 3 * length * np.float32().nbytes
        most = min(most, nbytes / (known.moving(nbytes) * probe.ratio))
        yield Level(2.0 * nbytes if length != STREAMED[-1] else known.memory[-1].nbytes, most)


def _kept(adding: _Probe, levels: Sequence[Level]) -> float:
    """For how many nanoseconds arrays that nobody touches stay nearer than the last level: until
    they are more than half way from there, as their sum tells.  Infinite where they stayed."""
    nbytes = 3 * LEFT * np.float32().nbytes
    near = next(one for one in levels if nbytes <= one.nbytes)
    rates = near.nbytes_each_nanosecond, levels[-1].nbytes_each_nanosecond
    limit = sum(nbytes / one for one in rates) / 2
    stayed = 0.0
    for pause in PAUSES:
        if adding.after(pause) > limit:
            return (stayed + pause) / 2
        stayed = pause
    return inf


def _product(x: Any, y: Any) -> Any:
    return x @ y


def _chain(x: Any, y: Any) -> Any:
    """Layers of which each reads what threads wrote in the one before."""
    for _ in range(LINKS):
        x = np.tanh(x @ y[:WIDTH])
    return x


class _Probe:
    """Compiled code of a function of two arrays: how many times as long as predicted it takes,
    beyond the same on one element."""

    def __init__(
        self, function: Callable[..., Any], shape: tuple[int, ...], known: Speeds, threads: int = 1
    ) -> None:
        self.seconds = TOGETHER if threads > 1 and function is _product else SECONDS
        self.programs: list[tuple[NativeProgram, dict[Any, np.ndarray]]] = []
        for size in (shape, (1,) * len(shape)):
            graph, given = _traced(function, size)
            results = [node for _, node in graph.outputs]
            program = NativeProgram(graph, results, settings=settings_now(threads))
            self.programs.append((program, given))
        self.predicted = [fsum(program.durations(known)) for program, _ in self.programs]
        self.least = [inf, inf]

    @property
    def is_by_blas(self) -> bool:
        """Whether BLAS does it."""
        works = self.programs[0][0].plan.works
        return any(isinstance(w, ProductWork) and w.calls[0].by_routine for w in works)

    def turn(self) -> None:
        """Measure once more."""
        for place, (program, given) in enumerate(self.programs):
            seconds = SECONDS / 5 if place else self.seconds
            taken = least_nanoseconds(partial(program, given), CALLS, seconds)
            self.least[place] = min(self.least[place], taken)

    def after(self, pause: float) -> float:
        """The least nanoseconds of some calls, beyond those on one element, each after a time in
        which nothing else is touched."""
        found: list[float] = []
        for program, given in self.programs:
            taken: list[float] = []
            for _ in range(TURNS):
                until = perf_counter_ns() + pause
                while perf_counter_ns() < until:
                    pass
                begun = perf_counter_ns()
                program(given)
                taken.append(perf_counter_ns() - begun)
            found.append(min(taken))
        return found[0] - found[1]

    @property
    def nanoseconds(self) -> float:
        """The least of all turns, beyond one element."""
        return self.least[0] - self.least[1]

    @property
    def ratio(self) -> float:
        """The same by what was predicted."""
        return max(self.nanoseconds / (self.predicted[0] - self.predicted[1]), LEAST)


class _InNumPy:
    """The same of NumPy, which has nothing to take off."""

    def __init__(self, function: Callable[..., Any], known: Speeds) -> None:
        self.graph, self.given = _traced(function, (SIDE, SIDE))
        self.predicted = sum(node_nanoseconds(node, known.numpy) for node in self.graph.nodes)
        self.least = inf

    def turn(self) -> None:
        """Measure once more."""
        results = [node for _, node in self.graph.outputs]

        def call() -> object:
            return reference.evaluate(self.graph, self.given, results)

        self.least = min(self.least, least_nanoseconds(call, CALLS, SECONDS))

    @property
    def ratio(self) -> float:
        """The least of all turns, by what was predicted."""
        return self.least / self.predicted


def _traced(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> tuple[Graph, dict[Any, np.ndarray]]:
    """The graph of a function of two arrays, and these."""
    type_ = array_type(np.dtype(np.float32), shape)
    graph = trace(function, x=type_, y=type_)
    return graph, {item.node: np.full(shape, 0.5, np.float32) for item in graph.inputs}
