"""The steps of a routine for each matrix of a stack, in LLVM's text.

    void @name(ptr operands..., result, rooms, flag, routines..., i64 first, i64 after, i64 step)

does one phase of a routine for the matrices `first` ... `after` - 1 of the stack: all its steps, or
one of those that threads share.  It sets the flag where a matrix stops the run; what is written
then is not to be read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chainrule.execute.native.lapack.copying import Copying, Place
from chainrule.execute.native.plan_to_ir.emit import Code, Module, Operand, constant, count
from chainrule.execute.native.plan_to_ir.emit_instances import memory_type
from chainrule.plan.routine_work import RoutineWork
from chainrule.primitives.routines import (
    RESULT,
    STATUS,
    Block,
    Call,
    Copy,
    Numbers,
    Permute,
    Regular,
    Step,
    Swap,
    Together,
    Unit,
    operand_array,
)
from chainrule.schedule.records import aligned

I32, I64, PTR = "i32", "i64", "ptr"


Phase = tuple[Step, ...] | Together


def emit_routine(
    module: Module, name: str, work: RoutineWork, phase: Phase, attributes: str
) -> None:
    """Write the function of one phase; its attributes are given."""
    written = _Written(Code(module), work)
    written.matrices(phase)
    written.code.do("ret void")
    written.code.function(name, written.parameters, attributes=attributes)


class _Written:
    def __init__(self, code: Code, work: RoutineWork) -> None:
        self.code, self.work = code, work
        count_ = len(work.operands)
        self.operands = [Operand(f"%x{place}", PTR) for place in range(count_)]
        self.result, self.rooms, self.flag = (
            Operand(f"%{name}", PTR) for name in ("result", "rooms", "flag")
        )
        self.routines = {one: Operand(f"%{one}", PTR) for one in work.routine.routines}
        self.first, self.after, self.chosen = (
            Operand(f"%{name}", I64) for name in ("first", "after", "step")
        )
        self.parameters = [
            *(*self.operands, self.result, self.rooms, self.flag),
            *(*self.routines.values(), self.first, self.after, self.chosen),
        ]
        self.places: dict[str, tuple[Operand, str]] = {}
        self.slots: dict[tuple[str, object], Operand] = {}  # addresses of numbers, by their type
        self.copying = Copying(code, self.place)

    def matrices(self, phase: Phase) -> None:
        """A phase for all matrices of this call."""
        work = self.work
        offset = 0
        for room in work.routine.rooms:
            pointer = self.code.address(self.rooms, count(offset), "i8")
            self.places[room.name] = pointer, I32 if room.integers else "double"
            offset += aligned(room.nbytes)
        steps = phase.steps if isinstance(phase, Together) else phase
        for step in steps:
            if isinstance(step, Call):
                self.put_down(step)
        self.status = self.slot(0, I32)

        def one(index: Operand, kept: list[Operand]) -> list[Operand]:
            self.find(index)
            if isinstance(phase, Together) and len(steps) > 1:
                self.one_of(phase.steps)
            else:
                for step in steps:
                    self.step(step)
            return kept

        self.code.loop(self.first, self.after, 1, [], one)

    def one_of(self, steps: Sequence[Call]) -> None:
        """The step that was chosen."""
        code, number = self.code, self.code.fresh()
        cases = " ".join(f"i64 {k}, label %step{number}_{k}" for k in range(len(steps)))
        code.do(f"switch i64 {self.chosen.text}, label %end{number} [{cases}]")
        for place, step in enumerate(steps):
            code.label(f"step{number}_{place}")
            self.step(step)
            code.jump(f"end{number}")
        code.label(f"end{number}")

    def find(self, index: Operand) -> None:
        """Where the matrices of this place of the stack are."""
        code, work = self.code, self.work
        digits = list[Operand]()
        for length in reversed(work.stack):
            digits.insert(0, code.binary("urem", index, count(length)))
            index = code.binary("udiv", index, count(length))
        for place, (stack, pointer) in enumerate(zip(work.operands, self.operands, strict=True)):
            name = operand_array(place)
            self.put(name, pointer, stack.node.dtype, stack.first, digits, stack.strides)
        self.put(RESULT, self.result, work.node.dtype, 0, digits, work.strides)

    def put(
        self,
        name: str,
        pointer: Operand,
        dtype: np.dtype,
        first: int,
        digits: Sequence[Operand],
        strides: Sequence[int],
    ) -> None:
        """Note where an array of this place of the stack begins."""
        code, offset, type_ = self.code, count(first), memory_type(dtype)
        for digit, stride in zip(digits, strides, strict=True):
            if stride:
                step = code.binary("mul nsw", digit, count(stride))
                offset = code.binary("add nsw", offset, step)
        self.places[name] = code.address(pointer, offset, type_), type_

    def place(self, block: Block) -> Place:
        """Where a block is."""
        pointer, type_ = self.places[block.array]
        return Place(self.code.address(pointer, count(block.first), type_), block, type_)

    def step(self, step: Step) -> None:
        """One step."""
        match step:
            case Call():
                self.call(step)
            case Regular():
                self.regular(step)
            case Copy():
                self.copying.copy(step)
            case Unit():
                self.copying.unit(step)
            case Numbers():
                self.copying.numbers(step)
            case Swap():
                self.copying.swap(step)
            case Permute():
                self.copying.permute(step)

    def put_down(self, call: Call) -> None:
        """The arguments that every matrix has alike, before the loop, or the stack would grow."""
        for value in call.arguments:
            if not isinstance(value, Block) and _key(value) not in self.slots:
                number = ord(value) if isinstance(value, str) else value
                self.slots[_key(value)] = self.slot(number, _key(value)[0])

    def slot(self, value: int | float, type_: str) -> Operand:
        """The address of a number."""
        pointer = self.code.emit(f"alloca {type_}, align 8", PTR)
        self.code.store(constant(value, type_), pointer)
        return pointer

    def call(self, call: Call) -> None:
        """Call a routine, and look at its status."""
        code = self.code
        found = map(self.argument, call.arguments)
        arguments = ", ".join(f"ptr {one.text}" for one in found)
        code.do(f"call void {self.routines[call.routine].text}({arguments})")
        if call.stops == "nonzero":
            status = code.load(self.status, I32)
            self.stop_where(code.compare("icmp ne", status, constant(0, I32)))

    def argument(self, value: str | int | float | Block) -> Operand:
        """The address of an argument."""
        if not isinstance(value, Block):
            return self.slots[_key(value)]
        return self.status if value.array == STATUS else self.place(value).pointer

    def regular(self, step: Regular) -> None:
        """Look for an element of the diagonal that is 0."""
        code, matrix = self.code, self.place(step.matrix)

        def one(index: Operand, kept: list[Operand]) -> list[Operand]:
            value = code.load(self.copying.at(matrix, index, index), matrix.type)
            is_zero = code.compare("fcmp oeq", value, constant(0.0, matrix.type))
            return [code.binary("or", kept[0], is_zero)]

        none = constant(False, "i1")
        (found,) = code.loop(count(0), count(step.size), 1, [none], one)
        self.stop_where(found)

    def stop_where(self, condition: Operand) -> None:
        """Set the flag."""
        code = self.code
        before = code.load(self.flag, I64)
        code.store(code.binary("or", before, code.convert("zext", condition, I64)), self.flag, 8)


def _key(value: str | int | float) -> tuple[str, object]:
    """The type of a number in memory, and the number."""
    return ("i8" if isinstance(value, str) else I32 if isinstance(value, int) else "double"), value
