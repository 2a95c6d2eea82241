"""LLVM's text: what is written once, and what every time."""

from __future__ import annotations

import pytest

from chainrule.execute.native.libm.mathematics import FUNCTIONS
from chainrule.execute.native.plan_to_ir.emit import (
    Code,
    Module,
    Operand,
    constant,
    count,
    is_pure,
)

X, Y, POINTER = Operand("%x", "<4 x float>"), Operand("%y", "<4 x float>"), Operand("%p", "ptr")
# Each with whether a second one, with the same operands, is the first.
INSTRUCTIONS = {
    "a sum": (lambda code: code.binary("fadd", X, Y), True),
    "a comparison": (lambda code: code.compare("fcmp olt", X, Y), True),
    "a conversion": (lambda code: code.convert("fpext", X, "<4 x double>"), True),
    "a splat": (lambda code: code.splat(Operand("%s", "float"), X.type), True),
    "a root": (lambda code: code.intrinsic("sqrt", X), True),
    "a load": (lambda code: code.load(POINTER, X.type), False),
    "a masked load": (
        lambda code: code.call("llvm.masked.load.v4f32.p0", X.type, POINTER, Y),
        False,
    ),
    "a call": (lambda code: code.call("rand", "i32"), False),
    "an atomic sum": (lambda code: code.emit("atomicrmw add ptr %p, i64 1 acq_rel", "i64"), False),
    "room on the stack": (lambda code: code.emit("alloca float", "ptr"), False),
    "a phi": (lambda code: code.emit("phi float [ %a, %b ]", "float"), False),
}
EACH = pytest.mark.parametrize(("write", "once"), INSTRUCTIONS.values(), ids=INSTRUCTIONS)


@EACH
def test_in_a_block_a_pure_instruction_is_written_once(write, once):
    code = Code(Module())
    first = write(code)
    length = len(code.lines)
    assert (write(code) == first) == once
    assert (len(code.lines) == length) == once


@EACH
def test_a_new_block_writes_everything_again(write, once):
    code = Code(Module())
    first = write(code)
    code.jump("next")
    code.label("next")
    assert write(code) != first


@pytest.mark.parametrize(("start", "stop", "rounds"), [(0, 4, 1), (4, 4, 0), (8, 4, 0), (-4, 4, 1)])
def test_a_loop_that_is_known_not_to_run_is_not_written(start, stop, rounds):
    code = Code(Module())
    (total,) = code.loop(count(start), count(stop), 4, [X], lambda _, sums: sums)
    assert (total == X, len(code.lines) > 0) == (not rounds, bool(rounds))


def test_flags_operands_and_types_tell_instructions_apart():
    code = Code(Module())
    scalar = Operand("%x", "float")
    results = [
        code.binary("fadd", X, Y),
        code.binary("fadd", Y, X),
        code.binary("fadd contract", X, Y),
        code.binary("fadd", X, constant(0.0, X.type)),
        code.binary("fadd", X, constant(-0.0, X.type)),
        code.binary("fadd", scalar, scalar),
    ]
    assert len({one.text for one in results}) == len(results)


def test_elementary_functions_are_made_of_pure_instructions():
    for name in ("exp", "log", "tanh", "erf"):
        code = Code(Module(named_nbytes=64))
        first = FUNCTIONS[name](code, X)
        length = len(code.lines)
        assert FUNCTIONS[name](code, X) == first and len(code.lines) == length
        assert all(is_pure(line.split(" = ", 1)[1]) for line in code.lines)
