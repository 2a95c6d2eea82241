"""Makes the polynomials of src/chainrule/execute/native/libm: coefficients.py, erf_pieces.py,
erfcx_coefficients.py, bessel_coefficients.py and gamma_coefficients.py.

    python scripts/make_elementary.py

Needs mpmath and ruff.  `fits.py` makes the fits; coefficients are then rounded to the format.
"""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mpmath as mp
from fits import Column, Real, nearest, polynomial, tanh_ratio

TARGET = Path(__file__).parent.parent / "src/chainrule/execute/native/libm"
DIGITS = {"float": 24, "double": 53}  # binary digits of a significand

mp.mp.dps = 70


def parts(x: Real, digits: Sequence[int]) -> Column:
    """Numbers of so many binary digits that add up to x."""
    result: Column = []
    for count in digits:
        result.append(nearest(x - mp.fsum(result), count))
    return result


def odd(function: Callable) -> Callable:
    """function(x) / x, in z = x²."""
    return lambda z: function(mp.sqrt(z)) / mp.sqrt(z)


@dataclass(frozen=True)
class Table:
    """What a polynomial is fitted to, where, and of which degree in each format."""

    meaning: str
    function: Callable
    weight: Callable
    low: float
    high: dict[str, float]
    degree: dict[str, int]


def table(
    meaning: str,
    function: Callable,
    weight: Callable,
    interval: tuple,
    degrees: tuple[int, int],
) -> Table:
    """One table; `interval` is (low, high) or (low, high in float, high in double)."""
    low, *high = interval
    ends = dict(zip(DIGITS, high * 2, strict=False))
    return Table(meaning, function, weight, low, ends, dict(zip(DIGITS, degrees, strict=True)))


LN2 = mp.log(2)
TABLES = {
    "EXPONENTIAL": table(
        "(exp(r) - 1 - r) / r² in r, |r| <= log 2; the error is relative to exp(r).",
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 * mp.exp(-r),
        (-LN2, LN2),
        (5, 11),
    ),
    "EXPONENTIAL_NARROW": table(
        "The same where |r| <= ½ log 2.",
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 * mp.exp(-r),
        (-LN2 / 2, LN2 / 2),
        (4, 9),
    ),
    "LOGARITHM": table(
        "2 (atanh(s)/s - 1) / s² in s², |s| <= 3 - √8; relative to 2 atanh(s).",
        lambda z: 2 * (odd(mp.atanh)(z) - 1) / z,
        lambda z: z / 2,
        (0, (3 - mp.sqrt(8)) ** 2),
        (2, 6),
    ),
    "SINE": table(
        "(sin(r)/r - 1) / r² in r², |r| <= π/4; relative to sin(r).",
        lambda z: (odd(mp.sin)(z) - 1) / z,
        lambda z: z,
        (0, (mp.pi / 4) ** 2),
        (2, 5),
    ),
    "COSINE": table(
        "(cos(r) - 1 + r²/2) / r⁴ in r², |r| <= π/4; absolute.",
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        lambda z: z**2,
        (0, (mp.pi / 4) ** 2),
        (2, 5),
    ),
    "ERF_NEAR": table(
        "erf(x)/x - 1 in x², |x| <= 0.9; relative to erf(x)/x.",
        lambda z: odd(mp.erf)(z) - 1,
        lambda z: 1 / odd(mp.erf)(z),
        (0, 0.81),
        (5, 10),
    ),
    "ERF_FAR": table(
        "(1 - erf(x)) exp(x²) in x - 2, x from 0.9 to 3.925 (float), 5.93 (double); for erf(x).",
        lambda t: mp.erfc(t + 2) * mp.exp((t + 2) ** 2),
        lambda t: mp.exp(-((t + 2) ** 2)) / mp.erf(t + 2),
        (-1.1, 1.925, 3.93),
        (7, 20),
    ),
}

SHIFT = mp.mpf(2.5)  # of x in the variable for erfcx, which goes from 1 at x = 0 to -1 at infinity
END = 8  # of the series of Bessel functions in x²


