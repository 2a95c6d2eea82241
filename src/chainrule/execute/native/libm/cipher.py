"""Threefry-2x32: additions, rotations and exclusive ors of 32-bit words (`primitives.threefry`)."""

from __future__ import annotations

from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant
from chainrule.primitives.threefry import GROUPS, PARITY, ROTATIONS


def threefry_first(code: Code, *words: Operand) -> Operand:
    """The first word of an encrypted counter; `words` are k0, k1, c0, c1."""
    return _encrypted(code, *words)[0]


def threefry_second(code: Code, *words: Operand) -> Operand:
    """The second word; where the first is wanted too, both are made by the same instructions."""
    return _encrypted(code, *words)[1]


def threefry_mixed(code: Code, *words: Operand) -> Operand:
    """The exclusive or of both words."""
    return code.binary("xor", *_encrypted(code, *words))


def _encrypted(
    code: Code, k0: Operand, k1: Operand, x: Operand, y: Operand
) -> tuple[Operand, Operand]:
    def number(value: int) -> Operand:
        return constant(value, x.type)

    third = code.binary("xor", code.binary("xor", k0, k1), number(PARITY))
    words = (k0, k1, third)
    x, y = code.binary("add", x, k0), code.binary("add", y, k1)
    for group in range(GROUPS):
        for rotation in ROTATIONS[group % 2]:
            x = code.binary("add", x, y)
            y = code.binary("xor", code.intrinsic("fshl", y, y, number(rotation)), x)
        x = code.binary("add", x, words[(group + 1) % 3])
        added = code.binary("add", words[(group + 2) % 3], number(group + 1))
        y = code.binary("add", y, added)
    return x, y
