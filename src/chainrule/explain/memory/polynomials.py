"""Finds where each of several polynomials in named sizes is the largest, and writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from chainrule.graph.sizes import size_values, sizes
from chainrule.graph.sizes.size_terms import Monomial, Opaque
from chainrule.graph.sizes.sizes import Size

Polynomial = int | Size


def undominated(candidates: Sequence[Polynomial], reference: Mapping[str, int]) -> list[int]:
    """The places of candidates that may be the largest somewhere, the largest at `reference` first.

    One is left out if another is proved to be as large for all sizes, and with one size, if at
    each another is as large; of equal ones the first stays.
    """
    first: dict[Polynomial, int] = {}
    for place, one in enumerate(candidates):
        first.setdefault(one, place)
    values = {one: _number(one, reference) for one in first}
    kept: list[Polynomial] = []
    for one in sorted(first, key=lambda one: (-values[one], first[one])):
        several = [*kept, one]
        found = intervals(several, *reference) if len(reference) == 1 else None
        if found is not None:
            reached = {place for _, place in found}
            kept = [other for place, other in enumerate(several) if place in reached]
        elif not any(sizes.is_nonnegative(other - one) for other in kept):
            kept = several
    return [first[one] for one in kept]


def intervals(peaks: Sequence[Polynomial], name: str) -> list[tuple[int, int]] | None:
    """From which size on which of the peaks is the largest: pairs (size, place), sizes from 1 on.

    Of equal ones it is the first.  None where a peak is no polynomial in this one size.
    """
    coefficients = [_coefficients(one, name) for one in peaks]
    if any(one is None for one in coefficients):
        return None
    known = [one for one in coefficients if one is not None]
    stops = {1}
    for place, one in enumerate(known):
        for other in known[:place]:
            stops.update(_sign_changes(_difference(one, other)))
    found: list[tuple[int, int]] = []
    for stop in sorted(stops):
        values = [_value(one, stop) for one in known]
        largest = values.index(max(values))
        if not found or found[-1][1] != largest:
            found.append((stop, largest))
    return found


def _number(one: Polynomial, values: Mapping[str, int]) -> int:
    found = size_values.evaluate(one, values)
    assert isinstance(found, int), found
    return found


def _coefficients(one: Polynomial, name: str) -> list[int] | None:
    """The coefficients of 1, n, n², ...; None where there are other factors."""
    if isinstance(one, int):
        return [one]
    found: Counter[int] = Counter()
    for monomial, coefficient in one.terms:
        if any(factor != name for factor in monomial):
            return None
        found[len(monomial)] += coefficient
    return [found[power] for power in range(max(found) + 1)]


def _value(coefficients: Sequence[int], size: int) -> int:
    found = 0
    for coefficient in reversed(coefficients):
        found = found * size + coefficient
    return found


def _difference(one: Sequence[int], other: Sequence[int]) -> list[int]:
    count = max(len(one), len(other))
    padded = [[*x, *([0] * (count - len(x)))] for x in (one, other)]
    found = [a - b for a, b in zip(*padded, strict=True)]
    while len(found) > 1 and not found[-1]:
        found.pop()
    return found


def _increments(coefficients: Sequence[int]) -> list[int]:
    """The coefficients of p(n + 1) - p(n), by Pascal's triangle."""
    row, found = [1], [0] * (len(coefficients) - 1)
    for coefficient in coefficients[1:]:
        row = [1, *(a + b for a, b in pairwise(row)), 1]
        for power, binomial in enumerate(row[:-1]):
            found[power] += coefficient * binomial
    return found


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _sign_changes(coefficients: Sequence[int]) -> list[int]:
    """The sizes from 2 on at which a polynomial has another sign (-1, 0, 1) than one before.

    Between two sign changes of its increments it is monotone, so that its own are found by
    bisection.
    """
    if len(coefficients) == 1:
        return []

    def sign(size: int) -> int:
        return _sign(_value(coefficients, size))

    turns = [1, *_sign_changes(_increments(coefficients))]
    end = turns[-1] + 1
    while sign(end) != _sign(coefficients[-1]):
        end *= 2
    found: list[int] = []
    for low, high in zip(turns, [*turns[1:], end], strict=True):
        while sign(low) != sign(high):
            before, after = low, high
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if sign(middle) == sign(low) else (before, middle)
            found.append(after)
            low = after
    return found


