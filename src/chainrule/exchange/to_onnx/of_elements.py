"""Elementwise functions that ONNX lacks, as programs, and the places of extremes so far.

All compute with float64, whose polynomials are those of compiled code; ends and tails are as in
`primitives/special/special_evaluation.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.control.api import scan
from chainrule.execute.native.libm.bessel_coefficients import (
    I0_FAR,
    I0_NEAR,
    I0_SLOPE_FAR,
    I0_SLOPE_NEAR,
    I1_FAR,
    I1_NEAR,
    I1_SLOPE_FAR,
    I1_SLOPE_NEAR,
    I1_SLOPE_ZERO,
)
from chainrule.execute.native.libm.coefficients import ERF_NEAR
from chainrule.execute.native.libm.erfcx_coefficients import ERFCX, ERFCX_SLOPE

END = 27.5  # from where on exp(-x²) is 0, and exp(x²) inf
ROOT_PI = math.sqrt(math.pi)
Table = Mapping[str, tuple[float, ...]]


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's scheme, lowest power first."""
    found: Any = np.full_like(x, coefficients[-1])
    for one in reversed(coefficients[:-1]):
        found = found * x + one
    return found


def _of(table: Table, x: Any) -> Any:
    return polynomial(x, table["double"])


# The error function and its kin ----------------------------------------------------------------


def _erfcx_above(x: Any) -> Any:
    """erfcx from 0 on."""
    return _of(ERFCX, 5 / (x + 2.5) - 1) / (x + 0.875)


def _exp_of_square(x: Any, scale: float) -> Any:
    """exp(scale x²), of x² in two parts: rounded, it would be wrong by x² eps."""
    x = np.minimum(np.abs(x), END / math.sqrt(abs(scale)))
    high = x.astype(np.float32).astype(np.float64)
    return np.exp(scale * high * high) * np.exp(scale * (x - high) * (x + high))


def erfcx(x: Any) -> Any:
    size = np.abs(x)
    above = _erfcx_above(size)
    return np.where(x < 0, 2 * _exp_of_square(size, 1.0) - above, above)


def erfcx_slope(x: Any) -> Any:
    size = np.abs(x)
    curve = _of(ERFCX_SLOPE, 5 / (size + 2.5) - 1)
    above = -curve / (size + 1.125) / (size + 1.125)
    below = 2 * x * (2 * _exp_of_square(size, 1.0) - _erfcx_above(size)) - 2 / ROOT_PI
    return np.where(x < 0, below, above)


def erfcx_derivative(x: Any, order: int) -> Any:
    """D' = 2 x D - 2/√π and D_{k+1} = 2 x D_k + 2 k D_{k-1} (DLMF 7.10.3), in which nothing
    cancels below 0; above, their ratios are a continued fraction, which begins far behind."""
    below = np.minimum(x, 0.75)
    before = erfcx(below)
    now = 2 * below * before - 2 / ROOT_PI
    for k in range(1, order):
        before, now = now, 2 * below * now + 2 * k * before
    above = np.maximum(x, 0.75)

    def step(ratio: Any, k: Any) -> Any:
        return 2 * k / (2 * above + ratio), ()

    places = np.arange(order + 400, order, -1).astype(np.float64)
    ratio, _ = scan(step, np.zeros_like(above), places)
    found: Any = np.ones_like(above)
    for k in range(order, 1, -1):
        ratio = 2 * k / (2 * above + ratio)
        found = -ratio * found
    first = 2 / (2 * above + ratio)
    return np.where(x > 0.75, found * -first * erfcx(above), now)


def erf(x: Any) -> Any:
    near = x + x * _of(ERF_NEAR, x * x)
    far = 1 - _erfcx_above(np.abs(x)) * _exp_of_square(x, -1.0)
    return np.where(np.abs(x) < 0.5, near, np.where(x < 0, -far, far))


def erfc(x: Any) -> Any:
    tail = _erfcx_above(np.abs(x)) * _exp_of_square(x, -1.0)
    near = 1 - (x + x * _of(ERF_NEAR, x * x))
    return np.where(np.abs(x) < 0.5, near, np.where(x < 0, 2 - tail, tail))


def log_erfc(x: Any) -> Any:
    above = np.log(erfcx(np.maximum(x, 0.5))) - x * x
    return np.where(x > 0.5, above, np.log1p(-erf(x)))


