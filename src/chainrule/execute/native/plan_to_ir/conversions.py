"""Numbers in registers from one dtype to another, as NumPy's astype does on x86-64."""

from __future__ import annotations

import numpy as np

from chainrule.execute.native.plan_to_ir.emit import BITS, Code, Operand, constant, element, like

FLOAT_TYPES = {2: "half", 4: "float", 8: "double"}


def type_of(dtype: np.dtype) -> str:
    """LLVM's type of one number in a register: `i1`, `i64`, `float`, ...

    TypeError for a dtype that is no boolean, no integer of 1 to 8 bytes and no float of 2 to 8.
    """
    if dtype.kind == "b":
        return "i1"
    if dtype.kind in "iu":
        return f"i{8 * dtype.itemsize}"
    if dtype.kind == "f" and dtype.itemsize in FLOAT_TYPES:
        return FLOAT_TYPES[dtype.itemsize]
    raise TypeError(f"no kernel computes in {dtype}")


def cast(code: Code, x: Operand, source: np.dtype, target: np.dtype) -> Operand:
    """x, whose lanes are of the dtype `source`, in the dtype `target`.

    Floats are rounded to nearest, or towards zero to integers.  A float that no int64 (for
    small integers, no int32) holds, and NaN, give its minimum, of which narrower integers keep
    the lowest bits: 0.
    """
    if source == target:
        return x
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
