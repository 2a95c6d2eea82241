"""Plans inside of a plan: bodies of loops and choices, whose instructions are instructions of it.

The values that a body is given lie where they are, or are first copied; what it gives lies where it
belongs, over a state before, or in the workspace, from which it is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from chainrule.dataclass import dataclass, replace
from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.plan.loops.access import address, natural
from chainrule.plan.loops.addresses import axis_by_axis, place_in_memory
from chainrule.plan.loops.loop_work import LoopNest, Store
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.roles import nbytes_of
from chainrule.primitives.affine import Affine, row_major
from chainrule.primitives.sources import full
from chainrule.schedule.records import SCRATCH, aligned

if TYPE_CHECKING:
    from chainrule.plan.planner import Plan
    from chainrule.plan.work import Worker

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Spot:
    """Where a value lies: from `offset` bytes on in the array of `node`, or, where that is None, in
    the workspace; `step` bytes further at each iteration.  With `is_own`, in what each thread that
    shares the iterations has of the workspace."""

    node: Node | None
    offset: int
    step: int = 0
    is_own: bool = False


@dataclass(frozen=True, eq=False)
class Filling:
    """A nest that copies or computes the value at a spot; it stores `stored`.  What it reads of the
    arrays `moving` lies so many bytes further at each iteration."""

    layout: NestLayout
    stored: Node
    spot: Spot
    moving: Mapping[Node, int]


@dataclass(frozen=True, eq=False)
class Copying:
    """Bytes that are copied when a body has ended."""

    source: Spot
    into: Spot
    nbytes: int


@dataclass(frozen=True, eq=False)
class InnerPlan:
    """The plan of a body, where each of its arenas lies, and what is copied when it has ended."""

    plan: Plan
    arenas: Mapping[str, Spot]
    after: tuple[Copying, ...]

    @property
    def fails(self) -> bool:
        """Whether it may stop the run."""
        return any(one.fails or one.checks for one in self.plan.works)

    @property
    def spots(self) -> list[Spot]:
        """All that it reads or writes."""
        return [*self.arenas.values(), *(s for one in self.after for s in (one.source, one.into))]


class Laying:
    """Finds where what bodies read and write lies; `first` is the number of the first iteration,
    and each is `step` after the one before: 1, or -1 from the last one on.  Where threads share the
    iterations (`is_shared`), each works in `own_nbytes` of its own."""

    def __init__(
        self,
        worker: Worker,
        available: set[Node],
        first: int = 0,
        step: int = 1,
        *,
        is_shared: bool = False,
    ) -> None:
        self.worker, self.available = worker, available
        self.inside = replace(worker, threads=1) if is_shared else worker  # of iterations
        self.first, self.step, self.is_shared = first, step, is_shared
        self.workspace_nbytes = self.own_nbytes = 0
        self.before: list[Filling] = []  # once
        self.rows_copied: list[Filling] = []  # when an iteration begins

    def space(self, nbytes: int) -> Spot:
        """Bytes of the workspace."""
        found = Spot(None, self.workspace_nbytes)
        self.workspace_nbytes += aligned(nbytes)
        return found

    def space_inside(self, nbytes: int) -> Spot:
        """Bytes of the workspace that an iteration writes, and none after it reads."""
        if not self.is_shared:
            return self.space(nbytes)
        found = Spot(None, self.own_nbytes, is_own=True)
        self.own_nbytes += aligned(nbytes)
        return found

    def rows(self, nbytes: int, count: int) -> Spot:
        """So many rows of the workspace, the first one on."""
        return Spot(None, self.space(nbytes * count).offset, nbytes)

    def rows_of(self, node: Node | None, offset: int, nbytes: int) -> Spot:
        """The rows that iterations read or write of an array that begins there, of so many bytes
        each."""
        return Spot(node, offset + self.first * nbytes, self.step * nbytes)

    def constant(self, operand: Node) -> Spot:
        """A value that bodies read: where it is, if it lies in C order there, else copied."""
        found = self._place(operand)
        if found is not None and _in_c_order(operand.shape, found[1][1:]):
            return Spot(found[0], found[1][0] * operand.dtype.itemsize)
        return self.fill(operand, self.space(nbytes_of(operand)))

    def row(self, operand: Node) -> Spot:
        """The row of an iteration: where it is, if it lies in C order there, else copied; what is
        nowhere in memory is computed before."""
        found, itemsize = self._place(operand), operand.dtype.itemsize
        shape = operand.shape[1:]
        if found is None:
            spot = self.fill(operand, self.space(nbytes_of(operand)))
            return self.rows_of(None, spot.offset, prod(shape) * itemsize)
        base, (start, step, *strides) = found
        moving = self.rows_of(base, start * itemsize, step * itemsize)
        if _in_c_order(shape, strides):
            return moving
        spot = self.space_inside(prod(shape) * itemsize)
        self.rows_copied += self._filling(operand, shape, spot, {base: moving.step})
        return spot

    def fill(self, operand: Node, spot: Spot) -> Spot:
        """Put the operand there before anything else."""
        self.before += self._filling(operand, operand.shape, spot, {})
        return spot

    def _place(self, operand: Node) -> tuple[Node, Affine] | None:
        worker, own = self.worker, axis_by_axis(operand.shape)
        return place_in_memory(
            operand, own, operand.shape, worker.roles, self.available, worker.strides
        )

    def _filling(
        self, operand: Node, shape: Shape, spot: Spot, moving: Mapping[Node, int]
    ) -> Iterable[Filling]:
        """The nest that does it, of the whole operand, or of the first row that is read."""
        if 0 in shape:
            return
        builder = self.worker.builder(shape, self.available)
        domain = builder.domain
        own = natural(shape, domain, len(domain))
        assert own is not None
        where = ((self.first, *(0,) * len(domain)), *own) if moving else own
        value = builder.at(operand, where)
        place = address(own, row_major(shape), domain)
        stored = full(value=0, type=array_type(operand.dtype, shape))
        store = Store(stored, value, place, place, any(place[len(builder.nest.rows) + 1 :]))
        nest = LoopNest(builder.nest.rows, builder.nest.columns, [store], builder.found)
        worker = self.inside if moving else self.worker
        yield Filling(worker.layout(nest), stored, spot, moving)

    def inner(
        self,
        plan: Plan,
        given: Mapping[Node, Spot],
        outputs: Sequence[Node],
        states: Sequence[Spot],
        stacks: Sequence[Spot],
        scratch: Spot,
    ) -> InnerPlan:
        """Where a body finds what it is given, and puts what it gives: the first of its outputs
        over the `states` before, or elsewhere, to be copied when nobody reads those any more; the
        others where they stay, in `stacks`.
        """
        arenas = {b.arena: given[node] for node, b in plan.schedule.given.items()}
        arenas[SCRATCH] = scratch
        after = list[Copying]()
        taken = {result: one for one, result in plan.overwrites.items()}
        names = plan.arenas
        lying = {result: given[one] for result, one in taken.items()}
        for node, place in zip(outputs[len(states) :], stacks, strict=True):
            if node in names and node not in lying:
                lying[node] = arenas[names[node]] = place
            else:
                source = lying.get(node) or given[node]
                after.append(Copying(source, place, nbytes_of(node)))
        for node in outputs[: len(states)]:
            if node in lying:
                continue
            lying[node] = space = self.space(nbytes_of(node))
            if node in names:
                arenas[names[node]] = space
            else:  # given, and perhaps a state that changes before it is copied
                after.append(Copying(given[node], space, nbytes_of(node)))
        for node, state in zip(outputs, states, strict=False):
            if node not in taken:
                after.append(Copying(lying[node], state, nbytes_of(node)))
        return InnerPlan(plan, arenas, tuple(after))


def _in_c_order(shape: Shape, strides: Iterable[int]) -> bool:
    """Whether elements follow one another."""
    lying = zip(shape, strides, row_major(shape), strict=True)
    return all(size == 1 or stride == wanted for size, stride, wanted in lying)