def ndtr(x: Any) -> Any:
    size = np.abs(x)
    tail = 0.5 * _erfcx_above(math.sqrt(0.5) * size) * _exp_of_square(x, -0.5)
    return np.where(x < 0, tail, 1 - tail)


def log_ndtr(x: Any) -> Any:
    below = np.log(0.5 * _erfcx_above(math.sqrt(0.5) * np.abs(x))) - x * (0.5 * x)
    return np.where(x < 0, below, np.log1p(-ndtr(-x)))


def erfinv(x: Any) -> Any:
    """Newton's method: for erf(y) = x near 0, and beyond for log erfc(y) = log(1 - x), which is
    almost straight.  It begins with Winitzki's formula (2008), right to 2e-3."""
    size = np.abs(x)
    rest = np.log((1 - size) * (1 + size))
    part = 2 / (math.pi * 0.147) + rest / 2
    far = np.sqrt(np.sqrt(part * part - rest / 0.147) - part)
    near, far = np.where(size < 0.5, far, 0.25), np.where(size < 0.5, 0.5, far)
    far = np.where(size < 1, far, 1.0)
    wanted = np.log(np.where(size < 1, 1 - size, 1.0))
    for _ in range(3):
        value = near + near * _of(ERF_NEAR, near * near)
        near = near - (value - size) * (ROOT_PI / 2) * np.exp(near * near)
        scaled = _erfcx_above(far)
        far = far + (np.log(scaled) - far * far - wanted) * (ROOT_PI / 2) * scaled
    found = np.where(size < 0.5, near, np.where(size == 1, np.inf, far))
    found = np.where(size <= 1, found, np.nan)
    return np.where(x < 0, -found, np.where(x == 0, x, found))


# Γ and its kin ---------------------------------------------------------------------------------

LARGE = 12  # from where on Stirling's series are right to the last digits
BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510]
BERNOULLI += [43867 / 798, -174611 / 330]


def _shifted(x: Any, least: int = LARGE) -> tuple[Any, list[Any]]:
    """x plus an integer, from `least` on; and the numbers that were passed, where they were."""
    passed = []
    for _ in range(least):
        small = x < least
        passed.append((x, small))
        x = np.where(small, x + 1, x)
    return x, passed


def _gammaln_above(x: Any) -> Any:
    """log Γ from 1/2 on: Stirling's series (DLMF 5.11.1), and Taylor's around its zeros."""
    far, passed = _shifted(np.maximum(x, 0.5))
    product: Any = np.ones_like(x)
    for one, small in passed:
        product = product * np.where(small, one, 1.0)
    series = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:7], 1)]
    value = polynomial(1 / (far * far), series) / far
    value = (far - 0.5) * np.log(far) - far + 0.5 * math.log(2 * math.pi) + value
    value = value - np.log(product)
    value = np.where(np.isinf(x), x, value)
    return np.where((x > 0.5) & (x < 2.5), _gammaln_near(x), value)


def _gammaln_near(x: Any) -> Any:
    """Between 1/2 and 5/2: Taylor's series around 1, 3/2 and 2 (DLMF 5.7.3 and 5.15.1)."""
    from scipy import special

    below = x < 1.5
    z = np.clip(x, 0.5, 2.5) - np.where(below, 1.0, 2.0)
    series = [1 - np.euler_gamma, *[(-1) ** k * special.zetac(k) / k for k in range(2, 33)]]
    found = z * polynomial(z, [float(one) for one in series])
    found = np.where(below, found - np.log1p(z), found)
    t = np.clip(x, 1.25, 1.75) - 1.5
    middle = [special.psi(1.5), *[(-1) ** k * special.zeta(k, 1.5) / k for k in range(2, 25)]]
    inside = t * polynomial(t, [float(one) for one in middle]) + float(special.gammaln(1.5))
    return np.where((x > 1.25) & (x < 1.75), inside, found)


def _sine_of_pi(x: Any) -> Any:
    """|sin πx|, exactly 0 at integers."""
    return np.abs(np.sin(math.pi * (x - np.rint(x))))


def gammaln(x: Any) -> Any:
    """Below 1/2 by reflection (DLMF 5.5.3)."""
    low = x < 0.5
    above = _gammaln_above(np.where(low, 1 - x, x))
    found = np.where(low, math.log(math.pi) - np.log(_sine_of_pi(x)) - above, above)
    return np.where(np.isinf(x), x, found)


