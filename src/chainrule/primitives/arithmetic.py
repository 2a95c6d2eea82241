"""Elementwise arithmetic and elementary functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.dtypes import finfo
from chainrule.primitives import logic
from chainrule.primitives.families import at_zero, elementwise, tie
from chainrule.primitives.notation import ADDITIVE, ATOM, POWER, PREFIX, PRODUCT, Form, Latex
from chainrule.primitives.primitive import Explicit, Flat, Linear, Multilinear, Partials, Sample
from chainrule.primitives.python import UNCHANGED, Python, Writing, Written, calls, calls_own
from chainrule.primitives.python_functions import LOGISTIC
from chainrule.primitives.sources import full_like

POSITIVE = (0.3, 2.5)


def named(function: str) -> Latex:
    """`f(x)` with an upright function name."""
    return Latex(rf"\operatorname{{{{{function}}}}}({{x}})", ATOM, (0,))


add = elementwise(
    "add",
    "The sum x + y.",
    lambda xp, x, y: xp.add(x, y),
    Linear((lambda g, out, x, y: g, lambda g, out, x, y: g)),
    kernel="x + y",
    latex=Latex("{x} + {y}", ADDITIVE, (ADDITIVE, ADDITIVE), Form.SUM),
    inputs=("x", "y"),
)

subtract = elementwise(
    "subtract",
    "The difference x - y.",
    lambda xp, x, y: xp.subtract(x, y),
    Linear((lambda g, out, x, y: g, lambda g, out, x, y: -g)),
    kernel="x - y",
    latex=Latex("{x} - {y}", ADDITIVE, (ADDITIVE, ADDITIVE + 1), Form.DIFFERENCE),
    inputs=("x", "y"),
)

negative = elementwise(
    "negative",
    "The negative -x.",
    lambda xp, x: xp.negative(x),
    Linear((lambda g, out, x: -g,)),
    kernel="-x",
    latex=Latex("-{x}", ADDITIVE, (PRODUCT,), Form.NEGATIVE),
)

multiply = elementwise(
    "multiply",
    "The elementwise product x y.",
    lambda xp, x, y: xp.multiply(x, y),
    Multilinear((lambda g, out, x, y: g * y, lambda g, out, x, y: g * x)),
    kernel="x * y",
    latex=Latex(r"{x} \odot {y}", PRODUCT, (PRODUCT, PRODUCT), Form.PRODUCT),
    inputs=("x", "y"),
)

divide = elementwise(
    "divide",
    "The elementwise quotient x / y.",
    lambda xp, x, y: xp.divide(x, y),
    Explicit(
        tangents=(lambda dx, out, x, y: dx / y, lambda dy, out, x, y: -(dy / y * out)),
        cotangents=(lambda g, out, x, y: g / y, lambda g, out, x, y: -(g / y * out)),
    ),
    kernel="x / y",
    latex=Latex(r"\frac{{{x}}}{{{y}}}", PRODUCT, (0, 0), Form.QUOTIENT),
    inputs=("x", "y"),
    domains=((-2.0, 2.0), POSITIVE),
    more=(Sample(((3,), (3,)), ((-2.0, 2.0), (-2.5, -0.3))),),
)


def _power_by_base(out: Any, x: Any, y: Any) -> Any:
    # y x^(y-1).  Where y is 0, so is this, but not its derivative by y, which is 1/x; where that or
    # its next derivatives would be no numbers, 0 times them would be none either.
    least = float(finfo(x.dtype).tiny) ** (1 / 3)
    regular = logic.greater_equal(absolute(x), full_like(x, least))
    flat = logic.logical_and(logic.equal(y, full_like(y, 0)), logic.logical_not(regular))
    exponent = logic.where(flat, full_like(y, 1), y)
    return y * power(x, exponent - 1)


def _power_by_exponent(out: Any, x: Any, y: Any) -> Any:
    # x^y log x; 0 at x = 0, where x^y is flat in y for y > 0.  There 1^y log 1 is computed: x^y
    # itself or its derivative may be inf, and inf times 0 is NaN.
    zero = logic.equal(x, full_like(x, 0))
    base = logic.where(zero, full_like(x, 1), x)
    return power(base, y) * log(base)


power = elementwise(
    "power",
    "x to the power y; the derivative by y at x = 0 is 0.",
    lambda xp, x, y: xp.power(x, y),
    Partials(
        (_power_by_base, _power_by_exponent),
        (None, lambda out, x, y: logic.not_equal(x, full_like(x, 0))),
    ),
    kernel="pow(x, y)",
    latex=Latex("{x}^{{{y}}}", POWER, (POWER + 1, 0), Form.POWER),
    inputs=("x", "y"),
    domains=(POSITIVE, (-2.0, 2.0)),
    weight=10,
    kink=at_zero,
)


def _integer_power_partial(out: Any, x: Any) -> Any:
    exponent = out.param("exponent")
    if exponent == 0:
        return full_like(x, 0)
    return exponent * integer_power(x, exponent=exponent - 1)


def _integer_power_scratch(out: Any, x: np.ndarray) -> int:
    # Squares and reciprocals are calls of their own; else the exponent is made an int64 array of
    # one element, then one of the dtype of x, while the result is not there yet.
    if out.param("exponent") in (-1, 2):
        return 0
    return max(8 + x.itemsize - x.nbytes, x.itemsize)


def _integer_power_python(out: Any, writing: Writing, x: Written) -> Written:
    # NumPy's scalars have a power of their own, which differs from its arrays' by an ulp.
    exponent = out.param("exponent")
    if out.ndim:
        return Written(f"{x.within(POWER + 1)}**{exponent}", POWER)
    return Written(f"np.square({x.text})" if exponent == 2 else f"np.power({x.text}, {exponent})")


integer_power = elementwise(
    "integer_power",
    "x to the power of a static integer.",
    lambda xp, x, *, exponent: x**exponent,
    _integer_power_partial,
    kernel="pow(x, exponent)",
    latex=Latex("{x}^{{{exponent}}}", POWER, (POWER + 1,), Form.POWER),
    domain=POSITIVE,
    scratch=_integer_power_scratch,
    more=tuple(
        Sample(((3,),), ((-2.0, -0.3),), (("exponent", exponent),))
        for exponent in (-2, -1, 0, 1, 2, 3)
    ),
    exponent=3,
    python=Python(_integer_power_python, noun="power"),
)

exp = elementwise(
    "exp",
    "The exponential of x.",
    lambda xp, x: xp.exp(x),
    lambda out, x: out,
    kernel="exp(x)",
    latex=Latex(r"\exp({x})", ATOM, (0,)),
    weight=10,
)

expm1 = elementwise(
    "expm1",
    "exp(x) - 1, accurate near 0.",
    lambda xp, x: xp.expm1(x),
    lambda out, x: exp(x),
    kernel="expm1(x)",
    latex=Latex(r"\exp({x}) - 1", ADDITIVE, (0,)),
    weight=10,
)

log = elementwise(
    "log",
    "The natural logarithm of x.",
    lambda xp, x: xp.log(x),
    lambda out, x: 1 / x,
    kernel="log(x)",
    latex=Latex(r"\log({x})", ATOM, (0,)),
    domain=POSITIVE,
    weight=10,
)

log1p = elementwise(
    "log1p",
    "log(1 + x), accurate near 0.",
    lambda xp, x: xp.log1p(x),
    lambda out, x: 1 / (x + 1),
    kernel="log1p(x)",
    latex=Latex(r"\log(1 + {x})", ATOM, (ADDITIVE,)),
    domain=(-0.6, 2.0),
    weight=10,
)

sqrt = elementwise(
    "sqrt",
    "The square root of x; its derivative at 0 is inf.",
    lambda xp, x: xp.sqrt(x),
    lambda out, x: 0.5 / out,
    kernel="sqrt(x)",
    latex=Latex(r"\sqrt{{{x}}}", ATOM, (0,)),
    domain=POSITIVE,
    weight=4,
    kink=at_zero,
)

sin = elementwise(
    "sin",
    "The sine of x in radians.",
    lambda xp, x: xp.sin(x),
    lambda out, x: cos(x),
    kernel="sin(x)",
    latex=Latex(r"\sin({x})", ATOM, (0,)),
    weight=10,
)

cos = elementwise(
    "cos",
    "The cosine of x in radians.",
    lambda xp, x: xp.cos(x),
    lambda out, x: -sin(x),
    kernel="cos(x)",
    latex=Latex(r"\cos({x})", ATOM, (0,)),
    weight=10,
)

tanh = elementwise(
    "tanh",
    "The hyperbolic tangent of x.",
    lambda xp, x: xp.tanh(x),
    lambda out, x: 1 - out * out,
    kernel="tanh(x)",
    latex=Latex(r"\tanh({x})", ATOM, (0,)),
    weight=10,
)


def _logistic(xp: Any, x: Any) -> Any:
    # exp only of what is not positive: nothing overflows, and both tails keep full precision.
    # (No operators: with them NumPy reuses large intermediates, and no small ones.)
    below = xp.exp(xp.minimum(x, 0))
    return xp.divide(below, xp.add(1, xp.exp(xp.negative(xp.abs(x)))))


def _logistic_scratch(out: Any, x: np.ndarray) -> int:
    # Two intermediates; and the number 1, an int64 array and then one of the dtype of x.
    number = 8 + x.itemsize
    return number if x.ndim == 0 else x.nbytes + max(x.nbytes + x.itemsize, number)


logistic = elementwise(
    "logistic",
    "The logistic sigmoid 1 / (1 + exp(-x)).",
    _logistic,
    # out * logistic(-x) and not out * (1 - out), which loses all digits for large x.
    lambda out, x: out * logistic(-x),
    kernel="logistic(x)",
    latex=Latex(r"\sigma({x})", ATOM, (0,)),
    weight=12,
    scratch=_logistic_scratch,
    python=calls_own(LOGISTIC),
)


sign = elementwise(
    "sign",
    "-1, 0 or 1 by the sign of x; its derivative is 0, at 0 too.",
    lambda xp, x: xp.sign(x),
    Flat(),
    kernel="sign(x)",
    latex=named("sign"),
    kink=at_zero,
)

absolute = elementwise(
    "absolute",
    "The absolute value of x; its derivative at 0 is 0.",
    lambda xp, x: xp.abs(x),
    Partials((lambda out, x: sign(x),), (lambda out, x: logic.not_equal(x, full_like(x, 0)),)),
    kernel="fabs(x)",
    latex=Latex(r"\left|{x}\right|", ATOM, (0,)),
    python=calls("abs", ("x",), "magnitude"),
    kink=at_zero,
)


def _share(greater: Any, x: Any, y: Any) -> Any:
    # 1 where x wins, 1/2 where both tie, else 0.  NaN wins nothing; it has spread already.
    half = logic.where(logic.equal(x, y), full_like(x, 0.5), full_like(x, 0))
    return logic.where(greater(x, y), full_like(x, 1), half)


maximum = elementwise(
    "maximum",
    "The larger of x and y, NaN if either is; where they tie, each gets half the derivative.",
    lambda xp, x, y: xp.maximum(x, y),
    Partials(
        (
            lambda out, x, y: _share(logic.greater, x, y),
            lambda out, x, y: _share(logic.greater, y, x),
        ),
        (
            lambda out, x, y: logic.logical_not(logic.less(x, y)),  # NaN does not lose
            lambda out, x, y: logic.logical_not(logic.less(y, x)),
        ),
    ),
    kernel="fmax_nan(x, y)",
    latex=Latex(r"\max({x}, {y})", ATOM, (0, 0)),
    inputs=("x", "y"),
    kink=tie,
)

minimum = elementwise(
    "minimum",
    "The smaller of x and y, NaN if either is; where they tie, each gets half the derivative.",
    lambda xp, x, y: xp.minimum(x, y),
    Partials(
        (
            lambda out, x, y: _share(logic.less, x, y),
            lambda out, x, y: _share(logic.less, y, x),
        ),
        (
            lambda out, x, y: logic.logical_not(logic.greater(x, y)),
            lambda out, x, y: logic.logical_not(logic.greater(y, x)),
        ),
    ),
    kernel="fmin_nan(x, y)",
    latex=Latex(r"\min({x}, {y})", ATOM, (0, 0)),
    inputs=("x", "y"),
    kink=tie,
)

stop_gradient = elementwise(
    "stop_gradient",
    "x itself, through which no derivative flows.",
    lambda xp, x: x,
    Flat(),
    kernel="x",
    latex=named("stop"),
    weight=0,
    smooth=False,
    python=UNCHANGED,
)

identity = elementwise(
    "identity",
    "x itself; marks a variable of its own in nested differentiation.",
    lambda xp, x: x,
    Linear((lambda g, out, x: g,)),
    kernel="x",
    latex=Latex("{x}", PREFIX, (PREFIX,)),
    weight=0,
    python=UNCHANGED,
)

from chainrule.primitives.special.error_function import erf, gaussian  # noqa: E402

ARITHMETIC = (
    add,
    subtract,
    negative,
    multiply,
    divide,
    power,
    integer_power,
    exp,
    expm1,
    log,
    log1p,
    sqrt,
    sin,
    cos,
    tanh,
    logistic,
    erf,
    gaussian,
    sign,
    absolute,
    maximum,
    minimum,
    stop_gradient,
    identity,
)
