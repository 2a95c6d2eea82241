"""The whole step as one function: every instruction of a plan in turn, on all threads at once.

    i64 step(ptr context, i64 index, i64 count)

`context` is an array of pointers (`Slots`); up to `count` threads call the function together, and
the one with `index` 0 always does.  An instruction that is shared has a fixed number of parts,
whoever does them (`phases`), so that results do not depend on it.  Returns 1 if an index was out
of range: then nothing that was given has been overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from chainrule.graph.node import Node
from chainrule.plan.nest import FAILED_NBYTES, NestLayout
from chainrule.plan.planner import Plan
from chainrule.plan.roles import roles_of
from chainrule.plan.schedule import SCRATCH, Buffer, Compute, aligned
from chainrule.plan.work import Call, ForeignWork, Matrix, NestWork, ProductWork, Work
from chainrule.run.native.coefficients import Coefficients
from chainrule.run.native.emit import UNOPTIMISED, Code, Module, Operand, constant, typed
from chainrule.run.native.enter import emit_enter
from chainrule.run.native.nest_code import NestCode
from chainrule.run.native.phases import Phases
from chainrule.run.native.points import memory_type, register_type
from chainrule.run.native.products import emit_product, routine_name
from chainrule.run.native.tile_code import emit_tiled_product

RUNTIME = (
    *("scratch", "failed", "finished", "phases", "pool", "run", "wait"),
    *("sgemm", "dgemm", "sgemv", "dgemv"),
    *("blas_state", "blas_get", "blas_set"),
)
I64, PTR = "i64", "ptr"
NULL = Operand("null", PTR)
SMALL = 8000  # multiplications in a product for which BLAS never uses threads of its own


def i64(value: int) -> Operand:
    """An `i64` constant."""
    return Operand(str(value), I64)


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
    """One native function, up to a node that has no kernel (`then`; None: the end)."""

    name: str
    then: Node | None
    shared: bool = False


@dataclass(eq=False)
class Program:
    """The text of a plan: its module, its native functions in order, and where pointers go."""

    text: str
    segments: list[Segment]
    slots: Slots
    routines: set[str] = field(default_factory=set)
    threaded_products: bool = False
    phase_count: int = 0


def program(plan: Plan, attributes: str, header: str = "", avx512: bool = False) -> Program:
    """The native functions of a plan; `attributes` are those of every function.

    `avx512`: the target has its instructions.
    """
    return _Writer(plan, attributes, Module(header, avx512)).written()


class _Writer:
    def __init__(self, plan: Plan, attributes: str, module: Module) -> None:
        self.plan, self.attributes, self.module = plan, attributes, module
        self.roles = roles_of(plan.graph)
        self.buffers: dict[Node, Buffer] = dict(plan.schedule.given)
        for compute in plan.computes:
            self.buffers.update(zip(compute.nodes, compute.into, strict=True))
        given = [one.arena for one in plan.schedule.given.values()]
        results = (self.buffers[node].arena for node in plan.schedule.results)
        self.slots = Slots((*given, *(arena for arena in results if arena not in given)))
        self.kernels: dict[str, str] = {}
        self.routines: set[str] = set()
        self.segments: list[Segment] = []
        self.phase_count = 0

    def written(self) -> Program:
        pending: list[tuple[Compute, Work]] = []
        for compute, work in zip(self.plan.computes, self.plan.works, strict=True):
            if isinstance(work, ForeignWork):
                self._segment(pending, work.node)
                pending = []
            else:
                pending.append((compute, work))
        self._segment(pending, None)
        calls = [c for w in self.plan.works if isinstance(w, ProductWork) for c in w.calls]
        sizes = (call.gemm.m * call.gemm.n * call.gemm.k for call in calls if call.tiles is None)
        large = any(size > SMALL for size in sizes)
        for segment in self.segments:
            emit_enter(
                self.module,
                segment.name,
                {name: place for place, name in enumerate(RUNTIME)},
                phases=self.phase_count,
                threads=self.plan.threads if segment.shared else 1,
                quiet=large,
                attributes=self.attributes,
            )
        return Program(
            self.module.text(),
            self.segments,
            self.slots,
            self.routines,
            large,
            self.phase_count,
        )

    def _segment(self, works: Sequence[tuple[Compute, Work]], then: Node | None) -> None:
        name = f"step{len(self.segments)}"
        shared = any(_parts_of(work) > 1 for _, work in works)
        segment = _SegmentWriter(self, name, shared)
        for compute, work in works:
            segment.add(compute, work)
        self.phase_count = segment.close()
        self.segments.append(Segment(name, then, shared))

    def kernel(self, layout: NestLayout) -> str:
        """The function of a nest; one serves all nests with the same text."""
        scratch, name = Module(avx512=self.module.avx512), f"nest{len(self.kernels)}"
        NestCode(scratch, layout).emit(name, self.attributes)
        return self._function(scratch, name, "@nest")

    def product(self, call: Call, dtype: np.dtype) -> str:
        """The function of a product."""
        scratch, name = Module(), f"product{len(self.kernels)}"
        if call.tiles is None:
            emit_product(scratch, name, call.gemm, dtype, call.parts)
        else:
            emit_tiled_product(scratch, name, call.gemm, call.tiles, dtype, call.parts)
        return self._function(scratch, name, "@product")

    def _function(self, scratch: Module, name: str, general: str) -> str:
        """What the function that was written as `name` is called; helpers are there once."""
        own = [one for one in scratch.functions if not one.startswith("define internal")]
        key = "\n".join(own).replace(f"@{name}", general)
        if key not in self.kernels:
            self.kernels[key] = name
            known = set(self.module.functions)
            self.module.functions += [one for one in scratch.functions if one not in known]
            self.module.declarations.update(scratch.declarations)
        return self.kernels[key]


class _SegmentWriter:
    """One native function, instruction by instruction."""

    def __init__(self, writer: _Writer, name: str, shared: bool) -> None:
        self.writer, self.name = writer, name
        self.code = Code(writer.module)
        self.index, self.count = Operand("%index", I64), Operand("%count", I64)
        self.context = Operand("%context", PTR)
        self.pointers: dict[str, Operand] = {}
        self.entry: list[str] = []  # loads of pointers, put at the beginning
        self.may_have_failed = False
        self.phases = Phases(self.code, self.slot, shared, writer.phase_count)

    def slot(self, name: str) -> Operand:
        """A pointer of the context."""
        if name not in self.pointers:
            index = self.writer.slots.index(name)
            place, found = f"%s{index}", f"%p{index}"
            self.entry.append(f"  {place} = getelementptr ptr, ptr %context, i64 {index}")
            self.entry.append(f"  {found} = load ptr, ptr {place}, align 8")
            self.pointers[name] = Operand(found, PTR)
        return self.pointers[name]

    def pointer(self, buffer: Buffer) -> Operand:
        """Where a buffer begins."""
        base = self.slot("scratch" if buffer.arena == SCRATCH else buffer.arena)
        return self.code.address(base, i64(buffer.offset), "i8")

    def value(self, node: Node) -> Operand:
        """Where the array of a node begins."""
        return self.pointer(self.writer.buffers[node])

    def add(self, compute: Compute, work: Work) -> None:
        """One instruction."""
        given = {one.arena for one in self.writer.plan.schedule.given.values()}
        if self.may_have_failed and any(one.arena in given for one in compute.into):
            self._stop_if_failed()
        match work:
            case NestWork():
                for layout in work.layouts:
                    self._nest(layout, compute.workspace)
            case ProductWork():
                self._products(work, compute.workspace)
        self.may_have_failed = self.may_have_failed or work.fails

    def close(self) -> int:
        """Write the function; the number of phases so far."""
        code = self.code
        self.phases.end()
        if self.may_have_failed:
            failed = code.convert("zext", self._any_failed(), I64)
            code.do(f"ret i64 {failed.text}")
        else:
            code.do("ret i64 0")
        code.lines[:0] = self.entry
        attributes = f"{self.writer.attributes} {UNOPTIMISED}"
        code.function(self.name, [self.context, self.index, self.count], I64, attributes)
        return self.phases.count

    def _any_failed(self) -> Operand:
        code = self.code
        flags = self.slot("failed")
        total: Operand = i64(0)
        for part in range(max(self.writer.plan.threads, 1)):
            one = code.load(code.address(flags, i64(part * FAILED_NBYTES), "i8"), I64)
            total = code.binary("or", total, one)
        return code.compare("icmp ne", total, i64(0))

    def _stop_if_failed(self) -> None:
        """Return before anything that was given is overwritten."""
        self.phases.end()
        code, number = self.code, self.code.fresh()
        code.branch(self._any_failed(), f"stop{number}", f"go{number}")
        code.label(f"stop{number}")
        code.do("ret i64 1")
        code.label(f"go{number}")
        self.may_have_failed = False

    def _parts(self, parts: int, call: Callable[[Operand], None]) -> None:
        """Emit `call(part)` for all parts."""
        if parts == 1:
            self.phases.serial()
            call(i64(0))
        else:
            self.phases.share(parts, call)

    # instructions

    def _run(self, name: str, arguments: list[Operand]) -> None:
        """Call a function of this module."""
        self.code.do(f"call void @{name}({typed(arguments)})")

    def _nest(
        self,
        layout: NestLayout,
        workspace: Buffer | None,
        elsewhere: Mapping[Node, Buffer] | None = None,
    ) -> None:
        if not layout.row_count and not layout.folds:
            return
        name = self.writer.kernel(layout)
        code = self.code
        rows, parts = layout.row_count, layout.parts

        def run(part: Operand) -> None:
            places = {**self.writer.buffers, **(elsewhere or {})}
            arrays = [self.pointer(places[node]) for node in layout.arrays]
            work = self.pointer(workspace) if workspace and layout.part_nbytes else NULL
            flags = self.slot("failed") if layout.fails else NULL
            begin, end = i64(0), i64(rows)
            if parts > 1:
                begin = _share(code, rows, part, parts)
                following = code.binary("add", part, i64(1))
                end = _share(code, rows, following, parts)
            self._run(name, [*arrays, work, flags, begin, end, part])

        self._parts(parts, run)
        if parts > 1 and layout.folds:
            self.phases.serial()
            results = [self.value(store.node) for store in layout.folds]
            work = self.pointer(workspace) if workspace else NULL
            self._run(f"{name}_finish", [*results, work])

    def _products(self, work: ProductWork, workspace: Buffer | None) -> None:
        for number, call in enumerate(work.calls):
            packed: dict[Matrix, Buffer] = {}
            for matrix in (call.x, call.y):
                if matrix.pack is not None:
                    assert workspace is not None
                    offset = workspace.offset + matrix.pack_offset
                    packed[matrix] = Buffer(workspace.arena, offset, 0)
                    store = matrix.pack.nest.stores[0]
                    self._nest(matrix.pack, None, {store.node: packed[matrix]})
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
        factors = Coefficients(self.code, self.writer.plan, self.writer.roles, self.value)
        alpha = factors.value(call.alpha, root.dtype)
        beta = constant(1.0 if number else 0.0, register_type(root.dtype))
        if not number and work.products.base is not None:
            beta = factors.value(work.products.base_coefficient, root.dtype)
        helper = self._routine(call, root.dtype)
        if call.tiles is not None:
            helper = self._panels(call, call.tiles.packed_nbytes(root.dtype.itemsize), workspace)
        arrays += [self.value(root), alpha, beta, helper, part, i64(call.parts)]
        self._run(self.writer.product(call, root.dtype), arrays)

    def _routine(self, call: Call, dtype: np.dtype) -> Operand:
        """The address of the BLAS routine that a product calls, null if it calls none."""
        routine = routine_name(call.gemm, dtype) if call.tiles is None else ""
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


def _share(code: Code, rows: int, part: Operand, parts: int) -> Operand:
    """The first row of a part."""
    return code.binary("udiv", code.binary("mul", part, i64(rows)), i64(parts))


def _parts_of(work: Work) -> int:
    """The most parts that an instruction has."""
    if isinstance(work, NestWork):
        return max((one.parts for one in work.layouts), default=1)
    if isinstance(work, ProductWork):
        packs = [m.pack.parts for c in work.calls for m in (c.x, c.y) if m.pack is not None]
        return max([*packs, *(call.parts for call in work.calls)])
    return 1
