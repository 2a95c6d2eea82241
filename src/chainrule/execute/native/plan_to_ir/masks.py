"""Writes reads and writes of some lanes of a vector: the last columns of a row fill no register."""

from __future__ import annotations

from chainrule.execute.native.plan_to_ir.emit import (
    BITS,
    Code,
    Operand,
    element,
    mangled,
    with_lanes,
)


def first_lanes(left: int, width: int) -> Operand:
    """The mask of the first `left` of `width` lanes."""
    bits = ", ".join(f"i1 {'true' if lane < left else 'false'}" for lane in range(width))
    return Operand(f"<{bits}>", with_lanes("i1", width))


def masked_load(code: Code, pointer: Operand, type_: str, mask: Operand) -> Operand:
    """A vector of which only the lanes of the mask are read; the others are 0."""
    nothing = Operand("zeroinitializer", type_)
    name = f"llvm.masked.load.{mangled(type_)}.p0"
    return code.call(name, type_, pointer, alignment(type_), mask, nothing)


def masked_store(code: Code, value: Operand, pointer: Operand, mask: Operand) -> None:
    """Write only the lanes of the mask.

    The first lane alone is stored as a scalar.  LLVM 22 with AVX-512 makes a wrong store of a known
    mask with one lane where the value comes from a `trunc` (of bfloat16, of small integers): as
    wide as before the `trunc`, over the elements behind it.
    """
    if mask.text == first_lanes(1, int(mask.type[1:].split()[0])).text:
        first = code.emit(f"extractelement {value.type} {value.text}, i64 0", element(value.type))
        return code.store(first, pointer)
    name = f"llvm.masked.store.{mangled(value.type)}.p0"
    code.run(name, value, pointer, alignment(value.type), mask)


def alignment(type_: str) -> Operand:
    """That of one element, in bytes."""
    return Operand(str(BITS[element(type_)] // 8), "i32")
