"""Measures how quick this machine is, for predictions of time: a product, a loop, a copy, NumPy.

Each probe is a small program whose instructions are timed one by one.  What it takes is set beside
what is predicted for it, and gives a few factors by which the record of the processor's vectors is
scaled: of products, of loops, of each level of memory, of NumPy, of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from math import fsum, inf
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass, replace
from chainrule.execute import reference
from chainrule.execute.native.runtime.machine import plan_for, settings_now
from chainrule.execute.native.stamped import Stamped
from chainrule.explain.cost.caches import cache_nbytes
from chainrule.explain.cost.measured_runs import least_nanoseconds
from chainrule.graph.graph import Graph
from chainrule.graph.types import array_type
from chainrule.plan.duration import plan_nanoseconds
from chainrule.plan.nest_duration import OVERLAP
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.plan.speeds import Level, Speeds, scaled, speeds_of
from chainrule.plan.work import ProductWork
from chainrule.tracing import trace


@dataclass(frozen=True)
class Effort:
    """How much is measured: the least of so many turns, of so many seconds each, counts, as other
    processes, or other machines on the same processor, seldom disturb all of them.

    Of what other processors bring into the last cache, `waits` tell.
    `together` are the seconds of a turn of all threads: a virtual machine may move a second thread
    to a core of its own only when it has worked for a tenth of a second.  `side` is of matrices,
    `length` of arrays in a cache.  `passes`: what threads pass to each other in products is
    measured, too.
    """

    turns: int
    seconds: float
    together: float
    side: int
    length: int
    waits: int
    passes: bool


THOROUGH = Effort(3, 0.01, 0.15, 384, 2**15, waits=15, passes=True)
QUICK = Effort(2, 0.001, 0.005, 384, 2**13, waits=5, passes=False)
LARGE = 768  # a side of matrices that BLAS may multiply
SHARED = 4, 32  # times the length of arrays, of loops that threads share
ROWS, WIDTH, LINKS = (128, 1024), 128, 8  # of layers that threads compute: few rows, and many
LEAST, MOST, WILD = 0.1, 10.0, 2.5  # of a ratio; one beyond the last is measured again
# Threads that take longer than this share memory or a core, or others work there just now: they are
# measured so often again.  Those that still take so many times as long have fewer cores than they
# are; what they would take is unknown, 0.
LONGER, AGAIN, CROWDED, UNKNOWN = 1.1, 3, 1.9, 0.0
CALLS = 5  # in a turn, at least
FEW = 64  # a side of matrices that one thread of BLAS multiplies
# A level holds so much of a cache of a core, and of the last one, which others share; arrays that
# are measured have so much of it together, or so many times what the last one holds.
HELD, SHARED_HELD, INSIDE, BEYOND, MOST_NBYTES = 0.8, 0.4, 0.3, 1.5, 1 << 27
# Seconds after which a part of what lay in the last cache is gone, and how much is more than noise.
WAIT, SOME = 0.004, 0.05
NEAR = (Level(inf, inf),)  # nothing comes from farther
MOVED = 1.5  # bytes for each of two that are read: the lines to write are fetched, too


def measured_speeds() -> Speeds:
    """The record of this machine: that of its vectors, its groups of numbers scaled as measured,
    and levels of memory of its own.

    Takes one or two seconds.  What a plan does never depends on it: give it to
    `step.tradeoff(speeds=)` and `step.fits(speeds=)`, for times on this machine as it is now.  By
    default they have those of a calibration, which took a fifth of a second once.
    """
    return measured(THOROUGH, settings_now().threads)


def measured(effort: Effort, threads: int) -> Speeds:
    """The speeds of this machine where plans have so many threads; `crowding` is UNKNOWN where the
    threads had no cores of their own."""
    known = speeds_of(settings_now(1).target.vector_nbytes)
    multiplying = _Probe(_product, (effort.side,) * 2, known)
    large = _Probe(_product, (LARGE, LARGE), known)
    computing = _Probe(_curve, (effort.length,), known, is_near=True)
    beginning = _Probe(_scaled, (1,), known)
    moving = [_Probe(_scaled, (length,), known) for length in _lengths()]
    in_numpy = _InNumPy(lambda x, y: np.tanh(x @ y) + y, known)
    probes = [multiplying, computing, beginning, *moving, in_numpy]
    _take_turns([*probes, large] if large.is_by_blas or effort.passes else probes, effort)
    found = scaled(known, products=multiplying.ratio, loops=computing.ratio, numpy=in_numpy.ratio)
    found = replace(
        found,
        instruction=max(beginning.nanoseconds - found.row, 1.0),
        blas=large.ratio / multiplying.ratio if large.is_by_blas else 1.0,
    )
    found = replace(found, memory=tuple(_levels(found, moving)))
    found = replace(found, others=_others(found, moving[-2], effort.waits))
    if threads == 1:
        return found
    if effort.passes:
        return _with_passing(found, large, threads, effort)
    return _with_meeting(found, threads, effort)


def _with_meeting(found: Speeds, threads: int, effort: Effort) -> Speeds:
    """The speeds with what threads take longer for two loops, of which one is short; their
    crowding is UNKNOWN where they have no cores of their own just now."""
    lengths = (k * effort.length for k in SHARED)
    probes = [_Probe(_curve, (length,), found, threads) for length in lengths]
    alone = [one.by(replace(found, sharing=0.0)) for one in probes]

    def turn() -> tuple[float, float]:
        _take_turns(probes, replace(effort, seconds=effort.together))
        short, long = (one.nanoseconds for one in probes)
        return short, max((long - short) / (alone[1] - alone[0]), 1.0)

    short, crowding = turn()
    for _ in range(AGAIN):
        if crowding > LONGER:
            short, crowding = turn()
    if crowding > CROWDED:
        return replace(found, crowding=UNKNOWN)
    sharing = short - crowding * alone[0]
    return replace(found, crowding=crowding, sharing=max(LEAST * found.sharing, sharing))


def _with_passing(found: Speeds, large: _Probe, threads: int, effort: Effort) -> Speeds:
    """The speeds with what threads take longer for a product and for layers, in which they pass
    each other what they computed."""
    multiplying = _Probe(_product, (LARGE, LARGE), found, threads)
    chains = [
        [_Probe(_chain, (rows, WIDTH), found, count) for count in (1, threads)] for rows in ROWS
    ]
    _take_turns([multiplying], replace(effort, seconds=effort.together))
    _take_turns([one for pair in chains for one in pair], effort)
    crowding = max(threads * multiplying.nanoseconds / large.nanoseconds, 1.0)
    sharing, exchanging = _meeting(
        [(both.nanoseconds - one.nanoseconds * crowding / threads) / LINKS for one, both in chains],
        found,
    )
    return replace(found, crowding=crowding, sharing=sharing, exchanging=exchanging)


def _meeting(more: Sequence[float], known: Speeds) -> tuple[float, float]:
    """What threads take to meet, and for a byte that others have: from what two layers take longer
    than shared evenly, in each of which they meet twice, and pass on two matrices."""
    small, large = (2 * rows * WIDTH * np.float32().nbytes for rows in ROWS)
    exchanging = max(0.0, (more[1] - more[0]) / (large - small))
    sharing = (more[0] - exchanging * small) / 2
    return max(LEAST * known.sharing, sharing), exchanging


def _levels(found: Speeds, moving: Sequence[_Probe]) -> Iterator[Level]:
    """The levels of memory from the second one on, each as quick as arrays are multiplied in it,
    and none quicker than those before it: what loads and stores take in the first one are
    operations.

    Levels hold a part of what caches do: of up to twice as much some is still there, and the rest
    has code, and what others touch.
    """
    computing = replace(found, memory=NEAR)
    known = found.memory[-len(moving) :]
    *own, last = cache_nbytes()[1:]
    sizes = [*(HELD * nbytes for nbytes in own), SHARED_HELD * last, known[-1].nbytes]
    most = inf
    for nbytes, probe, level in zip(sizes, moving, known, strict=True):
        taken = probe.nanoseconds - found.instruction
        shorter = OVERLAP * (probe.by(computing) - found.instruction)
        most = min(most, MOVED * probe.nbytes / max(taken - shorter, LEAST * taken))
        yield Level(nbytes, most, level.starting)


def _others(found: Speeds, probe: _Probe, waits: int) -> float:
    """The bytes that other processors bring into the last cache in a nanosecond: arrays that lie
    there are touched again after a while, and take longer by what is gone."""
    taken = sorted(probe.stamped.after(WAIT) for _ in range(waits))[waits // 2]
    *_, last, beyond = found.memory
    longest = last.nbytes_each_nanosecond / beyond.nbytes_each_nanosecond  # times, if all is gone
    gone = min((taken / probe.nanoseconds - 1) / max(longest - 1, SOME), 1.0)
    if gone < SOME:
        return 0.0
    return max((1 + gone) * last.nbytes - MOVED * probe.nbytes, 0.0) / (1e9 * WAIT)


def _lengths() -> Iterator[int]:
    """How long arrays are that lie in each level from the second one on, with what is made of
    them."""
    sizes = cache_nbytes()[1:]
    for nbytes in (*(INSIDE * one for one in sizes), min(BEYOND * sizes[-1], MOST_NBYTES)):
        yield int(nbytes) // (3 * np.float32().nbytes)


def _product(x: Any, y: Any) -> Any:
    return x @ y


def _curve(x: Any, y: Any) -> Any:
    return np.exp(x) + np.tanh(y)


def _scaled(x: Any, y: Any) -> Any:
    return x * y


def _chain(x: Any, y: Any) -> Any:
    """Layers of which each reads what threads wrote in the one before."""
    for _ in range(LINKS):
        x = np.tanh(x @ y[:WIDTH])
    return x


class _Probe:
    """Compiled code of a function of two arrays, which is made when its first turn comes.

    `is_near`: they lie in the nearest caches."""

    def __init__(
        self,
        function: Callable[..., Any],
        shape: tuple[int, ...],
        known: Speeds,
        threads: int = 1,
        *,
        is_near: bool = False,
    ) -> None:
        self.graph, self.given = _traced(function, shape)
        results = [node for _, node in self.graph.outputs]
        self.plan = plan_for(self.graph, results, settings=settings_now(threads))
        self.predicted = self.by(replace(known, memory=NEAR) if is_near else known)
        self.nbytes = sum(one.nbytes for one in self.given.values())
        self.nanoseconds = inf

    def by(self, speeds: Speeds) -> float:
        """What it takes by these speeds."""
        return fsum(plan_nanoseconds(self.plan, speeds))

    @cached_property
    def stamped(self) -> Stamped:
        """Its code."""
        return Stamped(self.plan, self.given)

    @property
    def is_by_blas(self) -> bool:
        """Whether BLAS does it."""
        works = self.plan.works
        return any(isinstance(w, ProductWork) and w.calls[0].by_routine for w in works)

    def turn(self, seconds: float) -> None:
        """Measure once more: the least of all turns counts."""
        self.nanoseconds = min(self.nanoseconds, fsum(self.stamped.least(CALLS, seconds)))

    @property
    def ratio(self) -> float:
        """The same by what was predicted."""
        return min(max(self.nanoseconds / self.predicted, LEAST), MOST)


class _InNumPy:
    """The same of NumPy."""

    def __init__(self, function: Callable[..., Any], known: Speeds) -> None:
        self.graph, self.given = _traced(function, (FEW, FEW))
        self.predicted = sum(node_nanoseconds(node, known.numpy) for node in self.graph.nodes)
        self.nanoseconds = inf

    def turn(self, seconds: float) -> None:
        """Measure once more."""
        results = [node for _, node in self.graph.outputs]
        call = partial(reference.evaluate, self.graph, self.given, results)
        self.nanoseconds = min(self.nanoseconds, least_nanoseconds(call, CALLS, seconds))

    @property
    def ratio(self) -> float:
        """The least of all turns, by what was predicted."""
        return min(max(self.nanoseconds / self.predicted, LEAST), MOST)


def _take_turns(probes: Sequence[_Probe | _InNumPy], effort: Effort) -> None:
    for _ in range(effort.turns):
        for one in probes:
            one.turn(effort.seconds)
    for _ in range(effort.turns):
        for one in probes:
            if not 1 / WILD < one.ratio < WILD:
                one.turn(effort.seconds)


def _traced(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> tuple[Graph, dict[Any, np.ndarray]]:
    """The graph of a function of two arrays, and these."""
    type_ = array_type(np.dtype(np.float32), shape)
    graph = trace(function, x=type_, y=type_)
    return graph, {item.node: np.full(shape, 0.5, np.float32) for item in graph.inputs}
