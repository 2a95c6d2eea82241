"""Numbers in registers from one dtype to another, as NumPy's astype does on x86-64."""

from __future__ import annotations

import numpy as np

from chainrule.execute.native.plan_to_ir.emit import BITS, Code, Operand, constant, element, like
from chainrule.graph.dtypes import FLOAT32, computed_in, is_bfloat16

FLOAT_TYPES = {2: "half", 4: "float", 8: "double"}


def type_of(dtype: np.dtype) -> str:
    """LLVM's type of one number in a register: `i1`, `i64`, `float` (also of bfloat16), ...

    TypeError for a dtype that is no boolean, no integer of 1 to 8 bytes and no float of 2 to 8.
    """
    if dtype.kind == "b":
        return "i1"
    if dtype.kind in "iu":
        return f"i{8 * dtype.itemsize}"
    if is_bfloat16(dtype):
        return "float"
    if dtype.kind == "f" and dtype.itemsize in FLOAT_TYPES:
        return FLOAT_TYPES[dtype.itemsize]
    raise TypeError(f"no kernel computes in {dtype}")


def memory_type(dtype: np.dtype) -> str:
    """LLVM's type of one number in memory."""
    if is_bfloat16(dtype):
        return "i16"
    return "i8" if dtype.kind == "b" else type_of(dtype)


def from_memory(code: Code, x: Operand, dtype: np.dtype) -> Operand:
    """What memory holds, as it is in registers: bfloat16 is the upper half of a float."""
    if dtype.kind == "b":
        return code.compare("icmp ne", x, constant(0, x.type))
    return widened(code, x) if is_bfloat16(dtype) else x


def widened(code: Code, x: Operand) -> Operand:
    """The float whose upper half is x."""
    bits = code.convert("zext", x, like("i32", x.type))
    bits = code.binary("shl", bits, constant(16, bits.type))
    return code.convert("bitcast", bits, like("float", x.type))


def to_memory(code: Code, x: Operand, dtype: np.dtype) -> Operand:
    """The same the other way."""
    if dtype.kind == "b":
        return code.convert("zext", x, like("i8", x.type))
    if not is_bfloat16(dtype):
        return x
    bits = code.convert("bitcast", x, like("i32", x.type))
    bits = code.binary("lshr", bits, constant(16, bits.type))
    return code.convert("trunc", bits, like("i16", x.type))


def to_bfloat16(code: Code, x: Operand) -> Operand:
    """A float rounded to the nearest bfloat16, of two the even one; NaN with its sign."""
    word = like("i32", x.type)
    bits = code.convert("bitcast", x, word)
    last = code.binary("and", code.binary("lshr", bits, constant(16, word)), constant(1, word))
    rounded = code.binary("add", bits, code.binary("add", last, constant(0x7FFF, word)))
    signed = code.binary("and", bits, constant(0x80000000, word))
    nan = code.binary("or", signed, constant(0x7FC00000, word))
    bits = code.select(code.compare("fcmp uno", x, x), nan, rounded)
    upper = code.binary("and", bits, constant(0xFFFF0000, word))
    return code.convert("bitcast", upper, x.type)


def cast(code: Code, x: Operand, source: np.dtype, target: np.dtype) -> Operand:
    """x, whose lanes are of the dtype `source`, in the dtype `target`.

    Floats are rounded to nearest, or towards zero to integers.  A float that no int64 (for
    small integers, no int32) holds, and NaN, give its minimum, of which narrower integers keep
    the lowest bits: 0.  To bfloat16, numbers go by way of float32, as in ml_dtypes.
    """
    if source == target:
        return x
    if is_bfloat16(target):
        return to_bfloat16(code, cast(code, x, computed_in(source), FLOAT32))
    if is_bfloat16(source):
        return cast(code, x, FLOAT32, target)
    type_ = like(type_of(target), x.type)
    if target.kind == "b":
        zero = constant(0, x.type)
        return code.compare("fcmp une" if source.kind == "f" else "icmp ne", x, zero)
    match source.kind, target.kind:
        case "f", "f" if (source.itemsize, target.itemsize) == (8, 2):
            return code.convert("fptrunc", _to_odd(code, x), type_)
        case "f", "f":
            wider = target.itemsize > source.itemsize
            return code.convert("fpext" if wider else "fptrunc", x, type_)
        case "f", _:
            return _float_to_integer(code, x, target, type_)
        case _, "f":
            return code.convert("sitofp" if source.kind == "i" else "uitofp", x, type_)
    width, wanted = BITS[element(x.type)], BITS[element(type_)]
    if width >= wanted:
        return code.convert("trunc" if width > wanted else "bitcast", x, type_)
    return code.convert("sext" if source.kind == "i" else "zext", x, type_)


def _to_odd(code: Code, x: Operand) -> Operand:
    """A double as a float, cut off, and odd in its last digit where it is not exact.

    Rounding that to half gives what one rounding would (Boldo and Melquiond, *Emulation of a
    FMA and correctly rounded sums*, 2008).  LLVM would call a function that no library has.
    """
    type_, integer = like("float", x.type), like("i32", x.type)
    nearest = code.convert("fptrunc", x, type_)
    back = code.convert("fpext", nearest, x.type)
    sizes = (code.intrinsic("fabs", one) for one in (back, x))
    beyond = code.convert("zext", code.compare("fcmp ogt", *sizes), integer)
    inexact = code.convert("zext", code.compare("fcmp one", back, x), integer)
    bits = code.binary("sub", code.convert("bitcast", nearest, integer), beyond)
    return code.convert("bitcast", code.binary("or", bits, inexact), type_)


def _float_to_integer(code: Code, x: Operand, target: np.dtype, type_: str) -> Operand:
    if element(x.type) == "half":
        x = code.convert("fpext", x, like("float", x.type))
    if target == np.uint64:
        # The upper half of the range is that of int64, moved.
        end = constant(2.0**63, x.type)
        moved = _toward_zero(code, code.binary("fsub", x, end), type_)
        upper = code.binary("xor", moved, constant(-(2**63), type_))
        return code.select(code.compare("fcmp oge", x, end), upper, _toward_zero(code, x, type_))
    narrow = target.itemsize < 4 or target == np.int32
    integer = _toward_zero(code, x, like("i32" if narrow else "i64", x.type))
    return code.convert("trunc", integer, type_)


def _toward_zero(code: Code, x: Operand, type_: str) -> Operand:
    """The integer part, the least integer where it does not fit (LLVM leaves that open)."""
    least = -(2 ** (BITS[element(type_)] - 1))
    fits = code.compare("fcmp olt", code.intrinsic("fabs", x), constant(-float(least), x.type))
    return code.select(fits, code.convert("fptosi", x, type_), constant(least, type_))
