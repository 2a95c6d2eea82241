"""Polynomials, and a ratio of two, of the least possible greatest error.

The error is weighted so that it is the relative error of the function: Remez's exchange of points
(Muller, *Elementary Functions*, 3rd ed., 2016, chapter 3) on a fine grid.  Numbers are those of
mpmath, in the precision that is set.
"""

from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp

Real = Any  # a number of mpmath
Column = list[Real]


def grid(low: Real, high: Real, count: int) -> Column:
    """Points of the interval, denser at its ends, without 0 (where formulas below divide by 0)."""
    middle, half = (low + high) / 2, (high - low) / 2
    points = [middle - half * mp.cos(mp.pi * i / count) for i in range(count + 1)]
    return [x for x in points if abs(x) > mp.mpf("1e-20")]


def remez(rows: Sequence[Column], targets: Column, weights: Column) -> Column:
    """The c with the least greatest |target - row · c| weight over all rows."""
    count, last = len(rows[0]), len(rows) - 1
    places = [i * last // count for i in range(count + 1)]
    found: Column = []
    for _ in range(40):
        system = mp.matrix(count + 1, count + 1)
        for i, place in enumerate(places):
            for j in range(count):
                system[i, j] = rows[place][j]
            system[i, count] = (-1) ** i / weights[place]
        solution = list(mp.lu_solve(system, mp.matrix([targets[place] for place in places])))
        found, level = solution[:count], abs(solution[count])
        errors = residuals(rows, targets, weights, found)
        places = alternating(errors, count + 1)
        if max(map(abs, errors)) <= level * 1.0005 or len(places) <= count:
            break
    return found


def residuals(rows: Sequence[Column], targets: Column, weights: Column, found: Column) -> Column:
    """The weighted errors of the coefficients found."""
    values = [mp.fdot(row, found) for row in rows]
    return [(t - v) * w for t, v, w in zip(targets, values, weights, strict=True)]


def alternating(errors: Column, count: int) -> list[int]:
    """Where the error is extreme between its changes of sign: the `count` places that matter."""
    places: list[int] = []
    for i, error in enumerate(errors):
        if not places or (error >= 0) != (errors[places[-1]] >= 0):
            places.append(i)
        elif abs(error) > abs(errors[places[-1]]):
            places[-1] = i
    while len(places) > count:
        places.pop(0 if abs(errors[places[0]]) < abs(errors[places[-1]]) else -1)
    return places


def nearest(x: Real, digits: int) -> Real:
    """x rounded to so many binary digits."""
    with mp.workprec(digits):
        return +x


def polynomial(
    function: Callable, weight: Callable, low: float, high: float, degree: int
) -> Column:
    """The best polynomial for the function on the interval."""
    points = grid(mp.mpf(low), mp.mpf(high), 30 * (degree + 1))
    rows = [[x**i for i in range(degree + 1)] for x in points]
    return remez(rows, list(map(function, points)), list(map(weight, points)))


TANH_END = mp.mpf(37) / 4  # tanh is 1 to all digits of float there
TANH_SCALE = mp.mpf(31) / 16  # of q: numbers just below a power of two are rounded least
TANH_START = [0.136, 0.00377, 3.4e-5], [-0.5, 0.11, -0.0131, 0.000855, -2.4e-5]


def tanh_ratio() -> tuple[Column, Column]:
    """The p in x² and the q in x with tanh(x) = x p / (x p + q²), of the least relative error.

    Both are 1 at 0 before they are scaled.  Remez's exchange, for what the ratio is to the first
    order near the last p and q.
    """
    points = grid(mp.mpf(0), TANH_END, 240)
    upper, lower = ([mp.mpf(1), *map(mp.mpf, start)] for start in TANH_START)
    targets, count = list(map(mp.tanh, points)), len(upper) - 1
    for _ in range(6):  # then the error is 0.67 units of 2^-24, one percent above the least
        rows, missing = [], []
        for x, target in zip(points, targets, strict=True):
            above = x * mp.polyval(upper[::-1], x * x)
            root = mp.polyval(lower[::-1], x)
            whole = above + root**2
            by_above, by_root = root**2 / whole**2, -2 * above * root / whole**2
            rows.append(
                [by_above * x ** (2 * i + 1) for i in range(1, len(upper))]
                + [by_root * x**i for i in range(1, len(lower))]
            )
            missing.append(target - above / whole)
        change = remez(rows, missing, [1 / target for target in targets])
        upper = [upper[0], *map(sum, zip(upper[1:], change[:count], strict=True))]
        lower = [lower[0], *map(sum, zip(lower[1:], change[count:], strict=True))]
    return [TANH_SCALE**2 * c for c in upper], [TANH_SCALE * c for c in lower]
