"""Special functions that NumPy lacks; SciPy evaluates them, and is loaded when one is used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.graph.dtypes import finfo
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import absolute, exp, gaussian, log, logistic, maximum
from chainrule.primitives.families import SHAPES, at_zero, batch_pointwise, same_type
from chainrule.primitives.logic import (
    equal,
    less_equal,
    logical_and,
    logical_not,
    where,
)
from chainrule.primitives.notation import ATOM, PRODUCT, Latex
from chainrule.primitives.primitive import Library, Partials, Primitive, Sample, every_axis
from chainrule.primitives.python import calls_own
from chainrule.primitives.sources import full_like
from chainrule.primitives.special.bessel import BESSEL
from chainrule.primitives.special.family import special

FLOATS = (np.float32, np.float64)  # in which SciPy computes
ROOT_PI = math.sqrt(math.pi)

SOURCE = '''
def erfinv(x):
    """The inverse of the error function, by SciPy."""
    from scipy import special

    return np.asarray(special.erfinv(x), x.dtype)
'''


def _wide(dtype: np.dtype) -> np.dtype:
    if dtype in FLOATS:
        return dtype
    return np.dtype(np.float32 if dtype == np.float16 else np.float64)


def _erfinv(xp: Any, x: Any) -> Any:
    if xp is not np:
        from jax.scipy.special import erfinv as jax_erfinv  # only JAX shares this evaluation

        return jax_erfinv(x)
    from scipy.special import erfinv as of_scipy

    dtype = x.dtype
    x = np.asarray(x).astype(_wide(dtype), copy=False)
    return np.asarray(of_scipy(x)).astype(dtype, copy=False)


def _erfinv_scratch(out: Node, x: np.ndarray) -> int:
    wide = _wide(x.dtype)
    return 0 if wide == x.dtype else 2 * x.size * wide.itemsize


erfinv = Primitive(
    name="erfinv",
    doc="The number whose error function is x, for x from -1 to 1 (-inf and inf there).",
    inputs=("x",),
    result_type=same_type,
    evaluate=_erfinv,
    derivative=Partials((lambda out, x: (ROOT_PI / 2) * exp(out * out),)),
    batch=batch_pointwise,
    kernel=Library(),
    flops=lambda out: 20 * out.type.size,
    latex=Latex(r"\operatorname{{erf}}^{{-1}}({x})", ATOM, (0,)),
    samples=tuple(Sample((shape,), ((-0.9, 0.9),)) for shape in SHAPES),
    defined=(-1, 1),
    scratch=_erfinv_scratch,
    independent=every_axis,
    python=calls_own(SOURCE),
    kink=lambda x: np.abs(x) == 1,
)


erfc = special(
    "erfc",
    "The complementary error function 1 - erf(x), accurate where it is small.",
    lambda out, x: (-2 / ROOT_PI) * gaussian(x),
    nbytes=(64, 184),
    more=((2.0, 5.0),),
    kernel="erfc(x)",
)

erfcx = special(
    "erfcx",
    "exp(x^2) erfc(x), which neither overflows nor vanishes for positive x.",
    lambda out, x: erfcx_slope(x),
    nbytes=(73, 184),
    more=((2.0, 9.0),),
    kernel="erfcx(x)",
)

erfcx_slope = special(
    "erfcx_slope",
    "The derivative of erfcx.",
    lambda out, x: erfcx_derivative(x, order=2),
    nbytes=(138, 184),
    more=((2.0, 9.0),),
    latex=Latex(r"\operatorname{{erfcx}}'({x})", ATOM, (0,)),
    kernel="erfcx_slope(x)",
)

erfcx_derivative = special(
    "erfcx_derivative",
    "The derivative of erfcx of an order from 2 on.",
    lambda out, x: erfcx_derivative(x, order=out.param("order") + 1),
    nbytes=(138, 184),
    more=((2.0, 9.0),),
    latex=Latex(r"\operatorname{{erfcx}}^{{({order})}}({x})", ATOM, (0,)),
    order=2,
)

log_erfc = special(
    "log_erfc",
    "The logarithm of erfc, finite where that vanishes.",
    lambda out, x: -math.sqrt(2) * _normal_hazard(out, -math.sqrt(2) * x),
    nbytes=(49, 184),
    more=((2.0, 30.0),),
    kernel="where(x > 0.5, log(erfcx(x)) - x * x, log1p(-erf(x)))",
)


def _density(x: Any) -> Any:
    return (1 / math.sqrt(2 * math.pi)) * gaussian(math.sqrt(0.5) * x)


ndtr = special(
    "ndtr",
    "The distribution function of the standard normal distribution, accurate in both tails.",
    lambda out, x: _density(x),
    nbytes=(81, 184),
    least=lambda out, count: 89 * count,
    more=((-9.0, -2.0),),
    kernel="ndtr(x)",
)


def _normal_hazard(out: Any, x: Any) -> Any:
    # The density over ndtr(x); below 0 the factor exp(-x^2/2) of both is left out, and far below
    # its first terms are all that is left.
    below = less_equal(x, full_like(x, 0))
    border = full_like(x, -(float(finfo(x.dtype).max) ** 0.25))
    far = less_equal(x, border)
    safe = where(below, maximum(x, border), full_like(x, 0))
    tail = math.sqrt(2 / math.pi) / erfcx(-math.sqrt(0.5) * safe)
    beyond = where(far, x, border)
    tail = where(far, -beyond - 1 / beyond, tail)
    return where(below, tail, _density(x) / ndtr(absolute(x)))


log_ndtr = special(
    "log_ndtr",
    "The logarithm of ndtr, finite where that vanishes.",
    _normal_hazard,
    nbytes=(73, 184),
    least=lambda out, count: 81 * count,
    more=((-30.0, -3.0), (3.0, 6.0)),
    kernel=f"where(x < 0, log(0.5 * erfcx({math.sqrt(0.5)} * fabs(x))) - x * (0.5 * x), "
    "log1p(-ndtr(-x)))",
)

gammaln = special(
    "gammaln",
    "The logarithm of the absolute value of the gamma function; inf at 0, -1, -2, ...",
    lambda out, x: digamma(x),
    nbytes=(66, 0),
    domains=((0.3, 4.0),),
    more=((-1.9, -1.1),),
    kernel="gammaln(x)",
)

digamma = special(
    "digamma",
    "The derivative of gammaln; NaN at -1, -2, ..., and -inf at 0.",
    lambda out, x: polygamma(x, order=1),
    nbytes=(41, 0),
    domains=((0.3, 4.0),),
    more=((-1.9, -1.1),),
    kernel="digamma(x)",
    latex=Latex(r"\psi({x})", ATOM, (0,)),
)

polygamma = special(
    "polygamma",
    "The derivative of digamma of an order from 1 on.",
    lambda out, x: polygamma(x, order=out.param("order") + 1),
    nbytes=(65, 9),
    # the coefficients in cot, where they are more than what is kept of the elements later
    least=lambda out, count: 40 * count + 24 + 8 * out.param("order") if count else 0,
    domains=((0.3, 4.0),),
    more=((-1.9, -1.1),),
    latex=Latex(r"\psi^{{({order})}}({x})", ATOM, (0,)),
    order=1,
)

betaln = special(
    "betaln",
    "The logarithm of the beta function of x and y.",
    lambda out, x, y: digamma(x) - digamma(x + y),
    lambda out, x, y: digamma(y) - digamma(x + y),
    nbytes=(121, 8),
    inputs=("x", "y"),
    domains=((0.3, 4.0), (0.5, 4.0)),
    latex=Latex(r"\log \mathrm{{B}}({x}, {y})", ATOM, (0, 0)),
)

logit = special(
    "logit",
    "log(x / (1 - x)), the inverse of the logistic sigmoid; NaN outside of [0, 1].",
    lambda out, x: 1 / x + 1 / (1 - x),
    nbytes=(16, 0),
    domains=((0.1, 0.9),),
    defined=(0, 1),
    kernel="where(fabs(x - 0.5) <= 0.25, 2 * atanh(2 * x - 1), log(x / (1 - x)))",
)


log_expit = special(
    "log_expit",
    "The logarithm of the logistic sigmoid, finite where that vanishes.",
    lambda out, x: logistic(-x),
    nbytes=(16, 0),
    more=((-30.0, -3.0), (3.0, 30.0)),
    kernel="where(x > 0, -log1p(exp(-x)), x - log1p(exp(x)))",
    latex=Latex(r"\log(\sigma({x}))", ATOM, (0,)),
)


def _nothing(compare: Primitive, x: Any, y: Any) -> Any:
    return logical_and(equal(x, full_like(x, 0)), compare(y, full_like(y, 0)))


def _log_beside_zero(out: Any, x: Any, y: Any) -> Any:
    # 0 log(y) is 0 for every y, so that log(0) = -inf is not its slope.
    return where(_nothing(less_equal, x, y), full_like(y, 0), log(y))


def _quotient_beside_zero(out: Any, x: Any, y: Any) -> Any:
    return where(_nothing(equal, x, y), full_like(y, 0), x / y)


xlogy = special(
    "xlogy",
    "x log(y), and 0 where x is 0 (NaN if y is); where x is 0 and y is not positive, flat.",
    _log_beside_zero,
    _quotient_beside_zero,
    nbytes=(24, 0),
    inputs=("x", "y"),
    domains=((-2.0, 2.0), (0.3, 2.5)),
    latex=Latex(r"{x} \log({y})", PRODUCT, (PRODUCT, 0)),
    kernel="where((x == 0) & (y == y), 0.0, x * log(y))",
    kink=lambda x, y: (x == 0) & (y <= 0),
    selected=(
        lambda out, x, y: logical_not(_nothing(less_equal, x, y)),
        lambda out, x, y: logical_not(_nothing(less_equal, x, y)),
    ),
)

entr = special(
    "entr",
    "-x log(x), which is 0 of 0, and -inf below 0.",
    lambda out, x: -(log(x) + 1),
    nbytes=(16, 0),
    domains=((0.3, 2.5),),
    kernel="where(x > 0, -(x * log(x)), log(sign(x) + 1))",
    kink=at_zero,
)


SPECIAL = (
    erfinv,
    erfc,
    erfcx,
    erfcx_slope,
    erfcx_derivative,
    ndtr,
    log_ndtr,
    log_erfc,
    log_expit,
    gammaln,
    digamma,
    polygamma,
    betaln,
    logit,
    xlogy,
    entr,
    *BESSEL,
)
