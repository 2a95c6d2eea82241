"""In LLVM's text: bfloat16 in memory as the float32 numbers that they are, or in pairs.

An operand of bfloat16 lies in memory as `i16`, the upper half of a float.
"""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.execute.native.plan_to_ir.conversions import widened
from chainrule.execute.native.plan_to_ir.emit import (
    Code,
    Module,
    Operand,
    constant,
    lanes,
    with_lanes,
)
from chainrule.execute.native.plan_to_ir.masks import masked_load
from chainrule.plan.products.tiles import Narrow

NARROW, PAIR = "i16", "i32"
UPPER = 0xFFFF0000
DOT = "llvm.x86.avx512bf16.dpbf16ps.512"


def memory_types(narrow: Narrow, type_: str) -> tuple[str, str, str]:
    """How the elements of A, B and C lie in memory, C's being of this type."""
    a, b = (NARROW if one in narrow else type_ for one in "ab")
    return a, b, type_


def load_number(code: Code, pointer: Operand, kept: str) -> Operand:
    """One number that is kept as this type."""
    value = code.load(pointer, kept)
    return widened(code, value) if kept == NARROW else value


def load_vector(
    code: Code, pointer: Operand, kept: str, type_: str, mask: Operand | None
) -> Operand:
    """A vector of numbers that are kept as `kept`; what a mask hides is not read, and is 0."""
    if kept != NARROW:
        return _loaded(code, pointer, type_, mask)
    return widened(code, _loaded(code, pointer, with_lanes(NARROW, lanes(type_)), mask))


def load_everywhere(code: Code, pointer: Operand, kept: str, type_: str) -> Operand:
    """One number in all lanes."""
    value = code.load(pointer, kept)
    if kept != NARROW:
        return code.splat(value, type_)
    # Two instructions: broadcast 16 bits into both halves of each lane, then clear the lower half.
    twice = code.splat(value, with_lanes(NARROW, 2 * lanes(type_)))
    bits = code.convert("bitcast", twice, with_lanes(PAIR, lanes(type_)))
    bits = code.binary("and", bits, constant(UPPER, bits.type))
    return code.convert("bitcast", bits, type_)


def load_pair_everywhere(code: Code, pointer: Operand, type_: str, is_whole: bool) -> Operand:
    """A pair of numbers, one behind the other, in all lanes; 0 for a second that is not there."""
    if is_whole:
        return code.splat(code.load(pointer, PAIR, align=2), type_)
    return code.splat(code.convert("zext", code.load(pointer, NARROW), PAIR), type_)


def load_pairs(
    code: Code, pointers: Sequence[Operand], count: int, mask: Operand | None
) -> Operand:
    """Pairs of the numbers of two rows, or of one and zeros."""
    found = Operand("zeroinitializer", with_lanes(PAIR, count))
    for place, pointer in enumerate(pointers):
        row = _loaded(code, pointer, with_lanes(NARROW, count), mask)
        bits = code.convert("zext", row, found.type)
        if place:
            bits = code.binary("shl", bits, constant(16, bits.type))
        found = code.binary("or", found, bits) if place else bits
    return found


def load_pairs_of_row(code: Code, pointer: Operand, count: int, mask: Operand | None) -> Operand:
    """So many pairs of a row; the mask is of its numbers."""
    row = _loaded(code, pointer, with_lanes(NARROW, 2 * count), mask)
    return code.convert("bitcast", row, with_lanes(PAIR, count))


def add_products_of_pairs(code: Code, total: Operand, x: Operand, y: Operand) -> Operand:
    """(total + x1 y1) + x0 y0 in each lane, each sum rounded once.

    The instruction knows no subnormal numbers: those below 2^-126 count as zero, and become zero.
    """
    return code.call(DOT, total.type, total, x, y)


def declare_products_of_pairs(module: Module) -> None:
    """Say that the instruction takes pairs as integers.

    So it does in LLVM 20.  Newer LLVM takes vectors of bfloat16, and upgrades a call by the
    declaration, without which it refuses the call.
    """
    vector, pairs = with_lanes("float", 16), with_lanes(PAIR, 16)
    module.declare(f"declare {vector} @{DOT}({vector}, {pairs}, {pairs})")


def _loaded(code: Code, pointer: Operand, type_: str, mask: Operand | None) -> Operand:
    if mask is None:
        return code.load(pointer, type_)
    return masked_load(code, pointer, type_, mask)