def erfcx(x: Real) -> Real:
    """exp(x²) erfc(x)."""
    return mp.exp(x * x) * mp.erfc(x)


def scaled(x: Real, limit: Real, function: Callable) -> Real:
    """function(x), or its limit at infinity, near which nothing is left of a difference."""
    if x < 1e9:
        with mp.workdps(100):
            return function(x)
    return limit


def shifted(function: Callable) -> Callable:
    """function(x), which is 1/√π at infinity, in t = 2 SHIFT/(x + SHIFT) - 1."""

    def scaled_in(t: Real) -> Real:
        x = 2 * SHIFT / (1 + t) - SHIFT if t > -1 else mp.inf
        return scaled(x, 1 / mp.sqrt(mp.pi), function)

    return scaled_in


def bessel(order: int) -> Callable:
    """I_n(x) / x^n, in x²."""
    return lambda z: mp.besseli(order, mp.sqrt(z)) / mp.sqrt(z) ** order


def slope_of_i0(x: Real) -> Real:
    """exp(x) times the derivative of exp(-x) I0(x)."""
    return mp.besseli(1, x) - mp.besseli(0, x)


def slope_of_i1(x: Real) -> Real:
    """exp(x) times the derivative of exp(-x) I1(x)."""
    ratio = mp.besseli(1, x) / x if x else mp.mpf(1) / 2
    return mp.besseli(0, x) - mp.besseli(1, x) - ratio


def far(power: Real, limit: Real, function: Callable) -> Callable:
    """exp(-x) function(x) x^power, in t = 2 END/x - 1."""

    def scaled_in(t: Real) -> Real:
        if t <= -1:
            return limit
        x = 2 * END / (1 + t)
        return scaled(x, limit, lambda x: function(x) * mp.exp(-x) * x**power)

    return scaled_in


def relative(meaning: str, function: Callable, interval: tuple, degrees: tuple[int, int]) -> Table:
    """A table whose error is relative."""
    known = cache(function)
    return table(meaning, known, lambda x: 1 / known(x), interval, degrees)


ZERO = mp.findroot(slope_of_i1, 1.5)
HALF_TURN = 1 / mp.sqrt(2 * mp.pi)
ERFCX_TABLES = {
    "ERFCX": relative(
        "erfcx(x) (x + 7/8), x >= 0, in 5 / (x + 2.5) - 1.",
        shifted(lambda x: erfcx(x) * (x + mp.mpf(7) / 8)),
        (-1, 1),
        (11, 24),
    ),
    "ERFCX_SLOPE": relative(
        "-erfcx'(x) (x + 9/8)², x >= 0, in 5 / (x + 2.5) - 1.",
        shifted(
            lambda x: (2 / mp.sqrt(mp.pi) - 2 * x * erfcx(x)) * (x + mp.mpf(9) / 8) ** 2,
        ),
        (-1, 1),
        (11, 26),
    ),
}
BESSEL_TABLES = {
    "I0_NEAR": relative("I0(x) in x², |x| <= 8.", bessel(0), (0, END**2), (9, 15)),
    "I1_NEAR": relative("I1(x) / x in x², |x| <= 8.", bessel(1), (0, END**2), (9, 14)),
    "I0_FAR": relative(
        "exp(-x) I0(x) √x, x >= 8, in 16 / x - 1.",
        far(mp.mpf(1) / 2, HALF_TURN, lambda x: mp.besseli(0, x)),
        (-1, 1),
        (5, 22),
    ),
    "I1_FAR": relative(
        "exp(-x) I1(x) √x, x >= 8, in 16 / x - 1.",
        far(mp.mpf(1) / 2, HALF_TURN, lambda x: mp.besseli(1, x)),
        (-1, 1),
        (5, 22),
    ),
    "I0_SLOPE_NEAR": relative(
        "The derivative of exp(-x) I0(x) times (x + 1)², 0 <= x <= 8, in x - 4.",
        lambda t: slope_of_i0(t + 4) * mp.exp(-t - 4) * (t + 5) ** 2,
        (-4, 4),
        (18, 30),
    ),
    "I1_SLOPE_NEAR": relative(
        "That of exp(-x) I1(x) times (x + 1)², over x - r with its zero r, in x - 4.",
        lambda t: slope_of_i1(t + 4) * mp.exp(-t - 4) * (t + 5) ** 2 / (t + 4 - ZERO),
        (-4, 4),
        (18, 30),
    ),
    "I0_SLOPE_FAR": relative(
        "The derivative of exp(-x) I0(x) times x √x, x >= 8, in 16 / x - 1.",
        far(mp.mpf(3) / 2, -HALF_TURN / 2, slope_of_i0),
        (-1, 1),
        (6, 26),
    ),
    "I1_SLOPE_FAR": relative(
        "That of exp(-x) I1(x) times x √x, x >= 8, in 16 / x - 1.",
        far(mp.mpf(3) / 2, -HALF_TURN / 2, slope_of_i1),
        (-1, 1),
        (6, 26),
    ),
}


