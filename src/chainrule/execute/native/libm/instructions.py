"""Instructions that LLVM has no word of its own for: scale, bound, look up.

Only for modules that may name those of AVX-512; AVX2 looks floats up, too.  Vectors of any number
of lanes, and scalars, go through the smallest register that there is for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from chainrule.execute.native.plan_to_ir.emit import (
    BITS,
    Code,
    Operand,
    constant,
    element,
    lanes,
    number,
    with_lanes,
)

SMALLEST, LARGEST = 128, 512  # bits in a register
SUFFIX = {"float": "ps", "double": "pd"}
LESSER_SIZE = Operand("2", "i32")  # of `range`: the operand nearer to 0, with the first's sign
USUAL = Operand("4", "i32")  # rounding; only instructions of the largest registers have it


def table_length(code: Code, base: str) -> int:
    """How many numbers of the format are looked up at once here; 0 where none are."""
    if code.module.avx512:
        return 16
    return 8 if base == "float" and code.module.named_nbytes == 32 else 0


def times_power_of_two(code: Code, x: Operand, exponent: Operand) -> Operand:
    """x 2^exponent, rounded once, for a finite x > 0 and a whole or infinite exponent.

    Too large gives inf, too small a subnormal number or 0; NaN where the exponent is NaN.
    """
    return _masked(code, "scalef", x, exponent)


def bounded(code: Code, x: Operand, size: float) -> Operand:
    """x, or size with its sign where |x| is larger; one of ±size where x is NaN."""
    return _masked(code, "range", x, constant(size, x.type), LESSER_SIZE)


def looked_up(code: Code, index: Operand, table: Sequence[float]) -> Operand:
    """table[index] in each lane, of the index's lowest bits; `table` has `table_length` numbers.

    An index of `i32` looks up floats, one of `i64` doubles.
    """
    length, count = len(table), lanes(index.type)
    if count > length:
        halves = [_picked(code, index, range(k, k + count // 2)) for k in (0, count // 2)]
        return _joined(code, *(looked_up(code, half, table) for half in halves))
    if element(index.type) == "i32":
        whole = _listed(tuple(table), "float")
        name = "avx512.permvar.sf.512" if code.module.avx512 else "avx2.permps"
        operands = [whole, _resized(code, index, length)]
    else:
        half = length // 2
        low, whole = (_listed(tuple(part), "double") for part in (table[:half], table[half:]))
        name = "avx512.vpermi2var.pd.512"
        operands = [low, _resized(code, index, half), whole]
    found = code.call(f"llvm.x86.{name}", whole.type, *operands)
    return _resized(code, found, lanes(index.type))


@lru_cache(maxsize=256)
def _listed(values: tuple[float, ...], base: str) -> Operand:
    """A vector of constants."""
    text = ", ".join(f"{base} {number(value, base)}" for value in values)
    return Operand(f"<{text}>", with_lanes(base, len(values)))


def _masked(code: Code, name: str, x: Operand, y: Operand, *control: Operand) -> Operand:
    """An instruction of two operands for all lanes."""
    base, count = element(x.type), lanes(x.type)
    size = max(count, SMALLEST // BITS[base])
    nbits = size * BITS[base]
    padded = [_resized(code, one, size) for one in (x, y)]
    passed = Operand("zeroinitializer", padded[0].type)  # where the mask, all ones, has a zero
    mask = Operand("-1", f"i{max(size, 8)}")
    rounding = (USUAL,) if nbits == LARGEST else ()
    function = f"llvm.x86.avx512.mask.{name}.{SUFFIX[base]}.{nbits}"
    result = code.call(function, passed.type, *padded, *control, passed, mask, *rounding)
    return _resized(code, result, count)


def _resized(code: Code, x: Operand, count: int) -> Operand:
    """The first `count` lanes of x (0: a scalar); where it has fewer, the others do not matter."""
    before, type_ = lanes(x.type), with_lanes(x.type, count)
    if before == count:
        return x
    if x.text.startswith("splat"):
        return Operand(x.text, type_)
    if not before:
        return code.splat(x, type_)
    if not count:
        return code.emit(f"extractelement {x.type} {x.text}, i64 0", type_)
    return _picked(code, x, [lane % before for lane in range(count)])


def _picked(code: Code, x: Operand, which: Sequence[int]) -> Operand:
    """Those lanes of x."""
    return _shuffled(code, x, Operand("poison", x.type), which)


def _joined(code: Code, x: Operand, y: Operand) -> Operand:
    """All lanes of x, then all of y."""
    return _shuffled(code, x, y, range(2 * lanes(x.type)))


def _shuffled(code: Code, x: Operand, y: Operand, which: Sequence[int]) -> Operand:
    """Those lanes of x and y, counted through."""
    picked = ", ".join(f"i32 {lane}" for lane in which)
    operands = f"{x.type} {x.text}, {y.type} {y.text}"
    text = f"shufflevector {operands}, <{len(which)} x i32> <{picked}>"
    return code.emit(text, with_lanes(x.type, len(which)))
