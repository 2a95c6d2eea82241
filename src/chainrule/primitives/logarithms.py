"""Powers of 2, logarithms to the bases 2 and 10 (exact for integer results), cube roots."""

from __future__ import annotations

import math

from chainrule.primitives.arithmetic import POSITIVE, integer_power, named
from chainrule.primitives.families import at_zero, elementwise
from chainrule.primitives.notation import ATOM, POWER, Latex
from chainrule.primitives.primitive import Sample

exp2 = elementwise(
    "exp2",
    "2 to the power x.",
    lambda xp, x: xp.exp2(x),
    lambda out, x: math.log(2) * out,
    kernel="exp2(x)",
    latex=Latex("2^{{{x}}}", POWER, (0,)),
    weight=10,
)

log2 = elementwise(
    "log2",
    "The logarithm of x to the base 2.",
    lambda xp, x: xp.log2(x),
    lambda out, x: (1 / math.log(2)) / x,
    kernel="log2(x)",
    latex=Latex(r"\log_2({x})", ATOM, (0,)),
    domain=POSITIVE,
    weight=10,
)

log10 = elementwise(
    "log10",
    "The logarithm of x to the base 10.",
    lambda xp, x: xp.log10(x),
    lambda out, x: (1 / math.log(10)) / x,
    kernel="log10(x)",
    latex=Latex(r"\log_{{10}}({x})", ATOM, (0,)),
    domain=POSITIVE,
    weight=10,
)

cbrt = elementwise(
    "cbrt",
    "The cube root of x, negative where x is; its derivative at 0 is inf.",
    lambda xp, x: xp.cbrt(x),
    # a power and not 1 / (3 out^2), whose own derivative at 0 is 0 times inf
    lambda out, x: (1 / 3) * integer_power(out, exponent=-2),
    kernel="cbrt(x)",
    latex=named("cbrt"),
    domain=POSITIVE,
    weight=10,
    more=(Sample(((3,),), ((-2.5, -0.3),)),),
    kink=at_zero,
)

LOGARITHMS = (exp2, log2, log10, cbrt)
