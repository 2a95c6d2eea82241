"""One native function of a step, instruction by instruction, up to a node without a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from chainrule.execute.native.plan_to_ir.barriers import Barriers, share_of
from chainrule.execute.native.plan_to_ir.emit import (
    AT_LEVEL_0,
    UNOPTIMISED,
    Code,
    Operand,
    constant,
)
from chainrule.execute.native.plan_to_ir.emit_instances import memory_type, register_type
from chainrule.execute.native.plan_to_ir.flow_code import FlowWriter
from chainrule.execute.native.plan_to_ir.frame import Frame
from chainrule.execute.native.plan_to_ir.python_turns import LONG
from chainrule.execute.native.plan_to_ir.rows_code import emit_rows
from chainrule.execute.native.products.product_code import SMALLEST, routine_name
from chainrule.execute.native.products.scale_factors import Coefficients
from chainrule.graph.node import Node
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.loops.nest import FAILED_NBYTES, NestLayout
from chainrule.plan.products.calls import Call, Matrix
from chainrule.plan.routine_work import RoutineWork
from chainrule.plan.rows_work import RowsWork
from chainrule.plan.work import NestWork, ProductWork, Work
from chainrule.primitives.routines import Together
from chainrule.schedule.records import SCRATCH, Buffer, Compute, aligned

if TYPE_CHECKING:
    from chainrule.execute.native.plan_to_ir.driver import Writer

I64, PTR = "i64", "ptr"
# Of timed code: the last array given from outside, numbers of 8 bytes; the first two are the time
# by Linux's clock of this number, and how many stamps are before those of instructions.
STAMPS, CLOCK, EMPTY_STAMPS = "stamps", 2, 2
MONOTONIC = 1
# What waits until everything before is done, and what then counts ticks, by whether the processor
# is of x86-64.
WAIT: dict[bool, tuple[str, list[Operand]]] = {
    True: ("llvm.x86.sse2.lfence", []),
    False: ("llvm.aarch64.isb", [Operand("15", "i32")]),
}
TICKS = {True: "llvm.readcyclecounter", False: "llvm.readsteadycounter"}
NULL = Operand("null", PTR)


def i64(value: int) -> Operand:
    """An `i64` constant."""
    return Operand(str(value), I64)


class SegmentWriter:
    """One native function, instruction by instruction."""

    def __init__(self, writer: Writer, name: str, shared: bool) -> None:
        self.writer, self.name = writer, name
        self.code = Code(writer.module)
        self.index, self.count = Operand("%index", I64), Operand("%count", I64)
        self.context = Operand("%context", PTR)
        self.pointers: dict[str, Operand] = {}
        self.countdowns: dict[str, Operand] = {}
        self.entry: list[str] = []  # loads of pointers, put at the beginning
        self.may_have_failed = self.has_loops = False
        self.frame = writer.frame
        self.places: Mapping[Node, Buffer] = {}  # of what the instruction reads and writes
        self.barriers = Barriers(self.code, self.slot, shared, writer.barrier_count, self.entry)

    def slot(self, name: str) -> Operand:
        """A pointer of the context."""
        if name not in self.pointers:
            index = self.writer.slots.index(name)
            place, found = f"%s{index}", f"%p{index}"
            self.entry.append(f"  {place} = getelementptr ptr, ptr %context, i64 {index}")
            self.entry.append(f"  {found} = load ptr, ptr {place}, align 8")
            self.pointers[name] = Operand(found, PTR)
        return self.pointers[name]

    def variable(self, name: str, type_: str) -> Operand:
        """A pointer to a variable of the function."""
        self.entry.append(f"  {name} = alloca {type_}")
        return Operand(name, PTR)

    def pointer(self, buffer: Buffer) -> Operand:
        """Where a buffer begins."""
        base = self.frame.arenas.get(buffer.arena)
        if base is None:
            base = self.slot("scratch" if buffer.arena == SCRATCH else buffer.arena)
        return self.code.address(base, i64(buffer.offset), "i8")

    def value(self, node: Node) -> Operand:
        """Where the array of a node begins."""
        return self.pointer(self.places[node])

    def add(self, compute: Compute, work: Work, places: Mapping[Node, Buffer]) -> None:
        """One instruction; `places` are those of all that it reads and writes."""
        self.places = places
        if self.frame.is_outermost and self.may_have_failed:
            given = {one.arena for one in self.writer.plan.schedule.given.values()}
            if any(one.arena in given for one in compute.into):
                self._stop_if_failed()
        match work:
            case NestWork():
                for layout in work.layouts:
                    self.nest(layout, compute.workspace)
            case ProductWork():
                self._products(work, compute.workspace)
            case RowsWork():
                assert compute.workspace is not None
                emit_rows(self, work, compute.workspace)
            case RoutineWork():
                self._routine_calls(work, compute.workspace)
            case FlowWork():
                writer = self.flow(compute, work, places)
                writer.beginning()
                writer.rest()
        self.may_have_failed = self.may_have_failed or bool(work.checks) or work.fails

    def flow(self, compute: Compute, work: Work, places: Mapping[Node, Buffer]) -> FlowWriter:
        """What writes a loop or a choice in two functions: its beginning, and the rest."""
        assert isinstance(work, FlowWork)
        self.places = places
        self.may_have_failed = self.may_have_failed or work.fails
        self.has_loops = True
        return FlowWriter(self, work, compute.workspace)

    def countdown(self, name: str) -> Operand:
        """Where the thread counts how many nanoseconds it may go on without Python."""
        if name not in self.countdowns:
            self.countdowns[name] = self.variable(name, I64)
            self.entry.append(f"  store i64 {LONG}, ptr {name}")
        return self.countdowns[name]

    def countdown_of_caller(self) -> Operand:
        """The same, for ever to threads that Python did not call: they cannot give it a turn."""
        name, ever = "%left", (1 << 63) - 1
        if name not in self.countdowns:
            self.countdowns[name] = self.variable(name, I64)
            self.entry += [
                f"  {name}_is_mine = icmp eq i64 {self.index.text}, 0",
                f"  {name}_first = select i1 {name}_is_mine, i64 {LONG}, i64 {ever}",
                f"  store i64 {name}_first, ptr {name}",
            ]
        return self.countdowns[name]

    @contextmanager
    def within(self, frame: Frame) -> Iterator[None]:
        """What is added meanwhile belongs to the plan of this frame."""
        before = self.frame, self.places
        self.frame = frame
        yield
        self.frame, self.places = before

    def stamp(self, number: int, *, is_apart: bool = False) -> None:
        """In timed code, write the count of a processor's ticks as the stamp of this number; before
        the first one the time, which tells how long ticks are.

        No function is called: its code would have to come from memory after an instruction that
        touches more than the caches hold, and would be waited for.  The thread that did an
        instruction alone goes on with it, but for a stamp that `is_apart`.
        """
        if not self.writer.timed:
            return
        if is_apart:
            self.barriers.end()
        self.barriers.serial()
        code, stamps = self.code, self.slot(STAMPS)
        if number == 0:
            code.module.declare("declare i32 @clock_gettime(i32, ptr)")
            code.do(f"call i32 @clock_gettime(i32 {MONOTONIC}, ptr {stamps.text})")
        is_x86 = code.module.named_nbytes > 0
        name, operands = WAIT[is_x86]
        code.run(name, *operands)
        ticks = code.call(TICKS[is_x86], I64)
        code.store(ticks, code.address(stamps, i64(CLOCK + number), I64))

    def close(self) -> int:
        """Write the function; the number of barriers so far."""
        code = self.code
        self.barriers.end()
        if self.may_have_failed:
            failed = code.convert("zext", self.any_failed(), I64)
            code.do(f"ret i64 {failed.text}")
        else:
            code.do("ret i64 0")
        code.lines[:0] = self.entry
        attributes = f"{self.writer.attributes} {UNOPTIMISED if self.has_loops else AT_LEVEL_0}"
        code.function(self.name, [self.context, self.index, self.count], I64, attributes)
        return self.barriers.count

    def any_failed(self) -> Operand:
        """Whether any part of what was done so far has."""
        code = self.code
        flags = self.slot("failed")
        total: Operand = i64(0)
        for part in range(max(self.writer.plan.threads, 1)):
            one = code.load(code.address(flags, i64(part * FAILED_NBYTES), "i8"), I64)
            total = code.binary("or", total, one)
        return code.compare("icmp ne", total, i64(0))

    def _stop_if_failed(self) -> None:
        """Return before anything that was given is overwritten."""
        self.barriers.end()
        code, number = self.code, self.code.fresh()
        code.branch(self.any_failed(), f"stop{number}", f"go{number}")
        code.label(f"stop{number}")
        code.do("ret i64 1")
        code.label(f"go{number}")
        self.may_have_failed = False

    def _parts(self, parts: int, call: Callable[[Operand], None], *, alone: bool = False) -> None:
        """Emit `call(part)` for all parts, which one thread does if it is `alone`."""
        if parts == 1 or alone:
            self.barriers.serial()
            for part in range(parts):
                call(i64(part))
        else:
            self.barriers.share(parts, call)

    # instructions

    def run(self, name: str, arguments: list[Operand]) -> None:
        """Call a kernel."""
        self.code.run(name, *arguments)

    def nest(
        self,
        layout: NestLayout,
        workspace: Buffer | None,
        elsewhere: Mapping[Node, Callable[[], Operand]] | None = None,
    ) -> None:
        """A loop nest; the arrays `elsewhere` begin where these functions say."""
        if not layout.row_count and not layout.folds:
            return
        name = self.writer.kernel(layout)
        code = self.code
        turns, parts = layout.turns, layout.parts

        def run(part: Operand) -> None:
            at = elsewhere or {}
            arrays = [at[one]() if one in at else self.value(one) for one in layout.arrays]
            work = self.pointer(workspace) if workspace and layout.part_nbytes else NULL
            flags = self.slot("failed") if layout.fails else NULL
            begin, end = i64(0), i64(turns)
            if parts > 1:
                begin = share_of(code, turns, part, parts)
                following = code.binary("add", part, i64(1))
                end = share_of(code, turns, following, parts)
            self.run(name, [*arrays, work, flags, begin, end, part])

        self._parts(parts, run)
        if parts > 1 and layout.folds:
            self.barriers.serial()
            results = [self.value(store.node) for store in layout.folds]
            work = self.pointer(workspace) if workspace else NULL
            self.run(f"{name}_finish", [*results, work])

    def _products(self, work: ProductWork, workspace: Buffer | None) -> None:
        for number, call in enumerate(work.calls):
            packed: dict[Matrix, Buffer] = {}
            for matrix in (call.x, call.y):
                if matrix.pack is not None:
                    assert workspace is not None
                    offset = workspace.offset + matrix.pack_offset
                    packed[matrix] = into = Buffer(workspace.arena, offset, 0)
                    store = matrix.pack.nest.stores[0]
                    self.nest(matrix.pack, None, {store.node: partial(self.pointer, into)})
            if call.winograd is not None:
                for phase, parts in call.winograd.phases(call.sharing.parts):
                    self._parts(parts, partial(self._phase, work, number, phase, parts, workspace))
                continue
            self._parts(call.parts, partial(self._call, work, number, packed, workspace))

    def _call(
        self,
        work: ProductWork,
        number: int,
        packed: Mapping[Matrix, Buffer],
        workspace: Buffer | None,
        part: Operand,
    ) -> None:
        """One part of the `number`-th product of a sum."""
        root, call = work.products.root, work.calls[number]
        arrays = [
            self.pointer(packed[one]) if one in packed else self._matrix(one)
            for one in (call.x, call.y)
        ]
        alpha, beta = self._factors(work, number)
        helper = self._routine(call, root.dtype)
        if call.tiles is not None:
            helper = self._panels(call, call.tiles.packed_nbytes(root.dtype.itemsize), workspace)
        arrays += [self.value(root), alpha, beta, helper, part, i64(call.parts)]
        self.run(self.writer.product(call, root.dtype), arrays)

    def _factors(self, work: ProductWork, number: int) -> tuple[Operand, Operand]:
        """Of the `number`-th product, and of what it is added to."""
        products = work.products
        strides = {node: self.frame.plan.strides[node] for node in self.places}
        factors = Coefficients(self.code, strides, self.frame.roles, self.value)
        alpha = factors.value(work.calls[number].alpha, products.root.dtype)
        beta = constant(1.0 if number else 0.0, register_type(products.root.dtype))
        if not number and products.base is not None:
            beta = self._never_zero(factors.value(products.base_coefficient, products.root.dtype))
        return alpha, beta

    def _phase(
        self,
        work: ProductWork,
        number: int,
        phase: str,
        parts: int,
        workspace: Buffer | None,
        part: Operand,
    ) -> None:
        """A part of a phase of the `number`-th product, by Winograd's method."""
        call = work.calls[number]
        one = call.winograd
        assert one is not None and workspace is not None
        code, shared = self.code, aligned(one.shared_nbytes)
        shares = code.address(self.pointer(workspace), i64(call.work_offset), "i8")
        own = code.address(shares, i64(shared), "i8")
        if parts > 1:
            before = code.binary("mul", self.index, i64(aligned(one.own_nbytes)))
            own = code.address(own, before, "i8")
        arrays = [self._matrix(call.x), self._matrix(call.y), self.value(work.products.root)]
        arrays += [*self._factors(work, number), shares, own, part, i64(parts)]
        self.run(self.writer.phase(one, phase, parts), arrays)

    def _routine_calls(self, work: RoutineWork, workspace: Buffer | None) -> None:
        """A routine of LAPACK for each matrix of a stack."""
        code, count = self.code, prod(work.stack)
        parts = work.sharing.parts if count > 1 else 1
        names = self.writer.routine(work)

        def run(name: str, first: Operand, after: Operand, part: Operand, step: Operand) -> None:
            arrays = [self.value(one.node) for one in work.operands]
            rooms = self.pointer(workspace) if workspace is not None else NULL
            flag = self.slot("failed")
            if parts > 1:
                offset = code.binary("mul", part, i64(work.room_nbytes))
                rooms = code.address(rooms, offset, "i8") if workspace is not None else NULL
                flag = code.address(flag, code.binary("mul", part, i64(FAILED_NBYTES)), "i8")
            routines = [self.slot(one) for one in work.routine.routines]
            arrays += [self.value(work.node), rooms, flag, *routines]
            self.run(name, [*arrays, first, after, step])

        def run_part(part: Operand) -> None:
            first, after = i64(0), i64(count)
            if parts > 1:
                first = share_of(code, count, part, parts)
                after = share_of(code, count, code.binary("add", part, i64(1)), parts)
            run(names[0], first, after, part, i64(0))

        if count > 1:
            self._parts(parts, run_part)
            return
        for name, phase in zip(names, work.routine.phases, strict=True):
            steps = len(phase.steps) if isinstance(phase, Together) else 1
            call = partial(run, name, i64(0), i64(1), i64(0))
            self._parts(steps, call, alone=work.sharing.parts == 1)

    def _never_zero(self, beta: Operand) -> Operand:
        """beta, or the smallest number for 0, with which NaN in the array would be overlooked."""
        is_zero = self.code.compare("fcmp oeq", beta, constant(0.0, beta.type))
        return self.code.select(is_zero, constant(SMALLEST[beta.type], beta.type), beta)

    def _routine(self, call: Call, dtype: np.dtype) -> Operand:
        """The address of the BLAS routine that a product calls, null if it calls none."""
        routine = routine_name(call.gemm, dtype) if call.by_routine else ""
        if not routine:
            return NULL
        self.writer.routines.add(routine)
        return self.slot(routine)

    def _panels(self, call: Call, nbytes: int, workspace: Buffer | None) -> Operand:
        """Where this thread packs the panels of a product."""
        if not nbytes:
            return NULL
        assert workspace is not None
        base = self.code.address(self.pointer(workspace), i64(call.work_offset), "i8")
        if call.parts == 1:
            return base
        return self.code.address(
            base, self.code.binary("mul", self.index, i64(aligned(nbytes))), "i8"
        )

    def _matrix(self, matrix: Matrix) -> Operand:
        """Where the first element of an operand is."""
        base = self.value(matrix.node)
        return self.code.address(base, i64(matrix.offset), memory_type(matrix.node.dtype))
