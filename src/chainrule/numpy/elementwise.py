"""Elementwise NumPy functions that are formulas of others, with NumPy's dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.frontend.composite import composite
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind
from chainrule.numpy.of_one_primitive import sigmoid
from chainrule.numpy.promoted import promoted
from chainrule.primitives.trigonometric import sinc as sinc_of_floats


def _sorted(x1: Any, x2: Any) -> tuple[Any, Any, Any]:
    """The larger of two; the smaller less it; whether both are the same infinity, where that is 0
    and not NaN."""
    first = x1 > x2
    high, low = np.where(first, x1, x2), np.where(first, x2, x1)
    endless = (low == high) & (np.abs(high) == np.inf)
    return high, np.where(endless, 0, low - high), endless


def _share(of: str, other: str) -> Callable[[Any, Any, Any], Any]:
    """The gradient of log(exp(x) + exp(y)) by x is σ(x − y), where both have one shape."""

    def gradient(g: Any, out: Any, call: Any) -> Any:
        x, y = call[of], call[other]
        if np.shape(x) != np.shape(g):
            return None
        is_zero = isinstance(y, (int, float)) and y == 0
        return g * sigmoid(x if is_zero else x - y)

    return gradient


@composite(
    symbol="logaddexp",
    latex=r"\operatorname{logaddexp}",
    gradients={"x1": _share("x1", "x2"), "x2": _share("x2", "x1")},
    module="np",
)
def logaddexp(x1: Any, x2: Any) -> Any:
    """log(exp(x1) + exp(x2)) without overflow; the same infinities get half of the slope each."""
    x1, x2 = promoted(np.logaddexp, x1, x2)
    high, above, endless = _sorted(x1, x2)
    return np.where(endless, 0.5 * x1 + 0.5 * x2, high + np.log1p(np.exp(above)))


def logaddexp2(x1: Any, x2: Any) -> Any:
    """log2(2**x1 + 2**x2) without overflow; the same infinities get half of the slope each."""
    x1, x2 = promoted(np.logaddexp2, x1, x2)
    high, above, endless = _sorted(x1, x2)
    part = np.exp2(above)
    small = np.log1p(part) * (1 / math.log(2))
    # exact where both are equal
    both = high + np.where(part > 0.5, np.log2(1 + part), small)
    return np.where(endless, 0.5 * x1 + 0.5 * x2, both)


def fmax(x1: Any, x2: Any) -> Any:
    """The larger of two numbers, the other where one is NaN; where they tie, each gets half."""
    x1, x2 = promoted(np.fmax, x1, x2)
    return np.maximum(np.where(x1 == x1, x1, x2), np.where(x2 == x2, x2, x1))


def fmin(x1: Any, x2: Any) -> Any:
    """The smaller of two numbers, the other where one is NaN; where they tie, each gets half."""
    x1, x2 = promoted(np.fmin, x1, x2)
    return np.minimum(np.where(x1 == x1, x1, x2), np.where(x2 == x2, x2, x1))


def heaviside(x1: Any, x2: Any) -> Any:
    """0 where x1 is negative, 1 where it is positive, x2 where it is 0; flat in x1."""
    x1, x2 = promoted(np.heaviside, x1, x2)
    step = np.where(x1 < 0, 0, np.where(x1 > 0, 1, np.where(x1 == 0, 0, np.nan)))
    return np.where(x1 == 0, x2, step.astype(x1.dtype))


def deg2rad(x: Any) -> Any:
    """x times pi / 180."""
    return promoted(np.deg2rad, x)[0] * (math.pi / 180)


def rad2deg(x: Any) -> Any:
    """x times 180 / pi."""
    return promoted(np.rad2deg, x)[0] * (180 / math.pi)


def float_power(x1: Any, x2: Any) -> Any:
    """x1 ** x2, in float64 at least."""
    if isinstance(x2, int) and not isinstance(x2, bool):
        return promoted(np.float_power, x1, 1.0)[0] ** x2
    x1, x2 = promoted(np.float_power, x1, x2)
    return x1**x2


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), and 1 at 0; its derivatives are accurate near 0, too."""
    x = x if dtype_kind(x.dtype) == "f" else x * 1.0
    return Traced(x.program.build(sinc_of_floats, x.node), x.program)


def reciprocal(x: Any) -> Any:
    """1 / x; of integers without the fraction, and of 0 what NumPy gives on x86."""
    (x,) = promoted(np.reciprocal, x)
    if dtype_kind(x.dtype) == "f":
        return 1 / x
    limits = np.iinfo(x.dtype)
    least = limits.min if limits.bits >= 32 else 0
    return np.where(x == 0, least, np.where(np.abs(x) == 1, x, 0))


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of real numbers in the complex plane: pi where negative, else 0."""
    turned = np.arctan2(0, z)
    return turned * (180 / math.pi) if deg else turned


def conjugate(x: Any) -> Any:
    """x itself: traced arrays are real."""
    return +promoted(np.conjugate, x)[0]


def real(val: Any) -> Any:
    """val itself: traced arrays are real."""
    return +val


def imag(val: Any) -> Any:
    """Zeros: traced arrays are real."""
    return np.zeros_like(val)


def real_if_close(a: Any, tol: float = 100) -> Any:
    """a itself: traced arrays are real."""
    return +a


ELEMENTWISE: dict[Any, Callable[..., Any]] = {
    np.logaddexp: logaddexp,
    np.logaddexp2: logaddexp2,
    np.fmax: fmax,
    np.fmin: fmin,
    np.heaviside: heaviside,
    np.deg2rad: deg2rad,
    np.radians: deg2rad,
    np.rad2deg: rad2deg,
    np.degrees: rad2deg,
    np.float_power: float_power,
    np.sinc: sinc,
    np.reciprocal: reciprocal,
    np.angle: angle,
    np.conjugate: conjugate,
    np.real: real,
    np.imag: imag,
    np.real_if_close: real_if_close,
}
