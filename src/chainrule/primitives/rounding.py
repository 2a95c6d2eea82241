"""Rounding to integers, division with remainder, and `copysign`."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.types import ArrayType
from chainrule.primitives.arithmetic import POSITIVE, named, sign
from chainrule.primitives.families import elementwise, same_type
from chainrule.primitives.logic import not_equal
from chainrule.primitives.notation import ATOM, PRODUCT, Latex
from chainrule.primitives.primitive import Flat, Partials, Primitive, Sample
from chainrule.primitives.sources import full_like


def _rounding(name: str, doc: str, evaluate: Any) -> Primitive:
    return elementwise(
        name,
        f"{doc}; its derivative is 0.",
        evaluate,
        Flat(),
        kernel=f"{name}(x)",
        latex=named(name),
        kink=lambda x: x == np.rint(x),
    )


def _whole(x: Any, y: Any) -> Any:
    """Where x is a multiple of y."""
    return np.fmod(x, y) == 0


floor = _rounding("floor", "The largest integer that is at most x", lambda xp, x: xp.floor(x))
ceil = _rounding("ceil", "The smallest integer that is at least x", lambda xp, x: xp.ceil(x))
trunc = _rounding(
    "trunc", "x without its fraction, the next integer towards 0", lambda xp, x: xp.trunc(x)
)


def _float_type(x: ArrayType) -> ArrayType:
    if dtype_kind(x.dtype) != "f":
        raise TypeError(f"rint is of floating-point numbers, got {x}")
    return x


rint = elementwise(
    "rint",
    "The integer next to x, of two the even one; its derivative is 0.",
    lambda xp, x: xp.rint(x),
    Flat(),
    kernel="rint(x)",
    latex=named("round"),
    result_type=_float_type,
    kink=lambda x: np.abs(x - np.trunc(x)) == 0.5,
)

# The quotients stay away from the integers, where remainders jump.
AWAY: dict[str, Any] = dict(
    inputs=("x", "y"),
    domains=((2.2, 2.8), (0.97, 1.03)),
    more=(
        Sample(((3,), (3,)), ((2.2, 2.8), (-1.03, -0.97))),
        Sample(((3,), (3,)), ((-2.8, -2.2), (0.97, 1.03))),
    ),
    weight=4,
)


def _numbers(x: ArrayType, y: ArrayType) -> ArrayType:
    type_ = same_type(x, y)
    if type_.dtype.kind == "b":
        raise TypeError(f"numbers are divided with a remainder, got {type_}")
    return type_


floor_divide = elementwise(
    "floor_divide",
    "The largest integer that is at most x / y; its derivative is 0.",
    lambda xp, x, y: xp.floor_divide(x, y),
    Flat(),
    kernel="floor_divide(x, y)",
    latex=Latex(r"\operatorname{{floor}}({x} / {y})", ATOM, (PRODUCT, PRODUCT + 1)),
    result_type=_numbers,
    inputs=("x", "y"),
    domains=((-2.0, 2.0), POSITIVE),
    more=(Sample(((3,), (3,)), ((-2.0, 2.0), (-2.5, -0.3))),),
    weight=4,
    kink=_whole,
)

remainder = elementwise(
    "remainder",
    "x less the multiple of y below it, of the sign of y; where it jumps, as on the side where x "
    "is larger.",
    lambda xp, x, y: xp.remainder(x, y),
    Partials(
        (lambda out, x, y: full_like(x, 1), lambda out, x, y: -floor_divide(x, y)),
        (None, lambda out, x, y: not_equal(floor_divide(x, y), full_like(x, 0))),
    ),
    kernel="remainder(x, y)",
    latex=Latex(r"\operatorname{{mod}}({x}, {y})", ATOM, (0, 0)),
    result_type=_numbers,
    **AWAY,
    kink=_whole,
)

fmod = elementwise(
    "fmod",
    "x less the multiple of y next to it towards 0, of the sign of x; where it jumps, as on the "
    "side where x is further from 0.",
    lambda xp, x, y: xp.fmod(x, y),
    Partials(
        (lambda out, x, y: full_like(x, 1), lambda out, x, y: -rint((x - out) / y)),
        (None, lambda out, x, y: not_equal(x, out)),
    ),
    kernel="fmod(x, y)",
    latex=Latex(r"\operatorname{{fmod}}({x}, {y})", ATOM, (0, 0)),
    result_type=_numbers,
    **AWAY,
    kink=_whole,
)

copysign = elementwise(
    "copysign",
    "The size of x with the sign of y, zeros included; where x is 0, its derivative is 0.",
    lambda xp, x, y: xp.copysign(x, y),
    Partials(
        (lambda out, x, y: sign(x) * copysign(full_like(y, 1), y), None),
        (lambda out, x, y: not_equal(x, full_like(x, 0)), None),
    ),
    kernel="copysign(x, y)",
    latex=Latex(r"\operatorname{{copysign}}({x}, {y})", ATOM, (0, 0)),
    inputs=("x", "y"),
    more=(Sample(((3,), (3,)), ((0.3, 2.0), (-2.0, -0.3))),),
    kink=lambda x, y: (x == 0) | (y == 0),
)

ROUNDING = (floor, ceil, trunc, rint, floor_divide, remainder, fmod, copysign)
