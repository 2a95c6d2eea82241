"""How quick a machine is: the numbers by which instructions are timed before they run.

Plans must be the same wherever they are made, so they are chosen by the record of the target's
vectors in SPEEDS.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from chainrule.dataclass import dataclass, fields, replace
from chainrule.errors import InputError


@dataclass(frozen=True)
class Level:
    """What a level of memory holds, in bytes, and how many it moves in a nanosecond; `starting` is
    how long the first bytes of an array take to come from there."""

    nbytes: float
    nbytes_each_nanosecond: float
    starting: float = 0.0


@dataclass(frozen=True)
class InNumPy:
    """What NumPy takes, in nanoseconds.

    `call` is a call that computes elements, `view` one that makes a view, `broadcast` one by which
    elements repeat, `reduction` and `product` are calls of these.  `element` is what a simple
    operation takes for an element in float32 of each operand and of the result, `fresh` a byte that
    is written.  Of products of matrices, in float32:
    `flop` is an operation, `packing` an element of the matrices, `copying` one that is brought into
    another order first.  `iteration` is one of a loop, beside the nodes in it.
    """

    call: float = 1900.0
    view: float = 2100.0
    broadcast: float = 4400.0
    reduction: float = 4500.0
    product: float = 2500.0
    element: float = 0.12
    fresh: float = 0.07
    flop: float = 0.006
    packing: float = 0.35
    copying: float = 2.4
    iteration: float = 10000.0


@dataclass(frozen=True)
class Speeds:
    """One core; all times are in nanoseconds.

    Of loops: `operation` is one instruction on a whole vector, twice as long for those after the
    `window`-th on the same one, as the processor then sees none of the next vector; `access` a load
    or store of one in one line of a cache, `mask` a load of one of booleans, `lane` that of an
    element that does not lie beside the next, `scatter` times as long to store; `conflict` one of
    which the nearest cache lost the line, where all lines are in one set.  `row` is what a row
    takes beside its columns; where a sweep over it needs the sums of the one before, it waits for
    `reduction`, and for the `latency` of each instruction.
    Of products: `multiply_add` is that of two vectors, `tile` what a tile takes beside them,
    `packing` an element, `product` a call; BLAS takes `blas` times as long as tiles.
    `instruction` is what each begins with, `alone` in a loop that one thread does, `sharing` what
    threads take to meet, `crowding` how many times as long each takes while all work (they share
    memory, and often a core), `exchanging` a byte of computed matrices that threads multiply
    together, as another one wrote some.  Of a loop that Python goes through, with a compiled body,
    `loop` is what it does before the first iteration, `iteration` what it does in each.
    `memory` are the levels, the nearest first; the last holds everything.  Into the one before it,
    other processors bring `others` bytes in a nanosecond.
    """

    vector_nbytes: int
    operation: float
    access: float
    mask: float
    lane: float
    conflict: float
    reduction: float
    latency: float
    row: float
    multiply_add: float
    tile: float
    packing: float
    product: float
    instruction: float
    sharing: float
    memory: tuple[Level, ...]
    blas: float = 1.0
    crowding: float = 1.0
    exchanging: float = 0.0
    others: float = 0.0
    scatter: float = 1.0
    alone: float = 5.0
    loop: float = 150_000.0
    iteration: float = 10000.0
    window: float = inf
    numpy: InNumPy = InNumPy()

    def operations(self, count: float) -> float:
        """About how long so many instructions on one vector take."""
        return self.operation * (count + max(count - self.window, 0.0))

    def copying(self, nbytes: float) -> float:
        """About how long NumPy takes to copy so many bytes into new arrays."""
        return self.moving(2 * nbytes) + self.numpy.fresh * nbytes

    def moving(self, nbytes: float, among: float = 0.0, others: float = 0.0) -> float:
        """About how long so many bytes take between memory and vectors, read or written once, that
        are touched again and again among so many in all, and so many of other processors."""
        found = 0.0
        for part, level in self._levels(max(nbytes, among), others):
            found += part / level.nbytes_each_nanosecond
        return nbytes * found

    def starting(self, among: float, others: float = 0.0) -> float:
        """About how long the first bytes of such an array take to come."""
        return sum(part * level.starting for part, level in self._levels(among, others))

    def _levels(self, nbytes: float, others: float) -> Iterator[tuple[float, Level]]:
        """Where so many bytes lie that are touched again and again: the parts of them and levels.
        Of up to twice as many as a level holds, some are still there."""
        rest = 1.0
        *nearer, farthest = self.memory
        for one in nearer:
            touched = nbytes + others if one is nearer[-1] else nbytes
            part = rest * min(max(2 - touched / one.nbytes, 0.0), 1.0)
            if part:
                yield part, one
            rest -= part
            if not rest:
                return
        yield rest, farthest

    @property
    def with_quick_memory(self) -> Speeds:
        """The same, with a memory that is as quick as the last cache."""
        *nearer, last = self.memory
        quick = nearer[-1] if nearer else last
        return replace(self, memory=(*nearer, replace(quick, nbytes=last.nbytes)))

    def shared(self, nanoseconds: float, busiest: float) -> float:
        """What takes so long on one thread, on several of which the busiest does so much of it."""
        return nanoseconds if busiest == 1 else nanoseconds * self.crowding * busiest


PRODUCTS = ("multiply_add", "tile", "packing", "product")
LOOPS = ("operation", "access", "mask", "lane", "conflict", "reduction", "latency", "row")


def scaled(
    known: Speeds,
    *,
    products: float = 1.0,
    loops: float = 1.0,
    memory: float = 1.0,
    numpy: float = 1.0,
) -> Speeds:
    """The record of a machine on which each group of numbers takes so many times as long."""
    found = _times(_times(known, PRODUCTS, products), LOOPS, loops)
    levels = tuple(
        Level(one.nbytes, one.nbytes_each_nanosecond / memory, one.starting * memory)
        for one in known.memory
    )
    names = tuple(one.name for one in fields(known.numpy))
    return replace(found, memory=levels, numpy=_times(known.numpy, names, numpy))


def _times(record: Any, names: tuple[str, ...], ratio: float) -> Any:
    return replace(record, **{name: getattr(record, name) * ratio for name in names})


# Rounded from fits to instructions of the programs of benchmarks/budget_programs.py, on one core:
# with AVX-512 each timed on its own on an Intel Xeon (Sapphire Rapids) at about 3 GHz, with AVX2 on
# an AMD EPYC (Zen 3) at about 3.4, in whole steps within budgets and in parts, too.  The levels of
# memory of AVX-512 are set by hand; the last is a guess, as this machine has a cache of 260 MB.
# Those of AVX2 are a core's second-level cache, the third-level one that eight cores share with
# whatever else runs there, and what `measured_speeds` finds beyond it.  `sharing` was not fitted,
# nor AVX2's `mask`: half a causal softmax is exp of -inf, which was slow when these were fitted.
SPEEDS = {
    64: Speeds(
        vector_nbytes=64,
        operation=0.22,
        access=0.28,
        mask=0.5,
        lane=0.36,
        conflict=2.7,
        reduction=4.0,
        latency=1.0,
        row=1.0,
        multiply_add=0.185,
        tile=5.0,
        packing=0.12,
        product=25.0,
        instruction=150.0,
        sharing=1000.0,
        memory=(
            Level(2**15, 150.0),
            Level(2**18, 60.0),
            Level(2**26, 30.0, 20.0),
            Level(2**62, 12.0, 300.0),
        ),
        scatter=1.8,
    ),
    32: Speeds(
        vector_nbytes=32,
        operation=0.16,
        access=0.18,
        mask=0.4,
        lane=0.36,
        conflict=2.9,
        reduction=4.0,
        latency=1.0,
        row=1.0,
        multiply_add=0.175,
        tile=3.0,
        packing=0.12,
        product=25.0,
        instruction=30.0,
        sharing=1000.0,
        memory=(
            Level(2**15, 150.0),
            Level(2**19, 60.0),
            Level(2**25, 34.0, 20.0),
            Level(2**62, 16.0, 300.0),
        ),
        window=45.0,
    ),
}


def checked_speeds(speeds: Any) -> Speeds | None:
    """The speeds that a caller gives, or None; InputError for anything else."""
    if not isinstance(speeds, Speeds | None):
        raise InputError(
            f"speeds is {type(speeds).__name__} {speeds!r:.40}",
            hint="speeds=cr.measured_speeds(), or leave it out",
        )
    return speeds


def speeds_of(vector_nbytes: int) -> Speeds:
    """The record of a target by the width of its vectors; that of AVX2 stands for narrower ones,
    which take as long for each of theirs."""
    return SPEEDS.get(vector_nbytes, SPEEDS[32])