def common(several: Sequence[Polynomial]) -> tuple[Polynomial, list[Polynomial]]:
    """What all have in common, and what each has beside it; no coefficient changes its sign."""
    terms = [dict(_terms(one)) for one in several]
    shared: Polynomial = 0
    for monomial in dict.fromkeys(monomial for one in terms for monomial in one):
        coefficients = [one.get(monomial, 0) for one in terms]
        least, most = min(coefficients), max(coefficients)
        amount = least if least > 0 else min(most, 0)
        if amount:
            shared += Size(((monomial, amount),)) if monomial else amount
    return shared, [one - shared for one in several]


def _terms(one: Polynomial) -> Sequence[tuple[Monomial, int]]:
    return one.terms if isinstance(one, Size) else [((), one)]


def text(one: Polynomial, names: Sequence[str]) -> str:
    """`4 n d + 32 n + 4096`: the highest powers first, of equal ones the largest coefficient.

    Factors are in the order of `names`.
    """
    return _sum(one, names, " ", _factor_text, "{}^{}")


def expression(one: Polynomial, names: Sequence[str]) -> str:
    """As `text`, in Python's grammar: `4*n*d + 32*n + 4096`."""
    return _sum(one, names, "*", _factor_expression, "{}**{}")


def latex(one: Polynomial, names: Sequence[str]) -> str:
    """As `text`, for TeX's mathematics."""
    return _sum(one, names, r"\,", _factor_latex, "{}^{{{}}}")


Write = Callable[["str | Opaque", Sequence[str]], str]


def _sum(one: Polynomial, names: Sequence[str], times: str, write: Write, power: str) -> str:
    if isinstance(one, int):
        return str(one)

    def rank(factor: str | Opaque) -> tuple[int, str]:
        return (names.index(factor) if factor in names else len(names)), str(factor)

    def order(term: tuple[Monomial, int]) -> tuple[int, int, list[tuple[int, str]]]:
        return -len(term[0]), -term[1], sorted(map(rank, term[0]))

    written = ""
    for monomial, coefficient in sorted(one.terms, key=order):
        parts = [str(abs(coefficient))] if abs(coefficient) != 1 or not monomial else []
        for factor, count in Counter(sorted(monomial, key=rank)).items():
            base = write(factor, names)
            parts.append(base if count == 1 else power.format(base, count))
        sign = (" - " if coefficient < 0 else " + ") if written else "-" * (coefficient < 0)
        written += sign + times.join(parts)
    return written


def _factor_text(factor: str | Opaque, names: Sequence[str]) -> str:
    return _factor(factor, names, text)


def _factor_expression(factor: str | Opaque, names: Sequence[str]) -> str:
    return _factor(factor, names, expression)


def _factor(
    factor: str | Opaque,
    names: Sequence[str],
    written: Callable[[Polynomial, Sequence[str]], str],
) -> str:
    if isinstance(factor, str):
        return factor
    arguments = [written(argument, names) for argument in factor.arguments]
    if factor.kind in ("min", "max"):
        return f"{factor.kind}({', '.join(arguments)})"
    fenced = [one if one.isidentifier() or one.isdigit() else f"({one})" for one in arguments]
    return "(" + f" {factor.kind} ".join(fenced) + ")"


def _factor_latex(factor: str | Opaque, names: Sequence[str]) -> str:
    if isinstance(factor, str):
        return symbol(factor)
    arguments = [latex(argument, names) for argument in factor.arguments]
    if factor.kind == "//":
        return rf"\left\lfloor \frac{{{arguments[0]}}}{{{arguments[1]}}} \right\rfloor"
    if factor.kind == "%":
        return rf"\left(({arguments[0]}) \bmod ({arguments[1]})\right)"
    return rf"\{factor.kind}\left({', '.join(arguments)}\right)"


def symbol(name: str) -> str:
    r"""A size in TeX: `n`, `\mathit{batch\_size}`."""
    return name if len(name) == 1 else r"\mathit{" + name.replace("_", r"\_") + "}"