def digamma(x: Any) -> Any:
    """DLMF 5.11.2, and below 0 by reflection (5.5.4)."""
    away = x - np.rint(x)
    far, passed = _shifted(np.where(x < 0, 1 - x, x))
    series = [b / (2 * k) for k, b in enumerate(BERNOULLI[:8], 1)]
    square = 1 / (far * far)
    found = np.log(far) - 0.5 / far - square * polynomial(square, series)
    for one, small in reversed(passed):
        found = found - np.where(small, 1 / one, 0.0)
    cotangent = math.pi * np.cos(math.pi * away) / np.sin(math.pi * away)
    mirrored = np.where(away == 0, np.nan, found - cotangent)
    return np.where(x < 0, mirrored, np.where(x == 0, -np.copysign(np.inf, x), found))


def polygamma(x: Any, order: int) -> Any:
    """DLMF 5.15.8 and 5.15.5, and below 0 by reflection (5.15.6)."""
    low = x < 0
    far, passed = _shifted(np.where(low, 1 - x, x), LARGE + order)
    series = [
        b * math.factorial(2 * k + order - 1) / math.factorial(2 * k)
        for k, b in enumerate(BERNOULLI, 1)
    ]
    square = 1 / (far * far)
    found = math.factorial(order - 1) + math.factorial(order) / (2 * far)
    found = (found + square * polynomial(square, series)) / far**order
    for one, small in reversed(passed):
        power = math.factorial(order) / np.where(small, one, 1.0) ** (order + 1)
        found = found + np.where(small, power, 0.0)
    found = (-1) ** (order + 1) * found
    powers = [0.0, 1.0]  # the derivative of cot of that order as a polynomial in cot
    for _ in range(order):
        slopes = [k * powers[k] for k in range(1, len(powers))] + [0.0, 0.0]
        powers = [-one for one in slopes]
        for k in range(2, len(slopes)):
            powers[k] -= slopes[k - 2]
    angle = math.pi * np.where(low, x - np.rint(x), 0.25)
    cotangent = np.cos(angle) / np.sin(angle)
    total = polynomial(cotangent, powers) * math.pi ** (order + 1)
    mirrored = np.where(x == np.rint(x), np.nan, (-1) ** order * found - total)
    return np.where(low, mirrored, found)


def betaln(x: Any, y: Any) -> Any:
    """What cancels in the logarithms of Γ is left out of them by Stirling's series (Didonato and
    Morris, *Algorithm 708*, 1992, bcorr and algdiv)."""

    def rest(z: Any) -> Any:
        return polynomial(1 / (z * z), [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188]) / z

    low, high = np.minimum(x, y), np.maximum(x, y)
    near, ratio = high < 10, np.ones_like(x)
    for k in range(10):  # B(x, y) = B(x, y + 1) (x + y) / y
        ratio = np.where(near, ratio * (1 + low / (high + k)), 1.0)
    high = np.where(near, high + 10, high)
    small, large = np.maximum(low, 10), np.maximum(high, 10)
    both = small * np.log(small / (small + large)) - large * np.log1p(small / large)
    both = both + 0.5 * (np.log(2 * math.pi / large) - np.log(small / (small + large)))
    both = both + rest(small) + (rest(large) - rest(small + large))
    one = rest(large) - rest(low + large) - (low + large - 0.5) * np.log1p(low / large)
    one = gammaln(low) + (one - low * (np.log(large) - 1))
    found = np.where(low < 10, one, both) + np.log(ratio)
    plain = gammaln(x) + gammaln(y) - gammaln(x + y)
    return np.where((low > 0) & (high < 1e150), found, plain)


# Bessel functions ------------------------------------------------------------------------------

FAR = 8.0  # from where on the polynomials are in 1/x


def _near(x: Any, table: Table) -> Any:
    size = np.minimum(np.abs(x), FAR)
    return _of(table, size * size) * np.exp(-size)


def _far(x: Any, table: Table) -> Any:
    size = np.maximum(np.abs(x), FAR)
    return _of(table, 2 * FAR / size - 1) / np.sqrt(size)


def _level(x: Any, table: Table) -> Any:
    size = np.minimum(np.abs(x), FAR)
    return _of(table, size - FAR / 2) / ((size + 1) * (size + 1))


def _either(x: Any, near: Any, far: Any) -> Any:
    return np.where(np.abs(x) <= FAR, near, np.where(np.isnan(x), x, far))


