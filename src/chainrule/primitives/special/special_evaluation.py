"""Special functions in float64, by SciPy where it is right to a few ulp.

Each function takes and gives 1-d float64 arrays and stands by itself, so that its text can be
written into the source of a graph.  Where a tail has the factor exp(-x²), x² is summed of two parts
that are exact: rounded, it would be wrong by x² eps, 450 ulp of erfc(24).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Wide = np.ndarray


def erfcx_above(x: Wide) -> Wide:
    """erfcx from 0.7 on: to 2.3 by a polynomial (Chebyshev's, of the function around 1.5), and
    beyond by SciPy."""
    from scipy import special

    middle = np.polyval(
        [
            -1.5679523325614924e-11, 6.5140587404944e-11, -2.0357029932380468e-10,
            8.065517008166116e-10, -3.2385478082610435e-09, 1.2348511072531474e-08,
            -4.5964358214894325e-08, 1.6753513637988392e-07, -5.960836845272669e-07,
            2.066976435757006e-06, -6.974991286617097e-06, 2.286431080475492e-05,
            -7.265892224686859e-05, 0.00022330994457169412, -0.0006619300664069464,
            0.0018861348770099389, -0.005145957547985239, 0.013377340953067637,
            -0.03293090529956264, 0.07615103985547739, -0.16362291773256007, 0.3215854164543175,
        ],
        np.clip(x, 0.7, 2.3) - 1.5,
    )  # fmt: skip
    return np.where(x < 2.3, middle, special.erfcx(x))


def erfcx(x: Wide) -> Wide:
    """exp(x²) times the complementary error function; below 0.7 as this product."""
    from scipy import special

    near = np.clip(x, -30, 0.7)
    high = near.astype(np.float32).astype(np.float64)
    low = np.exp(high * high)
    low = special.erfc(near) * (low + low * np.expm1((near - high) * (near + high)))
    far = 2 * np.exp(high * high) * np.exp((near - high) * (near + high))
    low = np.where(x < -1, far - special.erfcx(-near), low)
    return np.where(x < 0.7, low, erfcx_above(x))


def erfc(x: Wide) -> Wide:
    """The complementary error function; beyond 0.7 the scaled one times exp(-x²)."""
    from scipy import special

    near = np.clip(x, 0.7, 30)
    high = near.astype(np.float32).astype(np.float64)
    tail = np.exp(-high * high)
    tail = erfcx_above(near) * (tail + tail * np.expm1((high - near) * (high + near)))
    return np.where(x > 0.7, tail, special.erfc(x))


def normal_tail(size: Wide) -> Wide:
    """ndtr(-size) from 1 on: half of erfcx(y) exp(-size²/2).

    What rounding took from y = size/sqrt(2), at most 1 ulp, is given back by the derivative of log
    erfcx, together with what size² has beyond the square of its first digits.
    """
    near = np.clip(size, 1, 40)
    high = near.astype(np.float32).astype(np.float64)
    root, root_high, root_rest = 0.7071067811865476, 0.70703125, 7.5531186547572737e-05
    y = near * root
    lost = (
        (high * root_high - y)
        + high * root_rest
        + (near - high) * root
        - 4.833646656726457e-17 * near
    )
    scaled = erfcx_above(y)
    more = 0.5 * (high - near) * (high + near) + lost * (2 * y - 2 / np.sqrt(np.pi) / scaled)
    tail = 0.5 * scaled * np.exp(-0.5 * high * high)
    return tail + tail * np.expm1(more)


def ndtr(x: Wide) -> Wide:
    """The distribution function of the normal distribution."""
    from scipy import special

    return np.where(x < -1, normal_tail(-x), special.ndtr(x))


def log_ndtr(x: Wide) -> Wide:
    """Its logarithm; above 1 that of 1 less the other tail."""
    from scipy import special

    return np.where(x > 1, np.log1p(-normal_tail(x)), special.log_ndtr(x))


def log_erfc(x: Wide) -> Wide:
    """The logarithm of erfc; beyond 0.5 by the scaled one."""
    from scipy import special

    near = np.maximum(x, 0.7)
    return np.where(x > 0.7, np.log(erfcx_above(near)) - near * near, np.log1p(-special.erf(x)))


def log_expit(x: Wide) -> Wide:
    """The logarithm of the logistic sigmoid."""
    from scipy import special

    return special.log_expit(x)


def gammaln(x: Wide) -> Wide:
    """The logarithm of |Γ(x)|; around its zeros at 1 and 2, and between them around 1.5, by
    Taylor's series (DLMF 5.7.3 and 5.15.1)."""
    from scipy import special

    below = x < 1.5
    z = np.clip(x, 0.5, 2.5) - np.where(below, 1, 2)
    series = np.zeros_like(z)
    for k in range(32, 1, -1):
        series = z * ((-1) ** k * special.zetac(k) / k + series)
    series = z * (1 - np.euler_gamma + series)
    series = np.where(below, series - np.log1p(z), series)
    t = np.clip(x, 1.25, 1.75) - 1.5
    middle = np.zeros_like(t)
    for k in range(24, 1, -1):
        middle = t * ((-1) ** k * special.zeta(k, 1.5) / k + middle)
    middle = t * (special.psi(1.5) + middle) + special.gammaln(1.5)
    series = np.where((x > 1.25) & (x < 1.75), middle, series)
    found = np.where((x > 0.5) & (x < 2.5), series, special.gammaln(x))
    return np.where(np.abs(x) < 1e-300, -np.log(np.abs(x)), found)


def betaln(x: Wide, y: Wide) -> Wide:
    """The logarithm of the beta function.  What cancels in the logarithms of Γ is left out of them
    by Stirling's series (Didonato and Morris, *Algorithm 708*, 1992, bcorr and algdiv)."""
    from scipy import special

    def rest(z: Wide) -> Wide:
        s = 1 / (z * z)
        series = 1 / 1188 - s * (691 / 360360)
        series = 1 / 1260 - s * (1 / 1680 - s * series)
        return (1 / 12 - s * (1 / 360 - s * series)) / z

    low, high = np.minimum(x, y), np.maximum(x, y)
    near, ratio = high < 10, np.ones_like(x)
    for k in range(10):  # B(x, y) = B(x, y + 1) (x + y) / y
        ratio = np.where(near, ratio * (1 + low / (high + k)), 1)
    high = np.where(near, high + 10, high)
    small, large = np.maximum(low, 10), np.maximum(high, 10)
    both = small * np.log(small / (small + large)) - large * np.log1p(small / large)
    both = both + 0.5 * (np.log(2 * np.pi / large) - np.log(small / (small + large)))
    both = both + rest(small) + (rest(large) - rest(small + large))
    one = rest(large) - rest(low + large) - (low + large - 0.5) * np.log1p(low / large)
    one = special.gammaln(low) + (one - low * (np.log(large) - 1))
    found = np.where(low < 10, one, both) + np.log(ratio)
    return np.where((low > 0) & (high < 1e150), found, special.betaln(x, y))


def digamma(x: Wide) -> Wide:
    """The derivative of the logarithm of Γ; below 0 by reflection (DLMF 5.5.4)."""
    from scipy import special

    away = x - np.rint(x)
    cotangent = np.pi / np.tan(np.pi * away)
    cotangent = np.where(away == 0, away / away, cotangent)
    del away
    mirrored = special.psi(1 + np.abs(x)) - cotangent
    return np.where(x < 0, mirrored, special.psi(x))


def polygamma(x: Wide, order: int) -> Wide:
    """The derivative of that order of digamma; below 0 by reflection (DLMF 5.15.6)."""
    from scipy import special

    powers = [0.0, 1.0]  # the derivative of cot of that order as a polynomial in c = cot
    for _ in range(order):
        slopes = [k * powers[k] for k in range(1, len(powers))] + [0.0, 0.0]
        powers = [-slope for slope in slopes]
        for k in range(2, len(slopes)):
            powers[k] -= slopes[k - 2]
    c = 1 / np.tan(np.pi * np.where(x < 0, x - np.rint(x), 0.25))
    total = np.polyval(powers[::-1], c) * np.pi ** (order + 1)
    mirrored = (-1) ** order * special.polygamma(order, np.where(x < 0, 1 - x, 1)) - total
    return np.where(x < 0, mirrored, special.polygamma(order, np.where(x < 0, 1, x)))


def logit(x: Wide) -> Wide:
    """The inverse of the logistic sigmoid."""
    from scipy import special

    return special.logit(x)


def xlogy(x: Wide, y: Wide) -> Wide:
    """x log(y), and 0 where x is 0."""
    from scipy import special

    return special.xlogy(x, y)


def entr(x: Wide) -> Wide:
    """-x log(x), 0 of 0, and -inf below."""
    from scipy import special

    return special.entr(x)


def i0e(x: Wide) -> Wide:
    """The modified Bessel function of order 0, times exp(-|x|); near 0 by its series."""
    from scipy import special

    quarter = np.minimum(np.abs(x), 1) ** 2 / 4
    series = np.ones_like(x)
    for k in range(10, 0, -1):
        series = 1 + series * quarter / (k * k)
    return np.where(np.abs(x) < 1, series * np.exp(-np.abs(x)), special.i0e(x))


def i1e(x: Wide) -> Wide:
    """The modified Bessel function of order 1, times exp(-|x|); up to 8 by its series."""
    from scipy import special

    near = np.clip(x, -8, 8)
    series = np.ones_like(x)
    for k in range(26, 0, -1):
        series = 1 + series * (near * near / 4) / (k * (k + 1))
    series = series * (near / 2) * np.exp(-np.abs(near))
    return np.where(np.abs(x) < 8, series, special.i1e(x))


def i0e_slope(x: Wide) -> Wide:
    """The derivative of exp(-|x|) I_0."""
    return bessel_derivative(x, 0, 1)


def i1e_slope(x: Wide) -> Wide:
    """The derivative of exp(-|x|) I_1."""
    return bessel_derivative(x, 1, 1)


def bessel_derivative(x: Wide, order: int, slope: int) -> Wide:
    """The derivative of that order (from 1 on) of exp(-|x|) I_0 or I_1.

    I' is half the sum of its neighbours, so that derivatives are differences of neighbours; beyond
    20, where these cancel, that of the asymptotic series (DLMF 10.40.1).  At 0 that of I_0 or I_1,
    as if |x| had the slope 0 there: so exp(|x|) i0e(x) has the derivatives of I_0.
    """
    from math import comb

    from scipy import special

    degree = order + slope
    at_zero = comb(slope, degree // 2) / 2**slope if degree % 2 == 0 else 0
    near, far = np.minimum(np.abs(x), 20), np.maximum(np.abs(x), 20)
    total = np.zeros_like(near)
    for i in range(2 * slope + 1):
        neighbour = special.ive(abs(order + slope - i), near)
        total = total + (-1) ** i * comb(2 * slope, i) * neighbour
    total = np.where(near == 0, at_zero, total / 2**slope)
    terms = [(-1) ** slope / np.sqrt(2 * np.pi)]
    for k in range(slope):
        terms[0] *= k + 0.5
    for j in range(1, 31):
        ratio = (4 * order * order - (2 * j - 1) ** 2) * (slope + j - 0.5) / (j - 0.5)
        terms.append(-terms[-1] * ratio / (8 * j))
    series = np.polyval(terms[::-1], 1 / far) / np.sqrt(far)
    for _ in range(slope):
        series = series / far
    found = np.where(np.abs(x) > 20, series, total)
    return found * np.sign(x) if degree % 2 else np.where(np.isnan(x), x, found)


def erfcx_slope(x: Wide) -> Wide:
    """The derivative of erfcx."""
    return erfcx_derivative(x, 1)


def erfcx_derivative(x: Wide, order: int) -> Wide:
    """The derivative of that order of erfcx, from 1 on (DLMF 7.10.3).

    D' = 2 x D - 2/sqrt(pi), and D_{k+1} = 2 x D_k + 2 k D_{k-1}.  Nothing cancels in that below 0;
    above, the ratios of the D are a continued fraction, which begins far behind.
    """
    below = np.minimum(x, 0.75)
    before = erfcx(below)
    now = 2 * below * before - 2 / np.sqrt(np.pi)
    for k in range(1, order):
        before, now = now, 2 * below * now + 2 * k * before
    above = np.maximum(x, 0.75)
    ratio = np.zeros_like(above)
    for k in range(order + 400, order, -1):
        ratio = 2 * k / (2 * above + ratio)
    found = np.ones_like(above)
    for k in range(order, 1, -1):
        ratio = 2 * k / (2 * above + ratio)
        found = -ratio * found
    # d_1 = d_0 times the first ratio, where d_{-1} is 2/sqrt(pi).
    first = 2 / (2 * above + ratio)
    return np.where(x > 0.75, found * -first * erfcx(above), now)


def blockwise(function: Callable[..., Wide], *arrays: np.ndarray, **parameters: int) -> np.ndarray:
    """A function of 1-d float64 arrays on arrays of any shape and float dtype, 2048 elements at a
    time."""
    out = np.empty(arrays[0].shape, np.result_type(arrays[0].dtype, np.float16))
    with np.errstate(all="ignore"):
        for start in range(0, out.size, 2048):
            places = slice(start, start + 2048)
            out.reshape(-1)[places] = function(
                *[one.flat[places].astype(np.float64) for one in arrays], **parameters
            )
    return out
