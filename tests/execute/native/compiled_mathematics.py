"""What generated functions are compared with, and on which numbers."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from emitted import TARGETS, function

from chainrule.execute.native.libm import (
    erf_pieces,
)
from chainrule.execute.native.libm.mathematics import FUNCTIONS
from chainrule.execute.native.plan_to_ir.conversions import type_of

F4 = np.dtype(np.float32)


F8 = np.dtype(np.float64)


LANES = {
    (name, dtype): width // dtype.itemsize
    for name, width in (("avx512", 64), ("avx2", 32), ("sse2", 16))
    for dtype in (F4, F8)
}


# By mpmath, and by NumPy in a wider dtype, which finds the candidates for the worst quickly.
EXACT = {
    "acos": mpmath.acos,
    "acosh": mpmath.acosh,
    "asin": mpmath.asin,
    "asinh": mpmath.asinh,
    "atan": mpmath.atan,
    "atanh": mpmath.atanh,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "ceil": mpmath.ceil,
    "cos": mpmath.cos,
    "cosh": mpmath.cosh,
    "erf": mpmath.erf,
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "expm1": mpmath.expm1,
    "floor": mpmath.floor,
    "log": mpmath.log,
    "log10": mpmath.log10,
    "log2": lambda x: mpmath.log(x, 2),
    "log1p": mpmath.log1p,
    "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
    "rint": mpmath.nint,
    "sin": mpmath.sin,
    "sinh": mpmath.sinh,
    "sqrt": mpmath.sqrt,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
    "trunc": lambda x: mpmath.floor(x) if x > 0 else mpmath.ceil(x),
}


NUMPYS = {"a" + name: "arc" + name for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")}


WIDE = {
    "erf": lambda x: np.vectorize(math.erf, otypes=[float])(x),
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    **{
        name: getattr(np, NUMPYS.get(name, name))
        for name in EXACT
        if name not in ("erf", "logistic")
    },
}


# In units of the last place; the least possible is 0.5.  The issue asks for 4.
GREATEST_ERROR = 4


CASES = pytest.mark.parametrize(
    ("name", "dtype", "target"),
    [(name, dtype, target) for name in EXACT for dtype in (F4, F8) for target in TARGETS],
    ids=lambda one: str(one),
)


EDGES = {
    F4: (-104, -103.97208, -87.33655, 88.72284, 89, 9.25, 3.925, 17.32868, 103.97208, 2.0**20),
    F8: (-746, -745.13322, -708.39642, 709.782713, 710, 19.07, 5.93, 36.7368, 2.0**20),
}


def emitted(name: str, dtype: np.dtype, target: str, scalar: bool = False):
    lanes = 0 if scalar else LANES[target, dtype]
    return function(FUNCTIONS[name], [dtype], dtype, lanes, TARGETS[target])


def exceptional(dtype: np.dtype) -> np.ndarray:
    """NaN, inf, zeros, both ends of the normal and of the subnormal numbers, ones."""
    limits = np.finfo(dtype)
    least, tiny = limits.smallest_subnormal, limits.tiny
    positive = [0, least, tiny - least, tiny, limits.eps, 0.5, 1, 2, limits.max, np.inf]
    return np.array([np.nan, *positive, *(-one for one in positive), -0.0], dtype)


def near_edges(dtype: np.dtype) -> np.ndarray:
    """Where a function changes its formula, overflows or ends, and the neighbours."""
    integer = np.dtype(f"i{dtype.itemsize}")
    points = [0.5, 0.9, np.sqrt(0.5), np.sqrt(2), 1, np.log(2), *EDGES[dtype]]
    for (base, pieces), step in erf_pieces.STEP.items():
        points += list(step * np.arange(0.5, pieces, 0.5)) if base == type_of(dtype) else []
    points += list(np.log(2) * np.arange(-7, 8, 0.5) + 1e-30)
    bits = np.array(points, dtype).view(integer)
    around = (bits[:, None] + np.arange(-4, 5, dtype=integer)).ravel().view(dtype)
    return np.concatenate([around, -around])


def near_quadrants(dtype: np.dtype, count: int) -> np.ndarray:
    """The numbers next to multiples of π/2 up to 2^20, where sin or cos is almost 0."""
    multiples = np.unique(np.geomspace(1, 2**20 / (np.pi / 2), count).astype(int))
    multiples = np.append(multiples, [170015, 204551])  # the hardest in float32 and float64
    with mpmath.workdps(40):
        return np.array([float(k * mpmath.pi / 2) for k in multiples.tolist()], dtype)


def sample(name: str, dtype: np.dtype, count: int) -> np.ndarray:
    """Numbers of all exponents and both signs, more of them of a size that matters."""
    random = np.random.default_rng(0)
    bits = random.integers(0, 2 ** (8 * dtype.itemsize), count, f"u{dtype.itemsize}")
    scale = np.resize([0.1, 1, 1, 3, 10, 100, 300], count)
    usual = (random.standard_normal(count) * scale).astype(dtype)
    near_one = (1 + 0.3 * random.standard_normal(count // 4)).astype(dtype)
    with np.errstate(invalid="ignore"):
        parts = [bits.view(dtype), usual, near_one, near_edges(dtype), exceptional(dtype)]
    x = np.concatenate(parts)
    if name in ("sin", "cos"):
        x = np.concatenate([x, near_quadrants(dtype, count // 4)])
        x = x[~(np.abs(x) > 2.0**20)]  # libm's, beyond
    return x


def unit(exact, dtype: np.dtype):
    """One unit in the last place at each exact value."""
    limits = np.finfo(dtype)
    _, exponent = np.frexp(np.where(np.isfinite(exact), exact, 0))
    exponent = np.clip(exponent - 1, limits.minexp, limits.maxexp - 1)
    return np.ldexp(np.ones_like(exact), exponent - limits.nmant)


def errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """In units of the last place; inf as the number after the greatest; inf where NaN is wrong."""
    dtype = got.dtype
    end = np.ldexp(exact.dtype.type(1), np.finfo(dtype).maxexp)
    with np.errstate(invalid="ignore"):
        number = np.where(np.isinf(got), np.copysign(end, got), got.astype(exact.dtype))
        distance = np.abs(number - np.clip(exact, -end, end)) / unit(exact, dtype)
    distance[np.isnan(got) & np.isnan(exact)] = 0
    distance[np.isnan(distance)] = np.inf
    return distance


def widened(name: str, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(WIDE[name](x.astype(wider(x.dtype))), wider(x.dtype))


def wider(dtype: np.dtype) -> np.dtype:
    return F8 if dtype == F4 else np.dtype(np.longdouble)


def worst_by_mpmath(name: str, x: np.ndarray, got: np.ndarray, count: int) -> float:
    """The greatest error, of the `count` numbers whose error seems greatest."""
    finite = np.isfinite(x) & (np.isfinite(got))
    x, got = x[finite], got[finite]
    seeming = errors(got, widened(name, x))
    worst = 0.0
    for place in np.argsort(seeming)[-count:]:
        with mpmath.workdps(60):
            exact = EXACT[name](mpmath.mpf(float(x[place])))
            unit_ = mpmath.mpf(float(unit(np.array(float(exact)), x.dtype)))
            worst = max(worst, float(abs(mpmath.mpf(float(got[place])) - exact) / unit_))
    return worst


def check(name: str, dtype: np.dtype, target: str, x: np.ndarray, count: int) -> float:
    got = emitted(name, dtype, target)(x)
    seeming = errors(got, widened(name, x))
    # erf is judged by a double here, which adds its own error; the worst are judged by mpmath.
    allowed = GREATEST_ERROR + (name == "erf" and dtype == F8)
    wrong = ~(seeming <= allowed)
    assert not wrong.any(), (x[wrong][:5], got[wrong][:5])
    worst = worst_by_mpmath(name, x, got, count)
    assert worst <= GREATEST_ERROR
    return worst