def i0e(x: Any) -> Any:
    return _either(x, _near(x, I0_NEAR), _far(x, I0_FAR))


def i1e(x: Any) -> Any:
    size = np.abs(x)
    found = _either(x, _near(x, I1_NEAR) * np.minimum(size, FAR), _far(x, I1_FAR))
    return np.where(x < 0, -found, np.where(x == 0, x, found))


def i0e_slope(x: Any) -> Any:
    far = _far(x, I0_SLOPE_FAR) / np.maximum(np.abs(x), FAR)
    found = np.abs(_either(x, _level(x, I0_SLOPE_NEAR), far))
    return np.where(x == 0, 0.0, np.where(x < 0, found, -found))


def i1e_slope(x: Any) -> Any:
    high, low = I1_SLOPE_ZERO["double"]
    near = _level(x, I1_SLOPE_NEAR) * (np.minimum(np.abs(x), FAR) - high - low)
    return _either(x, near, _far(x, I1_SLOPE_FAR) / np.maximum(np.abs(x), FAR))


def _bessel(x: Any, order: int) -> Any:
    """exp(-x) I_order(x) for x up to 20: its series (DLMF 10.25.2), whose terms are positive.

    In powers of (x/20)²: onnxruntime leaves out additions of numbers that are 0 in float32.
    """
    series = [1.0]
    for k in range(1, 60):
        series.append(series[-1] * 100 / (k * (k + order)))
    terms = polynomial((x / 20) ** 2, series)
    return terms * (x / 2) ** order / math.factorial(order) * np.exp(-x)


def bessel_derivative(x: Any, order: int, slope: int) -> Any:
    """I' is half the sum of its neighbours; beyond 20, where these cancel, the asymptotic series
    (DLMF 10.40.1).  At 0 that of I_0 or I_1, as if |x| had the slope 0 there."""
    degree = order + slope
    at_zero = math.comb(slope, degree // 2) / 2**slope if degree % 2 == 0 else 0.0
    size = np.abs(x)
    near, far = np.minimum(size, 20), np.maximum(size, 20)
    total: Any = np.zeros_like(near)
    for i in range(2 * slope + 1):
        neighbour = _bessel(near, abs(order + slope - i))
        total = total + (-1) ** i * math.comb(2 * slope, i) * neighbour
    total = np.where(near == 0, at_zero, total / 2**slope)
    terms = [(-1) ** slope / math.sqrt(2 * math.pi)]
    for k in range(slope):
        terms[0] *= k + 0.5
    for j in range(1, 31):
        ratio = (4 * order * order - (2 * j - 1) ** 2) * (slope + j - 0.5) / (j - 0.5)
        terms.append(-terms[-1] * ratio / (8 * j))
    series = polynomial(1 / far, terms) / np.sqrt(far) / far**slope
    found = np.where(size > 20, series, total)
    return found * np.sign(x) if degree % 2 else np.where(np.isnan(x), x, found)


# Others ----------------------------------------------------------------------------------------


def sinc(x: Any) -> Any:
    angle = math.pi * x
    angle = np.where(angle == 0, 2.0**-40, angle)
    return np.sin(angle) / angle


def _so_far(picked: Any) -> Any:
    """The extremes of the elements so far."""

    def function(x: Any, axis: int, reverse: bool) -> Any:
        rows = np.moveaxis(x, axis, 0)
        rows = np.flip(rows, 0) if reverse else rows
        if rows.shape[0] == 0:
            return x

        def step(best: Any, row: Any) -> Any:
            best = picked(best, row)
            return best, best

        _, found = scan(step, rows[0], rows)
        return np.moveaxis(np.flip(found, 0) if reverse else found, 0, axis)

    return function


_FUNCTIONS = (erfc, erfcx, erfcx_slope, erfcx_derivative, log_erfc, ndtr, log_ndtr, erfinv)
_FUNCTIONS += (gammaln, digamma, polygamma, betaln, sinc)
_FUNCTIONS += (i0e, i1e, i0e_slope, i1e_slope, bessel_derivative)

OF_ELEMENTS = {
    **{one.__name__: one for one in _FUNCTIONS},
    "cummax": _so_far(np.maximum),
    "cummin": _so_far(np.minimum),
    "library_log": lambda x: np.log(x),
    "library_tan": lambda x: np.sin(x) / np.cos(x),
}
