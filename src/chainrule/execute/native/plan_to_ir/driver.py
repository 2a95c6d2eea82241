"""The whole step as one function: every instruction of a plan in turn, on all threads at once.

    i64 step(ptr context, i64 index, i64 count)

`context` is an array of pointers (`Slots`); up to `count` threads call the function together, and
the one with `index` 0 always does.  An instruction that is shared has a fixed number of parts,
whoever does them (`barriers`), so that results do not depend on it.  Returns 1 if an index was out
of range: then nothing that was given has been overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.dataclass import dataclass, field
from chainrule.execute.native.lapack.lapack import LAPACK_ROUTINES
from chainrule.execute.native.lapack.routine_code import emit_routine
from chainrule.execute.native.plan_to_ir.emit import Module
from chainrule.execute.native.plan_to_ir.enter import emit_enter
from chainrule.execute.native.plan_to_ir.frame import Frame
from chainrule.execute.native.plan_to_ir.lanes_code import LanesCode
from chainrule.execute.native.plan_to_ir.modules import INTERNAL, Modules, Send
from chainrule.execute.native.plan_to_ir.nest_code import NestCode
from chainrule.execute.native.plan_to_ir.python_turns import asks
from chainrule.execute.native.plan_to_ir.segment_code import EMPTY_STAMPS, STAMPS, SegmentWriter
from chainrule.execute.native.products.product_code import emit_product
from chainrule.execute.native.products.tile_code import emit_tiled_product
from chainrule.execute.native.products.windowed_code import emit_windowed_product
from chainrule.execute.native.products.winograd_code import emit_winograd
from chainrule.graph.node import Node
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.foreign import ForeignWork
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.planner import Plan
from chainrule.plan.products.calls import Call
from chainrule.plan.products.winograd import Winograd
from chainrule.plan.roles import roles_of
from chainrule.plan.routine_work import RoutineWork
from chainrule.plan.work import ProductWork, Work, parts_inside, parts_of, with_bodies
from chainrule.schedule.records import Buffer, Compute

RUNTIME = (
    *("scratch", "failed", "finished", "barriers", "pool", "run", "wait", "python"),
    *("sgemm", "dgemm", "sgemv", "dgemv"),
    *("blas_state", "blas_get", "blas_set"),
    *LAPACK_ROUTINES,
)
Placed = tuple[Compute, Work, Mapping[Node, Buffer]]  # where what it reads and writes lies
SMALL = 8000  # multiplications in a product for which BLAS never uses threads of its own


@dataclass(frozen=True)
class Slots:
    """Which pointer of the context is what: RUNTIME first, then the arrays given from outside."""

    arenas: tuple[str, ...]

    def __len__(self) -> int:
        return len(RUNTIME) + len(self.arenas)

    def index(self, name: str) -> int:
        """The slot of one of RUNTIME, or of an array."""
        return RUNTIME.index(name) if name in RUNTIME else len(RUNTIME) + self.arenas.index(name)


@dataclass(eq=False)
class Segment:
    """One native function, and the node without a kernel that follows (the `then`-th of these, from
    0; None: there is none); `asks`: Python has turns in its loops."""

    name: str
    then: int | None
    shared: bool = False
    asks: bool = False


@dataclass(eq=False)
class Program:
    """What was written of a plan: its native functions in order, and where pointers go."""

    segments: list[Segment]
    slots: Slots
    routines: set[str] = field(default_factory=set)
    threaded_products: bool = False
    barrier_count: int = 0


def program(
    plan: Plan,
    attributes: str,
    send: Send,
    named_nbytes: int = 0,
    timed: bool = False,
    *,
    fetches: bool = True,
) -> Program:
    """The native functions of a plan; `attributes` are those of every function.

    `send` is given the text of each module when it is written, and its level.  `named_nbytes` and
    `fetches`: as in `Module`.  `timed` code writes the time into the array STAMPS, three times
    before the first instruction, between which there is nothing, and then a meeting of all threads,
    and once after each.
    """
    return Writer(plan, attributes, send, named_nbytes, timed, fetches).written()


class Writer:
    """Writes the functions of a plan: its segments, and the kernels that these call."""

    def __init__(
        self,
        plan: Plan,
        attributes: str,
        send: Send,
        named_nbytes: int,
        timed: bool,
        fetches: bool,
    ) -> None:
        self.plan, self.attributes = plan, attributes
        self.module = Module(named_nbytes=named_nbytes, fetches=fetches)  # of the native functions
        self.modules = Modules(send)  # of the kernels
        self.timed, self.done = timed, 0  # instructions written
        self.frame = Frame(plan, roles_of(plan.graph))
        given = [one.arena for one in plan.schedule.given.values()]
        results = plan.arenas.values()
        stamps = [STAMPS] if timed else []
        self.slots = Slots((*given, *(arena for arena in results if arena not in given), *stamps))
        self.kernels: dict[str, str] = {}
        self.routines: set[str] = set()
        self.segments: list[Segment] = []
        self.barrier_count = 0

    def written(self) -> Program:
        plan, pending = self.plan, list[Placed]()
        foreign = 0
        for compute, work, places in zip(plan.computes, plan.works, plan.places, strict=True):
            if isinstance(work, ForeignWork):
                self._segment(pending, foreign)
                pending, foreign = [], foreign + 1
            elif asks(work, plan.speeds):
                placed = compute, work, places
                self._segment(pending, None, beginning=placed)
                self._rest(placed)
                pending = []
            else:
                pending.append((compute, work, places))
        self._segment(pending, None)
        every = [*with_bodies(plan.works)]
        calls = [c for w in every if isinstance(w, ProductWork) for c in w.calls]
        sizes = (call.gemm.m * call.gemm.n * call.gemm.k for call in calls if call.by_routine)
        large = any(size > SMALL for size in sizes)
        large = large or any(isinstance(work, RoutineWork) for work in every)
        for segment in self.segments:
            emit_enter(
                self.module,
                segment.name,
                {name: place for place, name in enumerate(RUNTIME)},
                barriers=self.barrier_count,
                threads=self.plan.threads if segment.shared else 1,
                quiet=large,
                asks=segment.asks,
                attributes=self.attributes,
            )
        self.modules.put(self.module)
        self.modules.close()
        return Program(
            self.segments,
            self.slots,
            self.routines,
            large,
            self.barrier_count,
        )

    def _segment(
        self, works: Sequence[Placed], then: int | None, beginning: Placed | None = None
    ) -> None:
        """One native function; at its end what is done before a loop, which the next one goes on
        with."""
        begun: list[Placed] = [] if beginning is None else [beginning]
        shared = any(parts_of(work) > 1 for _, work, _ in (*works, *begun))
        segment = SegmentWriter(self, f"step{len(self.segments)}", shared)
        if not self.segments:
            segment.stamp(0)
            segment.stamp(1)
        segment.stamp(EMPTY_STAMPS + self.done, is_apart=True)
        for placed in works:
            segment.add(*placed)
            self.done += 1
            segment.stamp(EMPTY_STAMPS + self.done)
        for placed in begun:
            segment.flow(*placed).beginning()
        self.done += then is not None
        self._close(segment, shared, then)

    def _rest(self, placed: Placed) -> None:
        """The rest of a loop in which Python has turns, or of a choice with such a loop: a function
        of its own, so that threads without work in it do not wait for its end."""
        work = placed[1]
        shared = isinstance(work, FlowWork) and max(work.parts, parts_inside(work)) > 1
        segment = SegmentWriter(self, f"step{len(self.segments)}", shared)
        segment.flow(*placed).rest()
        self.done += 1
        segment.stamp(EMPTY_STAMPS + self.done)
        self._close(segment, shared, asks=True)

    def _close(
        self, segment: SegmentWriter, shared: bool, then: int | None = None, *, asks: bool = False
    ) -> None:
        self.barrier_count = segment.close()
        self.segments.append(Segment(segment.name, then, shared, asks))

    def kernel(self, layout: NestLayout) -> str:
        """The function of a nest; one serves all nests with the same text."""
        own, name = self.module, f"nest{len(self.kernels)}"
        scratch = Module(named_nbytes=own.named_nbytes, fetches=own.fetches)
        if layout.lanes is None:
            NestCode(scratch, layout).emit(name, self.attributes)
        else:
            LanesCode(scratch, layout, layout.lanes).emit(name, self.attributes)
        return self._function(scratch, name, "@nest")

    def product(self, call: Call, dtype: np.dtype) -> str:
        """The function of a product."""
        scratch, name = Module(), f"product{len(self.kernels)}"
        if call.tiles is None:
            emit_product(scratch, name, call.gemm, dtype, call.parts, call.narrow)
        else:
            emit = emit_windowed_product if call.gemm.inner else emit_tiled_product
            emit(scratch, name, call.gemm, call.tiles, dtype, call.parts)
        return self._function(scratch, name, "@product")

    def phase(self, one: Winograd, phase: str, parts: int) -> str:
        """The function of a phase of a product by Winograd's method."""
        scratch, name = Module(), f"product{len(self.kernels)}"
        emit_winograd(scratch, name, one, phase, parts)
        return self._function(scratch, name, "@product")

    def routine(self, work: RoutineWork) -> list[str]:
        """The functions of a routine of LAPACK, one for each phase."""
        self.routines.update(work.routine.routines)
        found = list[str]()
        for phase in work.routine.phases:
            scratch, name = Module(), f"routine{len(self.kernels)}"
            emit_routine(scratch, name, work, phase, self.attributes)
            found.append(self._function(scratch, name, "@routine"))
        return found

    def _function(self, scratch: Module, name: str, general: str) -> str:
        """What the function that was written as `name` is called; helpers are there once."""
        own = [one for one in scratch.functions if not one.startswith(INTERNAL)]
        key = "\n".join(own).replace(f"@{name}", general)
        if key not in self.kernels:
            self.kernels[key] = name
            self.modules.put(scratch)
        return self.kernels[key]
