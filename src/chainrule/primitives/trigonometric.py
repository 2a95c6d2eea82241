"""Trigonometric functions and their inverses, the polar coordinates of a point, and sinc."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.graph.dtypes import finfo
from chainrule.primitives import logic
from chainrule.primitives.arithmetic import absolute, cos, maximum, minimum, named, sign, sqrt
from chainrule.primitives.families import (
    batch_pointwise,
    elementwise,
    same_type,
    samples_on,
)
from chainrule.primitives.notation import ATOM, POWER, PRODUCT, Latex
from chainrule.primitives.primitive import Library, Partials, Primitive, Sample, every_axis
from chainrule.primitives.python import calls, calls_own
from chainrule.primitives.python_functions import ARCTAN_SLOPE
from chainrule.primitives.sources import full_like

tan = elementwise(
    "tan",
    "The tangent of x in radians.",
    lambda xp, x: xp.tan(x),
    lambda out, x: 1 + out * out,
    kernel="tan(x)",
    latex=Latex(r"\tan({x})", ATOM, (0,)),
    domain=(-1.2, 1.2),
    weight=12,
)


def _distance_to_ends(x: Any) -> Any:
    # sqrt(1 - x^2) without the rounding of x^2, which near 1 would be all that is left.
    return sqrt((1 - x) * (1 + x))


arcsin = elementwise(
    "arcsin",
    "The angle from -pi/2 to pi/2 whose sine is x; its derivative at -1 and 1 is inf.",
    lambda xp, x: xp.arcsin(x),
    lambda out, x: 1 / _distance_to_ends(x),
    kernel="asin(x)",
    latex=Latex(r"\arcsin({x})", ATOM, (0,)),
    defined=(-1, 1),
    domain=(-0.9, 0.9),
    weight=12,
    kink=lambda x: np.abs(x) == 1,
)

arccos = elementwise(
    "arccos",
    "The angle from 0 to pi whose cosine is x; its derivative at -1 and 1 is -inf.",
    lambda xp, x: xp.arccos(x),
    lambda out, x: -1 / _distance_to_ends(x),
    kernel="acos(x)",
    latex=Latex(r"\arccos({x})", ATOM, (0,)),
    defined=(-1, 1),
    domain=(-0.9, 0.9),
    weight=12,
    kink=lambda x: np.abs(x) == 1,
)

arctan = elementwise(
    "arctan",
    "The angle from -pi/2 to pi/2 whose tangent is x.",
    lambda xp, x: xp.arctan(x),
    lambda out, x: arctan_slope(x),
    kernel="atan(x)",
    latex=Latex(r"\arctan({x})", ATOM, (0,)),
    weight=12,
)


def _slope_scratch(out: Any, x: np.ndarray) -> int:
    # An intermediate, and the number 1: an int64 array and then one of the dtype of x.
    number = 8 + x.itemsize
    return number if x.ndim == 0 else max(x.nbytes + x.itemsize, number)


def _arctan_bend(out: Any, x: Any) -> Any:
    # Beyond the end x^2 overflows, so that out is 0; and x may be infinite.
    end = float(finfo(x.dtype).max) ** 0.75
    inside = minimum(maximum(x, full_like(x, -end)), full_like(x, end))
    return -2 * (out * (inside * out))


arctan_slope = elementwise(
    "arctan_slope",
    "1 / (1 + x^2), the derivative of arctan.",
    lambda xp, x: xp.divide(1, xp.add(1, xp.multiply(x, x))),
    _arctan_bend,
    kernel="1 / (1 + x * x)",
    latex=Latex(r"\frac{{1}}{{1 + {x}^2}}", PRODUCT, (POWER + 1,)),
    weight=3,
    scratch=_slope_scratch,
    python=calls_own(ARCTAN_SLOPE),
)


def _is_endless(x: Any) -> Any:
    return logic.equal(absolute(x), full_like(x, math.inf))


def _safe(length: Any) -> tuple[Any, Any]:
    """Where the length is 0 or infinite, and the length with 1 in place of these."""
    special = logic.logical_or(logic.equal(length, full_like(length, 0)), _is_endless(length))
    return special, logic.where(special, full_like(length, 1), length)


def _share(x: Any, other: Any, length: Any) -> Any:
    """x / length, the cosine of an angle; 0 (with all its derivatives) where the length is 0.

    Of a point infinitely far away it is that of an axis, or of the diagonal between two.
    """
    special, safe = _safe(length)
    diagonal = logic.where(
        _is_endless(other), full_like(x, math.sqrt(0.5)), full_like(x, 1)
    ) * sign(x)
    far = logic.where(_is_endless(x), diagonal, full_like(x, 0))
    return logic.where(special, far, x / safe)


def _has_a_share(x: Any, length: Any) -> Any:
    """Where `_share` is not 0 whatever x is."""
    special, _ = _safe(length)
    return logic.logical_or(logic.logical_not(special), _is_endless(x))


hypot = elementwise(
    "hypot",
    "The length of the vector (x, y), without overflow; where both are 0, the derivative is 0.",
    lambda xp, x, y: xp.hypot(x, y),
    Partials(
        (
            lambda out, x, y: _share(x, y, out),
            lambda out, x, y: _share(y, x, out),
        ),
        (
            lambda out, x, y: _has_a_share(x, out),
            lambda out, x, y: _has_a_share(y, out),
        ),
    ),
    kernel="hypot(x, y)",
    latex=Latex(r"\sqrt{{{x}^2 + {y}^2}}", ATOM, (POWER + 1, POWER + 1)),
    inputs=("x", "y"),
    weight=6,
    python=calls("hypot", ("x", "y"), "length"),
    kink=lambda x, y: (x == 0) & (y == 0),
)


def _turn(x: Any, y: Any, away: Any) -> Any:
    # away / (x^2 + y^2): dividing twice by the length neither overflows nor underflows.
    length = hypot(x, y)
    _, safe = _safe(length)
    near = logic.where(_is_endless(length), full_like(away, 0), away)
    return near / safe / safe


def _has_a_direction(out: Any, x: Any, y: Any) -> Any:
    return logic.logical_not(_safe(hypot(x, y))[0])


arctan2 = elementwise(
    "arctan2",
    "The angle from the second axis to the point (y, x); at the origin and infinitely far from "
    "it the derivative is 0.",
    lambda xp, x, y: xp.arctan2(x, y),
    Partials(
        (
            lambda out, x, y: _turn(x, y, y),
            lambda out, x, y: -_turn(x, y, x),
        ),
        (_has_a_direction, _has_a_direction),
    ),
    kernel="atan2(x, y)",
    latex=Latex(r"\operatorname{{atan2}}({x}, {y})", ATOM, (0, 0)),
    inputs=("x", "y"),
    weight=15,
    python=calls("arctan2", ("x", "y"), "angle"),
    kink=lambda x, y: (x == 0) & (y == 0),
)

NEAR = 1 / math.pi  # up to here the derivative of sinc is a series, of which these terms count
SERIES = [(-1) ** k * 2 * k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(1, 11)]


def _sinc(xp: Any, x: Any) -> Any:
    angle = xp.multiply(x, math.pi)
    tiny = 2.0 ** (-40 if x.dtype.itemsize > 4 else -12)  # its sine is it
    angle = xp.where(angle, angle, tiny)
    return xp.divide(xp.sin(angle), angle)


def _sinc_scratch(out: Any, x: np.ndarray) -> int:
    # Two intermediates; the tiny number, a float64 and then one of the dtype of x; and where x
    # is one number, an array of it for each use, and one boolean.
    number = 8 + x.itemsize * (x.itemsize != 8)
    return 2 * x.nbytes + number + 1 if x.ndim == 0 else x.nbytes + max(x.nbytes, number)


def _sinc_slope(out: Any, x: Any) -> Any:
    # (cos(pi x) - sinc(x)) / x cancels near 0: there, the series, of every order.
    near = logic.less(absolute(x), full_like(x, NEAR))
    inside = logic.where(near, x, full_like(x, 0))
    outside = logic.where(near, full_like(x, 1), x)
    square = inside * inside
    series: Any = full_like(x, SERIES[-1])
    for coefficient in reversed(SERIES[:-1]):
        series = series * square + coefficient
    return logic.where(near, inside * series, (cos(math.pi * outside) - out) / outside)


sinc = Primitive(
    name="sinc",
    doc="sin(pi x) / (pi x), and 1 at 0; its derivatives are accurate near 0, too.",
    inputs=("x",),
    result_type=same_type,
    evaluate=_sinc,
    derivative=Partials((_sinc_slope,)),
    batch=batch_pointwise,
    kernel=Library(),
    flops=lambda out: 14 * out.type.size,
    latex=named("sinc"),
    samples=(
        *samples_on(((-2.0, 2.0),), True, {}),
        Sample(((3,),), ((-0.3, 0.3),)),
    ),
    scratch=_sinc_scratch,
    independent=every_axis,
)

TRIGONOMETRIC = (tan, arcsin, arccos, arctan, arctan_slope, hypot, arctan2, sinc)
