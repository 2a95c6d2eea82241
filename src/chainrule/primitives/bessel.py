"""Modified Bessel functions, scaled so that they do not overflow, and their derivatives."""

from __future__ import annotations

from typing import Any

from chainrule.primitives.families import BOOL, at_zero
from chainrule.primitives.logic import not_equal
from chainrule.primitives.primitive import Latex
from chainrule.primitives.sources import full_like, uniform
from chainrule.primitives.special import special_function


def _beside_the_kink(out: Any, x: Any) -> Any:
    # exp(-|x|) times an even function has the kink, also after two derivatives.
    params = dict(out.params)
    odd = (params.get("order", 0) + params.get("slope", 0)) % 2 == 0  # the slope is
    return not_equal(x, full_like(x, 0)) if odd else uniform(True, BOOL, x.shape)


i0e = special_function(
    "i0e",
    "exp(-|x|) times the modified Bessel function of order 0; its derivative at 0 is 0.",
    lambda out, x: bessel_slope(x, order=0, slope=1),
    nbytes=(49, 0),
    domains=((0.3, 4.0),),
    more=((-4.0, -0.3),),
    latex=Latex(r"e^{{-\left|{x}\right|}} I_0({x})", 20, (0,)),
    kink=at_zero,
    selected=(_beside_the_kink,),
)

i1e = special_function(
    "i1e",
    "exp(-|x|) times the modified Bessel function of order 1.",
    lambda out, x: bessel_slope(x, order=1, slope=1),
    nbytes=(48, 0),
    domains=((0.3, 4.0),),
    more=((-4.0, -0.3),),
    latex=Latex(r"e^{{-\left|{x}\right|}} I_1({x})", 20, (0,)),
    kink=at_zero,
)

bessel_slope = special_function(
    "bessel_slope",
    "The derivative of i0e or i1e of a degree from 1 on; 0 at 0 where its sides differ there.",
    lambda out, x: bessel_slope(x, order=out.param("order"), slope=out.param("slope") + 1),
    nbytes=(72, 256),
    domains=((0.3, 4.0),),
    more=((-4.0, -0.3), (19.0, 30.0)),
    latex=Latex(
        r"\frac{{d^{{{slope}}}}}{{d x^{{{slope}}}}} e^{{-|x|}} I_{{{order}}}({x})", 20, (0,)
    ),
    order=0,
    slope=1,
    kink=lambda x, **params: x == 0,
    selected=(_beside_the_kink,),
)
