"""The points of Winograd's method along one axis, in LLVM's text: numbers or whole vectors."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant


def point_of_data(code: Code, x: Sequence[Operand], point: int) -> Operand:
    """Of four numbers, one of those that are multiplied."""
    match point:
        case 0:
            return code.binary("fsub", x[0], x[2])
        case 1:
            return code.binary("fadd", x[1], x[2])
        case 2:
            return code.binary("fsub", x[2], x[1])
        case _:
            return code.binary("fsub", x[3], x[1])


def point_of_pair(code: Code, pair: Sequence[Operand], point: int) -> Operand:
    """The same of a pair of positions, without the half of the second and third."""
    match point:
        case 0:
            return pair[0]
        case 1:
            return code.binary("fadd", *pair)
        case 2:
            return code.binary("fsub", *pair)
        case _:
            return pair[1]


def point_of_kernel(code: Code, w: Sequence[Operand], point: int) -> Operand:
    """The same of the three numbers of a kernel."""
    if point in (0, 3):
        return w[0 if point == 0 else 2]
    ends = code.binary("fadd", w[0], w[2])
    both = code.binary("fadd" if point == 1 else "fsub", ends, w[1])
    return code.binary("fmul", both, constant(0.5, both.type))


def two_outputs(code: Code, m: Sequence[Operand]) -> tuple[Operand, Operand]:
    """The two outputs of four products."""
    first = code.binary("fadd", m[0], code.binary("fadd", m[1], m[2]))
    second = code.binary("fadd", code.binary("fsub", m[1], m[2]), m[3])
    return first, second


def three_taps(code: Code, m: Sequence[Operand], half: Operand) -> list[Operand]:
    """The three numbers of a kernel of four sums of products, of which the second and third are
    twice too large."""
    both = code.binary("fmul", half, code.binary("fadd", m[1], m[2]))
    between = code.binary("fmul", half, code.binary("fsub", m[1], m[2]))
    return [code.binary("fadd", m[0], both), between, code.binary("fadd", both, m[3])]
