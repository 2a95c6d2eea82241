"""Modified Bessel functions, scaled so that they do not overflow, and their derivatives."""

from __future__ import annotations

from typing import Any

from chainrule.primitives.families import BOOL, at_zero
from chainrule.primitives.logic import not_equal
from chainrule.primitives.notation import PRODUCT, Latex
from chainrule.primitives.sources import full_like, uniform
from chainrule.primitives.special.family import special


def _is_not_zero(out: Any, x: Any) -> Any:
    return not_equal(x, full_like(x, 0))


def _beside_the_kink(out: Any, x: Any) -> Any:
    # exp(-|x|) times an even function has the kink, also after two derivatives.
    if (out.param("order") + out.param("slope")) % 2:
        return uniform(True, BOOL, x.shape)
    return _is_not_zero(out, x)


i0e = special(
    "i0e",
    "exp(-|x|) times the modified Bessel function of order 0; its derivative at 0 is 0.",
    lambda out, x: i0e_slope(x),
    nbytes=(49, 0),
    domains=((0.3, 4.0),),
    more=((-4.0, -0.3),),
    latex=Latex(r"e^{{-\left|{x}\right|}} I_0({x})", PRODUCT, (0,)),
    kink=at_zero,
    kernel="i0e(x)",
    selected=(_is_not_zero,),
)

i1e = special(
    "i1e",
    "exp(-|x|) times the modified Bessel function of order 1.",
    lambda out, x: i1e_slope(x),
    nbytes=(48, 0),
    domains=((0.3, 4.0),),
    more=((-4.0, -0.3),),
    latex=Latex(r"e^{{-\left|{x}\right|}} I_1({x})", PRODUCT, (0,)),
    kink=at_zero,
    kernel="i1e(x)",
)

i0e_slope = special(
    "i0e_slope",
    "The derivative of i0e; 0 at 0, where its sides differ.",
    lambda out, x: bessel_derivative(x, order=0, slope=2),
    nbytes=(72, 256),
    domains=((0.3, 4.0),),
    more=((-4.0, -0.3), (19.0, 30.0)),
    latex=Latex(r"\frac{{d}}{{d x}} e^{{-|x|}} I_0({x})", PRODUCT, (0,)),
    kernel="i0e_slope(x)",
    kink=at_zero,
)

i1e_slope = special(
    "i1e_slope",
    "The derivative of i1e.",
    lambda out, x: bessel_derivative(x, order=1, slope=2),
    nbytes=(72, 256),
    domains=((0.3, 4.0),),
    more=((-4.0, -0.3), (19.0, 30.0)),
    latex=Latex(r"\frac{{d}}{{d x}} e^{{-|x|}} I_1({x})", PRODUCT, (0,)),
    kernel="i1e_slope(x)",
    kink=at_zero,
    selected=(_is_not_zero,),
)

bessel_derivative = special(
    "bessel_derivative",
    "The derivative of i0e or i1e of an order from 2 on; 0 at 0 where its sides differ there.",
    lambda out, x: bessel_derivative(x, order=out.param("order"), slope=out.param("slope") + 1),
    nbytes=(72, 256),
    domains=((0.3, 4.0),),
    more=((-4.0, -0.3), (19.0, 30.0)),
    latex=Latex(
        r"\frac{{d^{{{slope}}}}}{{d x^{{{slope}}}}} e^{{-|x|}} I_{{{order}}}({x})", PRODUCT, (0,)
    ),
    order=0,
    slope=2,
    kink=lambda x, **params: x == 0,
    selected=(_beside_the_kink,),
)

BESSEL = (i0e, i1e, i0e_slope, i1e_slope, bessel_derivative)
