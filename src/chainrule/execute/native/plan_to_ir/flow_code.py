"""Writes loops and choices: the instructions of their bodies, in blocks of the function.

Where iterations need nothing of each other and are worth it, threads share them, and each does
whole iterations alone (decision 0067).  Where threads share no instruction of another loop, whoever
comes first does all iterations.  Else all threads go through the iterations together: each waits
where the instruction before is not done by all.  What a boolean decides is told to all, as a late
thread would read another one: once for each instruction of a step.  So what a boolean decides in
bodies is done by one thread (`flow_work`).

In a loop that is long, or has no known end, Python has turns (`python_turns`); while threads do
iterations alone, from the one that Python called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from chainrule.execute.native.plan_to_ir.barriers import share_of
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, count
from chainrule.execute.native.plan_to_ir.frame import Frame
from chainrule.execute.native.plan_to_ir.python_turns import (
    LONG,
    asks,
    goes_on,
    nanoseconds_of_turn,
)
from chainrule.graph.body import Chosen, Scanned, Unwound, Whiled
from chainrule.graph.node import Node
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.inner_plans import Copying, Filling, InnerPlan, Spot
from chainrule.plan.roles import roles_of
from chainrule.plan.work import parts_inside
from chainrule.schedule.records import Buffer

if TYPE_CHECKING:
    from chainrule.execute.native.plan_to_ir.segment_code import SegmentWriter

I64 = "i64"
COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
Pointers = Mapping[Spot, Operand]


class FlowWriter:
    """Writes one instruction into a function."""

    def __init__(self, segment: SegmentWriter, work: FlowWork, workspace: Buffer | None) -> None:
        self.segment, self.work, self.workspace = segment, work, workspace
        self.code: Code = segment.code
        self.together = parts_inside(work) > 1
        self.asks = asks(work, segment.writer.plan.speeds)

    def beginning(self) -> None:
        """What is done once, before anything else."""
        for one in self.work.before:  # threads may share each, whatever bodies do
            self._fill(one, partial(self._pointer, one.spot, count(0)), count(0))

    def rest(self) -> None:
        """What is done after the beginning."""
        if self.together or self.work.parts > 1:
            self.segment.barriers.end()
        else:
            self.segment.barriers.serial(for_caller=self.asks)
        pointers, bodies = self._pointers(count(0), {}), self.work.bodies
        match self.work.flow:
            case Chosen():
                self._choice(pointers)
            case Scanned(length=length) if self.work.parts > 1:
                self._share(length, pointers)
            case Scanned(length=length):
                self._scan(count(0), count(length), pointers)
            case Whiled(limit=limit):
                condition, body = bodies
                self._while(condition, limit, pointers, lambda _: self._body(body, pointers))
            case Unwound() as flow:
                self._unwind(flow, pointers)

    def _turns(
        self,
        first: Operand,
        goes_on: Callable[[Operand], Operand],
        do: Callable[[Operand], None],
        step: int = 1,
    ) -> Operand:
        """`do(number)` for the number `first` and so on while `goes_on(number)`: the one that
        follows the last.  Loops in which Python has turns end early where the run has failed."""
        code, name, barriers = self.code, self.code.fresh(), self.segment.barriers
        counter = self.segment.variable(f"%number{name}", I64)
        with barriers.loop() if self.together else nullcontext():
            code.store(first, counter)
            code.jump(f"turns{name}")
            code.label(f"turns{name}")
            with barriers.iteration() if self.together else nullcontext():
                if self.asks and self.together:
                    self._ask_together()
                elif self.asks:
                    code.branch(self._may_go_on(), f"more{name}", f"ended{name}")
                    code.label(f"more{name}")
                code.branch(goes_on(code.load(counter, I64)), f"turn{name}", f"ended{name}")
                code.label(f"turn{name}")
                do(code.load(counter, I64))
            code.store(code.binary("add", code.load(counter, I64), count(step)), counter)
            code.jump(f"turns{name}")
            code.label(f"ended{name}")
        return code.load(counter, I64)

    def _may_go_on(self) -> Operand:
        segment = self.segment
        each = nanoseconds_of_turn(self.work, segment.writer.plan.speeds)
        left = segment.countdown_of_caller()
        return goes_on(self.code, segment.slot("failed"), left, each, segment.slot("python"))

    def _share(self, length: int, pointers: Pointers) -> None:
        """Each part is some iterations, done by one thread."""
        barriers, parts = self.segment.barriers, self.work.parts

        def do(part: Operand) -> None:
            first = share_of(self.code, length, part, parts)
            following = self.code.binary("add", part, count(1))
            after = share_of(self.code, length, following, parts)
            with barriers.alone():
                self._scan(first, after, pointers)

        barriers.share(parts, do)

    def _scan(self, first: Operand, after: Operand, bases: Pointers) -> None:
        def iteration(number: Operand) -> None:
            pointers = self._pointers(number, bases)
            for one in self.work.rows:
                self._fill(one, partial(pointers.__getitem__, one.spot), number)
            self._body(self.work.bodies[0], pointers)

        self._turns(first, partial(self.code.compare, "icmp slt", y=after), iteration)

    def _ask_together(self) -> None:
        """Now and then Python's turn, for which all threads wait; none goes on if the run has
        failed.  Each counts by itself when it is due: they do the same iterations."""
        code, barriers, name = self.code, self.segment.barriers, self.code.fresh()
        left = self.segment.countdown("%left_to_all")
        each = nanoseconds_of_turn(self.work, self.segment.writer.plan.speeds)
        after = code.binary("sub", code.load(left, I64), count(each))
        code.store(after, left)
        code.branch(code.compare("icmp sle", after, count(0)), f"ask{name}", f"asked{name}")
        code.label(f"ask{name}")
        code.store(count(LONG), left)
        barriers.serial(for_caller=True)
        code.store(count(0), self.segment.countdown_of_caller())
        self._may_go_on()
        barriers.end()
        self._leave_if_failed()
        code.jump(f"asked{name}")
        code.label(f"asked{name}")

    def _leave_if_failed(self) -> None:
        """Of threads that share a loop, each may leave: the others do what is left to do."""
        code, name = self.code, self.code.fresh()
        code.branch(self.segment.any_failed(), f"leave{name}", f"stay{name}")
        code.label(f"leave{name}")
        code.do("ret i64 1")
        code.label(f"stay{name}")

    def _while(
        self,
        condition: InnerPlan,
        limit: int | None,
        pointers: Pointers,
        do: Callable[[Operand], None],
    ) -> Operand:
        """`do(number)` while the condition holds; how often that was.  One iteration more than the
        limit is a failure."""
        code, barriers = self.code, self.segment.barriers
        assert self.work.decides is not None
        decides = pointers[self.work.decides]
        last_turn = barriers.memory() if self.together else None

        def decided(number: Operand) -> Operand:
            found = self._boolean(decides)
            if limit is None:
                return found
            within = code.compare("icmp slt", number, count(limit))
            is_beyond = code.select(within, Operand("false", "i1"), found)
            flag = self.segment.slot("failed")
            beyond = code.convert("zext", is_beyond, I64)
            code.store(code.binary("or", code.load(flag, I64), beyond), flag)
            return code.binary("and", found, within)

        def holds(number: Operand) -> Operand:
            self._body(condition, pointers)
            barriers.serial()
            goes_on = decided(number)
            if last_turn is None:
                return goes_on
            # A late thread would read a later boolean: so the turn of the last one is told.
            code.store(code.select(goes_on, count(0), barriers.turn), last_turn)
            barriers.end()
            return code.compare("icmp ne", code.load(last_turn, I64), barriers.turn)

        return self._turns(count(0), holds, do)

    def _unwind(self, flow: Unwound, pointers: Pointers) -> None:
        """Forth, keeping states; then segment by segment back, from the last one on."""
        code, work, length = self.code, self.work, count(flow.length)
        barriers, (condition, step, back) = self.segment.barriers, work.bodies

        def keep(number: Operand) -> None:
            """An iteration forth, of this number in its segment, and the states before it."""
            barriers.serial()
            for one in work.kept:
                self._copy(one, number)
            self._body(step, pointers)

        def forth(number: Operand) -> None:
            inside = code.binary("srem", number, length)
            if work.firsts:
                barriers.serial()
                name, segment = code.fresh(), code.binary("sdiv", number, length)
                is_first = code.compare("icmp eq", inside, count(0))
                code.branch(is_first, f"first{name}", f"keep{name}")
                code.label(f"first{name}")
                for one in work.firsts:
                    self._copy(one, segment)
                code.jump(f"keep{name}")
                code.label(f"keep{name}")
            keep(inside)

        def backward(number: Operand) -> None:
            self._body(back, self._pointers(number, pointers))

        def segment(number: Operand) -> None:
            first = code.binary("mul", number, length)
            rest = code.binary("sub", last, first)
            is_last = code.compare("icmp sle", rest, length)
            in_all = code.select(is_last, rest, length)
            if work.firsts:  # of the last segment the states are there
                again = code.select(is_last, count(0), length)
                barriers.serial()
                for one in work.firsts:
                    self._copy(Copying(one.into, one.source, one.nbytes), number)
                self._turns(count(0), partial(code.compare, "icmp slt", y=again), keep)
            before = code.binary("sub", in_all, count(1))
            self._turns(before, partial(code.compare, "icmp sge", y=count(0)), backward, -1)

        last = self._while(condition, flow.limit, pointers, forth)
        if self.together:
            self._leave_if_failed()
        failed = code.load(self.segment.slot("failed"), I64)
        last = code.select(code.compare("icmp eq", failed, count(0)), last, count(0))
        segments = code.binary("sdiv", code.binary("add", last, count(flow.length - 1)), length)
        first = code.binary("sub", segments, count(1))
        self._turns(first, partial(code.compare, "icmp sge", y=count(0)), segment, -1)

    def _choice(self, pointers: Pointers) -> None:
        code, number = self.code, self.code.fresh()
        assert self.work.decides is not None
        names, barriers = [f"true{number}", f"false{number}"], self.segment.barriers
        memory = barriers.memory() if self.together else None
        barriers.serial()
        decided = self._boolean(pointers[self.work.decides])
        if memory is not None:  # a late thread would read what lies there later
            code.store(code.convert("zext", decided, I64), memory)
            barriers.end()
            decided = code.compare("icmp ne", code.load(memory, I64), count(0))
        code.branch(decided, *names)
        for name, body in zip(names, self.work.bodies, strict=True):
            code.label(name)
            self._body(body, pointers)
            if self.together:
                barriers.end()
            code.jump(f"chosen{number}")
        code.label(f"chosen{number}")

    def _boolean(self, pointer: Operand) -> Operand:
        return self.code.compare("icmp ne", self.code.load(pointer, "i8"), Operand("0", "i8"))

    def _body(self, body: InnerPlan, pointers: Pointers) -> None:
        """Its instructions, and what is copied after them."""
        plan, segment = body.plan, self.segment
        arenas = {name: pointers[spot] for name, spot in body.arenas.items()}
        with segment.within(Frame(plan, roles_of(plan.graph), arenas)):
            for placed in zip(plan.computes, plan.works, plan.places, strict=True):
                segment.add(*placed)
        if body.after:
            segment.barriers.serial()
        for one in body.after:
            self._memcpy(pointers[one.into], pointers[one.source], one.nbytes)

    def _copy(self, one: Copying, number: Operand) -> None:
        """Where rows of this number are meant."""
        self._memcpy(self._pointer(one.into, number), self._pointer(one.source, number), one.nbytes)

    def _memcpy(self, into: Operand, source: Operand, nbytes: int) -> None:
        self.code.module.declare(COPY)
        ends = f"ptr {into.text}, ptr {source.text}, i64 {nbytes}"
        self.code.do(f"call void @llvm.memcpy.p0.p0.i64({ends}, i1 false)")

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
        if not self.workspace:  # nobody reads or writes through a pointer to no bytes
            return segment.slot("failed")
        base, work = segment.pointer(self.workspace), self.work
        if not spot.is_own:
            return base
        code, first = self.code, work.workspace_nbytes - work.threads * work.own_nbytes
        before = code.binary("mul", segment.index, count(work.own_nbytes))
        return code.address(base, code.binary("add", before, count(first)), "i8")

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
