"""Hyperbolic functions and their inverses (tanh is in `arithmetic.py`)."""

from __future__ import annotations

from math import inf
from typing import Any

from chainrule.primitives.arithmetic import named, sqrt
from chainrule.primitives.families import elementwise
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.sources import full_like
from chainrule.primitives.trigonometric import hypot

sinh = elementwise(
    "sinh",
    "The hyperbolic sine of x.",
    lambda xp, x: xp.sinh(x),
    lambda out, x: cosh(x),
    kernel="sinh(x)",
    latex=Latex(r"\sinh({x})", ATOM, (0,)),
    weight=12,
)

cosh = elementwise(
    "cosh",
    "The hyperbolic cosine of x.",
    lambda xp, x: xp.cosh(x),
    lambda out, x: sinh(x),
    kernel="cosh(x)",
    latex=Latex(r"\cosh({x})", ATOM, (0,)),
    weight=12,
)

arcsinh = elementwise(
    "arcsinh",
    "The number whose hyperbolic sine is x.",
    lambda xp, x: xp.arcsinh(x),
    # 1 / sqrt(x^2 + 1), in which x^2 would overflow
    lambda out, x: 1 / hypot(x, full_like(x, 1)),
    kernel="asinh(x)",
    latex=named("arsinh"),
    weight=12,
)


def _arccosh_slope(out: Any, x: Any) -> Any:
    # Two roots: x^2 - 1 would overflow, and is positive below -1, where there is no arccosh.
    # Their product would be inf times 0 in the derivatives at infinity.
    return 1 / sqrt(x - 1) / sqrt(x + 1)


arccosh = elementwise(
    "arccosh",
    "The number from 0 on whose hyperbolic cosine is x; its derivative at 1 is inf.",
    lambda xp, x: xp.arccosh(x),
    _arccosh_slope,
    kernel="acosh(x)",
    latex=named("arcosh"),
    defined=(1, inf),
    domain=(1.2, 3.0),
    weight=12,
    kink=lambda x: x == 1,
)

arctanh = elementwise(
    "arctanh",
    "The number whose hyperbolic tangent is x; its derivative at -1 and 1 is inf.",
    lambda xp, x: xp.arctanh(x),
    lambda out, x: 1 / ((1 - x) * (1 + x)),
    kernel="atanh(x)",
    latex=named("artanh"),
    defined=(-1, 1),
    domain=(-0.9, 0.9),
    weight=12,
)

HYPERBOLIC = (sinh, cosh, arcsinh, arccosh, arctanh)