# By the format and the number of pieces: the step, from whose last multiple on erf is 1 to all
# digits; and how many coefficients each piece has.
STEPS = {
    ("float", 8): (mp.mpf(9) / 16, 8),
    ("float", 16): (mp.mpf(67) / 256, 6),
    ("double", 16): (mp.mpf(203) / 512, 14),
}


def piece(centre: Real, half: Real, count: int) -> Column:
    """The best polynomial in x - centre for erf(x), |x - centre| <= half."""
    if not centre:  # an odd one, so that the relative error stays small down to 0
        near = cache(odd(mp.erf))
        found = polynomial(near, lambda z: 1 / near(z), 0, half**2, count // 2 - 1)
        return [c for one in found for c in (mp.mpf(0), one)]

    @cache
    def erf(t: Real) -> Real:
        return mp.erf(centre + t)

    return polynomial(erf, lambda t: 1 / erf(t), -half, half, count - 1)


def text(numbers: Column, digits: int) -> str:
    """The numbers, rounded, as a tuple of Python's."""
    return f"({', '.join(repr(float(nearest(x, digits))) for x in numbers)},)"


def rows(found: dict[str, str]) -> str:
    """One entry for each format."""
    return "".join(f'    "{name}": {entry},\n' for name, entry in found.items())


def tables(meaning: str, wanted: dict[str, Table]) -> list[str]:
    """The lines of a module with those tables."""
    lines = [f'"""{meaning} by scripts/make_elementary.py, lowest power first."""\n']
    for name, one in wanted.items():
        found = {
            kind: text(
                polynomial(one.function, one.weight, one.low, one.high[kind], one.degree[kind]),
                digits,
            )
            for kind, digits in DIGITS.items()
        }
        lines.append(f"# {one.meaning}\n{name} = {{\n{rows(found)}}}\n")
    return lines


def coefficients() -> str:
    """The text of coefficients.py."""
    lines = tables("Coefficients made", TABLES)
    halves = {
        kind: text(parts(LN2, splits), DIGITS[kind])
        for kind, splits in {"float": (15, 24), "double": (41, 53)}.items()
    }
    lines.append("# log 2 in two parts; the first times an exponent is exact.")
    lines.append(f"LN2 = {{\n{rows(halves)}}}\n")
    lines.append("# π/2 in parts (double); the first three times an integer up to 2²⁰ are exact.")
    lines.append(f"HALF_PI = {text(parts(mp.pi / 2, (33, 33, 33, 53)), 53)}\n")
    lines.append("\n# tanh(x) = x p(x²) / (x p(x²) + q(x)²), 0 <= x <= 9.25 (float): p and q.")
    upper, lower = (text(one, DIGITS["float"]) for one in tanh_ratio())
    lines.append(f"TANH_ABOVE = {upper}\nTANH_ROOT = {lower}\n")
    return "\n".join(lines)


def erfcx_coefficients() -> str:
    """The text of erfcx_coefficients.py."""
    return "\n".join(tables("Coefficients for erfcx", ERFCX_TABLES))


def bessel_coefficients() -> str:
    """The text of bessel_coefficients.py."""
    lines = tables("Coefficients for Bessel functions", BESSEL_TABLES)
    zero = {kind: text(parts(ZERO, (digits, digits)), digits) for kind, digits in DIGITS.items()}
    lines.append("# The zero of the derivative of exp(-x) I1(x), in two parts.")
    lines.append(f"I1_SLOPE_ZERO = {{\n{rows(zero)}}}\n")
    return "\n".join(lines)


def gamma_coefficients() -> str:
    """The text of gamma_coefficients.py: series (DLMF 5.7.3, 5.15.1, 5.11.1, 5.11.2)."""
    root = mp.findroot(mp.digamma, mp.mpf("1.4616"))

    def slope(t: Real) -> Real:
        return mp.digamma(2 + t) / (2 + t - root)

    zeta = [(-1) ** k * (mp.zeta(k) - 1) / k for k in range(2, 31)]
    middle = [mp.psi(k - 1, mp.mpf("1.5")) / mp.factorial(k) for k in range(1, 23)]
    shares = [mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(1, 8)]
    series = {
        "log Γ(2 + z) / z, |z| <= 1/2.": ("NEAR", [1 - mp.euler, *zeta]),
        "log Γ(3/2 + t), |t| <= 1/4.": ("MIDDLE", [mp.loggamma(mp.mpf("1.5")), *middle]),
        "What Stirling's series of log Γ adds, times x, in x⁻², x >= 10.": ("FAR", shares),
        "ψ(x) / (x - its zero) in x - 2, from 1 to 3.": (
            "SLOPE_NEAR",
            polynomial(slope, lambda t: 1 / slope(t), mp.mpf(-1), mp.mpf(1), 28),
        ),
        "log x - 1/(2x) - ψ(x), times x², in x⁻², x >= 10.": (
            "SLOPE_FAR",
            [mp.bernoulli(2 * k) / (2 * k) for k in range(1, 10)],
        ),
        "The zero of ψ, in two parts.": ("SLOPE_ZERO", parts(root, (53, 53))),
        "sin(πx) / (πx) in x², |x| <= 1/2.": (
            "SINE",
            [(-1) ** k * mp.pi ** (2 * k) / mp.factorial(2 * k + 1) for k in range(13)],
        ),
        "cos(πx) in x², |x| <= 1/2.": (
            "COSINE",
            [(-1) ** k * mp.pi ** (2 * k) / mp.factorial(2 * k) for k in range(14)],
        ),
    }
    lines = ['"""Coefficients for log Γ, ψ by scripts/make_elementary.py, lowest power first."""\n']
    for meaning, (name, numbers) in series.items():
        lines.append(f"# {meaning}\n{name} = {text(numbers, DIGITS['double'])}\n")
    return "\n".join(lines)


def erf_pieces() -> str:
    """The text of erf_pieces.py."""
    steps = {kind: float(step) for kind, (step, _) in STEPS.items()}
    lines = [
        '"""Polynomials for erf around multiples of a step, by scripts/make_elementary.py."""\n',
        "# By the format and the number of pieces: the step; and in x - k step, the",
        "# coefficients for each k, lowest power first.",
        f"STEP = {steps}",
        "# fmt: off",
        "PIECES = {",
    ]
    for (kind, pieces), (step, count) in STEPS.items():
        lines.append(f'    ("{kind}", {pieces}): (')
        found = [piece(k * step, step * mp.mpf("0.501"), count) for k in range(pieces)]
        for column in zip(*found, strict=True):
            shown = [repr(float(nearest(x, DIGITS[kind]))) for x in column]
            triples = (", ".join(shown[k : k + 3]) for k in range(0, pieces, 3))
            inner = [f"            {triple}," for triple in triples]
            lines += ["        (", *inner, "        ),"]
        lines.append("    ),")
    return "\n".join([*lines, "}", "# fmt: on", ""])


if __name__ == "__main__":
    made = (coefficients, erfcx_coefficients, bessel_coefficients, gamma_coefficients, erf_pieces)
    for make in made:
        path = TARGET / f"{make.__name__}.py"
        path.write_text(make())
        subprocess.run(["ruff", "format", path], check=True)
