"""Writes loops and choices: the instructions of their bodies, in blocks of the function.

Where threads share no instruction of a loop, whoever comes first does all iterations.  Else all
threads go through the iterations together: each waits where the instruction before is not done by
all.  What a boolean decides is always done by one thread: a late one would read it too late.

A loop that is long, or has no known end, is done by several calls of one native function, each of
the iterations from the number `begin` to the number `end` of the context, of which `end` is 0 when
the loop has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from chainrule.execute.native.plan_to_ir.emit import Code, Operand, count
from chainrule.execute.native.plan_to_ir.frame import Frame
from chainrule.graph.body import Chosen, Scanned, Whiled
from chainrule.graph.node import Node
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.inner_plans import Filling, InnerPlan, Spot
from chainrule.plan.roles import roles_of
from chainrule.plan.work import parts_of
from chainrule.schedule.records import Buffer

if TYPE_CHECKING:
    from chainrule.execute.native.plan_to_ir.segment_code import SegmentWriter

BEGIN, END = TURNS = ("begin", "end")
COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
Pointers = Mapping[Spot, Operand]


class FlowWriter:
    """Writes one instruction into a function."""

    def __init__(self, segment: SegmentWriter, work: FlowWork, workspace: Buffer | None) -> None:
        self.segment, self.work, self.workspace = segment, work, workspace
        self.code: Code = segment.code
        inside = [*(one.layout.parts for one in work.rows), *map(parts_of, work.works)]
        self.together = isinstance(work.flow, Scanned) and max(inside, default=1) > 1

    def whole(self) -> None:
        """All of it."""
        self.beginning()
        if isinstance(self.work.flow, Chosen):
            self._begin()
            self._choice()
            return
        known = self.work.flow.length if isinstance(self.work.flow, Scanned) else None
        self._iterations(count(0), None if known is None else count(known))

    def some(self) -> None:
        """The iterations that the context says, of a loop that has begun."""
        code, segment = self.code, self.segment
        begin, end = (code.convert("ptrtoint", segment.slot(one), "i64") for one in TURNS)
        ended = self._iterations(begin, end)
        place = segment.writer.slots.index(END)
        after = code.select(ended, count(0), end)
        code.store(after, code.address(segment.context, count(place), "i64"), 8)

    def beginning(self) -> None:
        """What is done once, before anything else."""
        for one in self.work.before:  # threads may share each, whatever bodies do
            self._fill(one, partial(self._pointer, one.spot, count(0)), count(0))

    def _begin(self) -> None:
        if self.together:
            self.segment.barriers.end()
        else:
            self.segment.barriers.serial()

    def _iterations(self, begin: Operand, end: Operand | None) -> Operand:
        """Those from one number on, before another one; whether the loop has ended."""
        self._begin()
        code, bases = self.code, self._pointers(count(0), {})
        if isinstance(self.work.flow, Whiled):
            return self._while(begin, end, bases)
        assert isinstance(self.work.flow, Scanned) and end is not None

        def iteration(number: Operand, values: list[Operand]) -> list[Operand]:
            if not self.together:
                self._scanned(number, bases)
                return values
            with self.segment.barriers.iteration():
                self._scanned(number, bases)
            return values

        if self.together:
            with self.segment.barriers.loop():
                code.loop(begin, end, 1, [], iteration)
        else:
            code.loop(begin, end, 1, [], iteration)
        return code.compare("icmp eq", end, count(self.work.flow.length))

    def _scanned(self, number: Operand, bases: Pointers) -> None:
        pointers = self._pointers(number, bases)
        for one in self.work.rows:
            self._fill(one, partial(pointers.__getitem__, one.spot), number)
        self._body(self.work.bodies[0], pointers)

    def _while(self, begin: Operand, end: Operand | None, pointers: Pointers) -> Operand:
        """Whether the condition held no more: else the number is `end`."""
        code, (condition, body) = self.code, self.work.bodies
        assert isinstance(self.work.flow, Whiled) and self.work.decides is not None
        limit, number = self.work.flow.limit, code.fresh()
        counter = self.segment.variable(f"%number{number}", "i64")
        code.store(begin, counter)
        head, test, inside, after = (f"{one}{number}" for one in ("turns", "test", "turn", "ended"))
        code.jump(head)
        code.label(head)
        if end is not None:
            more = code.compare("icmp slt", code.load(counter, "i64"), end)
            code.branch(more, test, after)
            code.label(test)
        self._body(condition, pointers)
        holds = self._boolean(pointers[self.work.decides])
        code.branch(holds, inside, f"over{number}")
        code.label(inside)
        if limit is not None:
            now = code.load(counter, "i64")
            there = code.compare("icmp slt", now, count(limit))
            code.branch(there, f"within{number}", f"beyond{number}")
            code.label(f"beyond{number}")
            code.store(count(1), self.segment.slot("failed"))
            code.jump(f"over{number}")
            code.label(f"within{number}")
        self._body(body, pointers)
        code.store(code.binary("add", code.load(counter, "i64"), count(1)), counter)
        code.jump(head)
        code.label(f"over{number}")
        code.store(count(-1), counter)
        code.jump(after)
        code.label(after)
        return code.compare("icmp eq", code.load(counter, "i64"), count(-1))

    def _choice(self) -> None:
        code, number = self.code, self.code.fresh()
        assert self.work.decides is not None
        pointers = self._pointers(count(0), {})
        names = [f"true{number}", f"false{number}"]
        code.branch(self._boolean(pointers[self.work.decides]), *names)
        for name, body in zip(names, self.work.bodies, strict=True):
            code.label(name)
            self._body(body, pointers)
            code.jump(f"chosen{number}")
        code.label(f"chosen{number}")

    def _boolean(self, pointer: Operand) -> Operand:
        return self.code.compare("icmp ne", self.code.load(pointer, "i8"), Operand("0", "i8"))

    def _body(self, body: InnerPlan, pointers: Pointers) -> None:
        """Its instructions, and what is copied after them."""
        plan, segment, code = body.plan, self.segment, self.code
        arenas = {name: pointers[spot] for name, spot in body.arenas.items()}
        with segment.within(Frame(plan, roles_of(plan.graph), arenas)):
            for placed in zip(plan.computes, plan.works, plan.places, strict=True):
                segment.add(*placed)
        if body.after:
            segment.barriers.serial()
            code.module.declare(COPY)
        for one in body.after:
            into, source = pointers[one.into].text, pointers[one.source].text
            ends = f"ptr {into}, ptr {source}, i64 {one.nbytes}"
            code.do(f"call void @llvm.memcpy.p0.p0.i64({ends}, i1 false)")

    def _pointers(self, number: Operand, known: Pointers) -> dict[Spot, Operand]:
        """Where everything lies in an iteration; what is `known` and does not move is as it was."""
        return {
            spot: known[spot] if not spot.step and spot in known else self._pointer(spot, number)
            for spot in self._spots()
        }

    def _pointer(self, spot: Spot, number: Operand) -> Operand:
        """Where it is in an iteration."""
        code, offset = self.code, count(spot.offset)
        if spot.step:
            offset = code.binary("add", code.binary("mul", number, count(spot.step)), offset)
        return code.address(self._base(spot), offset, "i8")

    def _base(self, spot: Spot) -> Operand:
        segment = self.segment
        if spot.node is not None:
            return segment.value(spot.node)
        # Nobody reads or writes through a pointer to no bytes.
        return segment.pointer(self.workspace) if self.workspace else segment.slot("failed")

    def _spots(self) -> Iterable[Spot]:
        work = self.work
        found = [spot for body in work.bodies for spot in body.spots]
        found += [one.spot for one in work.rows]
        return dict.fromkeys(found if work.decides is None else [*found, work.decides])

    def _fill(self, one: Filling, into: Callable[[], Operand], number: Operand) -> None:
        """The value of this iteration, at its spot, where `into` gives a pointer to."""
        code, segment = self.code, self.segment

        def moved(node: Node, step: int) -> Operand:
            distance = code.binary("mul", number, count(step))
            return code.address(segment.value(node), distance, "i8")

        moving: dict[Node, Callable[[], Operand]] = {
            node: partial(moved, node, step) for node, step in one.moving.items()
        }
        segment.nest(one.layout, None, {one.stored: into, **moving})
