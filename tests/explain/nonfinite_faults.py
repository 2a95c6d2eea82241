"""For each primitive operands of which it makes a NaN or an inf, and what is to be said of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NAN, INF = np.nan, np.inf
OVERFLOW = "overflow: float64 holds numbers up to 1.79769e+308"


class Fault(NamedTuple):
    """Operands, what the first bad element became, its place, and the cause word for word."""

    operands: tuple[Any, ...]
    became: float
    place: tuple[int, ...]
    because: str
    params: dict[str, Any] = {}  # noqa: RUF012


def one(x: Any, became: float, index: int, because: str, **params: Any) -> Fault:
    return Fault((x,), became, (index,), because, params)


def two(x: Any, y: Any, became: float, index: int, because: str, **params: Any) -> Fault:
    return Fault((x, y), became, (index,), because, params)


def at(x: Any, y: Any, became: float, index: tuple[int, ...], because: str, **params: Any) -> Fault:
    return Fault((x, y) if y is not None else (x,), became, index, because, params)


POLES = ": 0 and the negative integers are poles"
MEETS = "{} is NaN where it meets this inf"
ON_THE_WAY = (
    "numbers on the way overflow, and inf - inf and 0 · inf are NaN: "
    "float64 holds numbers up to 1.79769e+308"
)
BIG = [[1e200, 0], [0, 1e200]]
HUGE = [[1e308, 1e308], [1e308, 1e308]]
TINY = [[[2.0, 0], [0, 1]], [[1e-310, 0], [0, 1]]]
WALK = {"axis": 0, "reverse": False}
SMALL, WIDE = np.dtype(np.float32), {"stride": (1,), "dilation": (1,)}

FAULTS: dict[str, list[Fault]] = {
    "add": [
        two([1, 1e308], [1, 1e308], INF, 1, OVERFLOW),
        two([1, INF], [1, -INF], NAN, 1, "inf - inf is NaN"),
    ],
    "subtract": [
        two([1, 1e308], [1, -1e308], INF, 1, OVERFLOW),
        two([1, INF], [1, INF], NAN, 1, "inf - inf is NaN"),
    ],
    "multiply": [
        two([1, 1e308], [1, -10], -INF, 1, OVERFLOW),
        two([1, 0], [1, INF], NAN, 1, "0 · inf is NaN"),
    ],
    "divide": [
        two([1, 2], [1, 0], INF, 1, "2 / 0 is inf"),
        two([1, 0], [1, 0], NAN, 1, "0 / 0 is NaN"),
        two([1, INF], [1, -INF], NAN, 1, "inf / inf is NaN"),
        two([1, 1e300], [1, 1e-300], INF, 1, OVERFLOW),
    ],
    "power": [
        two([1, -8], [0.5, 0.5], NAN, 1, "a negative number to the power 0.5 is NaN"),
        two([1, 0], [-1, -0.5], INF, 1, "0 to the power -0.5 is inf"),
        two([1, 1e200], [2, 2], INF, 1, OVERFLOW),
        two([1, -1e200], [2, 3], -INF, 1, OVERFLOW),
    ],
    "integer_power": [
        one([1, 0], INF, 1, "0 to the power -2 is inf", exponent=-2),
        one([1, -1e200], -INF, 1, OVERFLOW, exponent=3),
    ],
    "exp": [
        one([0, 710], INF, 1, "exp overflows float64 above 709.8; the largest argument is 710")
    ],
    "expm1": [
        one([0, 710], INF, 1, "expm1 overflows float64 above 709.8; the largest argument is 710")
    ],
    "exp2": [
        one([0, 1024], INF, 1, "exp2 overflows float64 above 1024.0; the largest argument is 1024")
    ],
    "sinh": [one([0, -711], -INF, 1, "sinh overflows float64 beyond ±710.5")],
    "cosh": [one([0, -711], INF, 1, "cosh overflows float64 beyond ±710.5")],
    "log": [
        one([1, 0], -INF, 1, "log of 0 is -inf"),
        one([1, -2], NAN, 1, "log of a number below 0 is NaN"),
    ],
    "library_log": [
        one([1, 0], -INF, 1, "library_log of 0 is -inf"),
        one([1, -2], NAN, 1, "library_log of a number below 0 is NaN"),
    ],
    "log1p": [
        one([1, -1], -INF, 1, "log1p of -1 is -inf"),
        one([1, -2], NAN, 1, "log1p of a number below -1 is NaN"),
    ],
    "log2": [
        one([1, 0], -INF, 1, "log2 of 0 is -inf"),
        one([1, -2], NAN, 1, "log2 of a number below 0 is NaN"),
    ],
    "log10": [
        one([1, 0], -INF, 1, "log10 of 0 is -inf"),
        one([1, -2], NAN, 1, "log10 of a number below 0 is NaN"),
    ],
    "sqrt": [one([1, -2], NAN, 1, "the square root of a negative number is NaN")],
    "sin": [one([1, INF], NAN, 1, MEETS.format("sin"))],
    "cos": [one([1, -INF], NAN, 1, MEETS.format("cos"))],
    "tan": [one([1, INF], NAN, 1, MEETS.format("tan"))],
    "library_tan": [one([1, INF], NAN, 1, MEETS.format("library_tan"))],
    "sinc": [
        one([1, INF], NAN, 1, MEETS.format("sinc")),
        one([1, 1e308], NAN, 1, "sinc of x is the sine of pi x, and pi x overflows"),
    ],
    "arcsin": [
        one([1, 1.5], NAN, 1, "arcsin of a number above 1 is NaN"),
        one([-1, -1.5], NAN, 1, "arcsin of a number below -1 is NaN"),
    ],
    "arccos": [one([1, -1.5], NAN, 1, "arccos of a number below -1 is NaN")],
    "arccosh": [one([1, 0.5], NAN, 1, "arccosh of a number below 1 is NaN")],
    "arctanh": [
        one([0, 1], INF, 1, "arctanh of 1 is inf"),
        one([0, -1], -INF, 1, "arctanh of -1 is -inf"),
        one([0, 2], NAN, 1, "arctanh of a number above 1 is NaN"),
    ],
    "erfinv": [
        one([0, 1], INF, 1, "erfinv of 1 is inf"),
        one([0, -2], NAN, 1, "erfinv of a number below -1 is NaN"),
    ],
    "logit": [
        one([0.5, 0], -INF, 1, "logit of 0 is -inf"),
        one([0.5, 1], INF, 1, "logit of 1 is inf"),
        one([0.5, 1.5], NAN, 1, "logit of a number above 1 is NaN"),
        one([0.5, -1], NAN, 1, "logit of a number below 0 is NaN"),
    ],
    "hypot": [two([1, 1e308], [1, 1.7e308], INF, 1, OVERFLOW)],
    "floor_divide": [
        two([1, 1], [1, 0], INF, 1, "floor_divide of 1 by 0 is inf"),
        two([1, INF], [1, 2], NAN, 1, MEETS.format("floor_divide")),
        two([1, 1e308], [1, 1e-5], INF, 1, OVERFLOW),
    ],
    "remainder": [
        two([1, 1], [1, 0], NAN, 1, "remainder of 1 by 0 is NaN"),
        two([1, INF], [1, 2], NAN, 1, MEETS.format("remainder")),
    ],
    "fmod": [
        two([1, 1], [1, 0], NAN, 1, "fmod of 1 by 0 is NaN"),
        two([1, INF], [1, 2], NAN, 1, MEETS.format("fmod")),
    ],
    "erfcx": [one([1, -30], INF, 1, OVERFLOW)],
    "erfcx_slope": [one([1, -30], -INF, 1, OVERFLOW)],
    "erfcx_derivative": [one([1, -30], INF, 1, OVERFLOW, order=2)],
    "log_ndtr": [one([1, -1e200], -INF, 1, OVERFLOW)],
    "gammaln": [
        one([1, 0], INF, 1, f"gammaln of 0 is inf{POLES}"),
        one([1, -3], INF, 1, f"gammaln of -3 is inf{POLES}"),
        one([1, 1e307], INF, 1, "gammaln of 1e+307 is inf"),
    ],
    "digamma": [
        one([2, 0], -INF, 1, f"digamma of 0 is -inf{POLES}"),
        one([-1, 2], NAN, 0, f"digamma of -1 is NaN{POLES}"),
    ],
    "polygamma": [
        one([2, 0], INF, 1, f"polygamma of 0 is inf{POLES}", order=1),
        one([2, 1e-310], INF, 1, "polygamma of 1e-310 is inf", order=1),
    ],
    "betaln": [
        two([1, 0], [1, 2], INF, 1, f"betaln of 0 and 2 is inf{POLES}"),
        two([1, 0.5], [1, -1], INF, 1, f"betaln of 0.5 and -1 is inf{POLES}"),
        two(
            [1, 0.5], [1, -0.5], -INF, 1,
            "betaln of 0.5 and -0.5 is -inf, as wherever x + y is 0 or a negative integer",
        ),
    ],
    "xlogy": [
        two([1, 1], [1, 0], -INF, 1, "the log of 0 is -inf"),
        two([1, 1], [1, -1], NAN, 1, "the log of a number below 0 is NaN"),
        two([1, 1e308], [1, 1e10], INF, 1, OVERFLOW),
    ],
    "entr": [
        one([1, -1], -INF, 1, "entr of a number below 0 is -inf"),
        one([1, 1e308], -INF, 1, OVERFLOW),
    ],
    "log_erfc": [one([1, 1e200], -INF, 1, OVERFLOW)],
    "cast": [
        one([1, 1e39], INF, 1, "float32 holds numbers up to 3.40282e+38", dtype=SMALL, weak=False)
    ],
    "sum": [
        at([[1, 2], [1e308, 1e308]], None, INF, (1,), OVERFLOW, axes=(1,)),
        at([[1, 2], [INF, -INF]], None, NAN, (1,), MEETS.format("sum"), axes=(1,)),
    ],
    "prod": [
        at([[1, 2], [1e200, 1e200]], None, INF, (1,), OVERFLOW, axes=(1,)),
        at([[1, 2], [0, -INF]], None, NAN, (1,), MEETS.format("prod"), axes=(1,)),
        at(
            [[1, 2, 3], [1e200, 1e200, 0]], None, NAN, (1,),
            ON_THE_WAY, axes=(1,),
        ),
    ],
    "cumsum": [
        one([1, 1e308, 1e308], INF, 2, OVERFLOW, **WALK),
        one([1, INF, -INF], NAN, 2, MEETS.format("cumsum"), **WALK),
    ],
    "cumprod": [
        one([1, 1e200, 1e200], INF, 2, OVERFLOW, **WALK),
        one([1, INF, 0], NAN, 2, MEETS.format("cumprod"), **WALK),
    ],
    "recurrence": [
        two([1, 1e200, 1e200], [1, 1, 1], INF, 2, OVERFLOW, **WALK),
        two([1, 0, 0], [INF, 1, 1], NAN, 1, MEETS.format("recurrence"), **WALK),
    ],
    "scatter_add": [
        Fault(
            ([1, 1e308, 1e308], np.array([0, 1, 1])), INF, (1,), OVERFLOW,
            {"shape": (3,), "wrap": True},
        ),
        Fault(
            ([1, INF, -INF], np.array([0, 1, 1])), NAN, (1,), MEETS.format("scatter_add"),
            {"shape": (3,), "wrap": True},
        ),
    ],
    "matmul": [
        at([[1, 1], [1e308, 1e308]], [1, 2], INF, (1,), OVERFLOW),
        at([[1, 1], [INF, 1]], [0, 2], NAN, (1,), MEETS.format("matmul")),
    ],
    "contract": [
        two(
            [1, 1e200], [1, 1e200], INF, 1, OVERFLOW, x_axes=(0,), y_axes=(0,), out_axes=(0,)
        ),
        two(
            [1, 0], [1, INF], NAN, 1, MEETS.format("contract"),
            x_axes=(0,), y_axes=(0,), out_axes=(0,),
        ),
    ],
    "fold_windows": [
        at([[1, 1e308], [1e308, 1]], None, INF, (1,), OVERFLOW, shape=(3,), **WIDE),
    ],
    "solve": [at(TINY, np.ones((2, 2, 1)), INF, (1, 0, 0), OVERFLOW)],
    "inv": [at(TINY, None, INF, (1, 0, 0), OVERFLOW)],
    "eigh": [at(HUGE, None, INF, (0, 1), OVERFLOW, uplo="L")],
    "eigvalsh": [at(HUGE, None, INF, (1,), OVERFLOW, uplo="L")],
    "svd": [at(HUGE, None, INF, (2, 0), OVERFLOW)],
    "svdvals": [at(HUGE, None, INF, (0,), OVERFLOW)],
    "lu": [at([[1e308, 1e308], [-1e308, 1e308]], None, INF, (1, 1), OVERFLOW)],
    "expm": [
        at([[1000.0, 0], [0, 1]], None, INF, (0, 0), OVERFLOW),
        at(HUGE, None, NAN, (0, 0), ON_THE_WAY),
    ],
    "solve_triangular": [
        at(TINY[1], np.ones((2, 1)), INF, (0, 0), OVERFLOW, is_lower=True, is_unit=False),
    ],
    "dft": [at([[1e308, 0], [1e308, 0]], None, INF, (0, 0), OVERFLOW, axes=(0,), sign=-1)],
    "half_dft": [at([1e308, 1e308], None, INF, (0, 0), OVERFLOW, axis=0)],
    "half_dft_transpose": [
        at([[1e308, 0], [1e308, 0]], None, INF, (0,), OVERFLOW, axis=0, length=3),
    ],
    "qr": [at(HUGE, None, -INF, (0, 0), OVERFLOW)],
    "det": [
        at([np.eye(2), BIG], None, INF, (1,), f"products of the elements {OVERFLOW}"),
    ],
    "cofactor": [at(HUGE, None, INF, (0, 0), f"products of the elements {OVERFLOW}")],
    "cofactor_change": [
        at(HUGE, HUGE, NAN, (0, 0), f"products of the elements {OVERFLOW}"),
    ],
    "slogdet": [
        at(
            [np.eye(2), np.ones((2, 2))], None, -INF, (1, 1),
            "x is singular: its determinant is 0, and the log of 0 is -inf",
        ),
    ],
}  # fmt: skip
