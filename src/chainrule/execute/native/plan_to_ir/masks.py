"""Writes reads and writes of some lanes of a vector: the last columns of a row fill no register."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.execute.native.plan_to_ir.emit import (
    BITS,
    Code,
    Operand,
    count,
    element,
    lanes,
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
    wide as before the `trunc`, over the elements behind it.  Without AVX-512, the first lanes are
    stored in pieces: a masked store of AVX2 takes ten cycles and more on AMD's processors.
    """
    there = mask.text.count("true")
    is_first = mask.text == first_lanes(there, lanes(value.type)).text
    if is_first and (there == 1 or not code.module.avx512):
        store_first(code, value, pointer, there)
        return
    name = f"llvm.masked.store.{mangled(value.type)}.p0"
    code.run(name, value, pointer, alignment(value.type), mask)


def store_first(code: Code, value: Operand, pointer: Operand, there: int) -> None:
    """Write the first lanes to neighbouring elements, without masks: a half of the vector, a
    quarter, and so on, as they fit."""
    one, done, size = element(value.type), 0, lanes(value.type)
    while done < there:
        while size > there - done:
            size //= 2
        if size == 1:
            part = code.emit(f"extractelement {value.type} {value.text}, i64 {done}", one)
        else:
            part = shuffled(code, value, value, range(done, done + size))
        code.store(part, code.address(pointer, count(done), one))
        done += size


def shuffled(code: Code, x: Operand, y: Operand, picked: Sequence[int]) -> Operand:
    """The lanes picked of x, and after them of y."""
    if x is y and list(picked) == list(range(lanes(x.type))):
        return x
    shown = ", ".join(f"i32 {k}" for k in picked)
    text = f"shufflevector {x.type} {x.text}, {y.type} {y.text}, <{len(picked)} x i32> <{shown}>"
    return code.emit(text, with_lanes(x.type, len(picked)))


def alignment(type_: str) -> Operand:
    """That of one element, in bytes."""
    return Operand(str(BITS[element(type_)] // 8), "i32")
