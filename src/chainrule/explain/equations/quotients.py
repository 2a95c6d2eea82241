"""Brings quotients of p = σ(z) and 1 − p to one form: powers of both, times polynomials in p."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import comb

from chainrule.explain.equations.polynomials import Factor, Logistic, Polynomial, Product
from chainrule.graph.node import Node

SMALL = 1e-12  # of the numbers before products: what is left where terms cancel
MOST_POWERS = 8

Powers = dict[int, float]  # by exponents of p, the numbers before


def reduced(polynomial: Polynomial) -> Polynomial:
    """The polynomial, divided by p and 1 − p as often as that is possible, for each z."""
    bases = {one.of for one in _factors(polynomial) if isinstance(one, Logistic)}
    for base in bases:
        polynomial = _reduced_by(polynomial, base)
    return polynomial


def _factors(polynomial: Polynomial) -> Iterable[Factor]:
    return (factor for product in polynomial for factor, _ in product)


def _reduced_by(polynomial: Polynomial, base: Node) -> Polynomial:
    p, rest = Logistic(base), Logistic(base, is_rest=True)
    parted: dict[Product, dict[tuple[int, int], float]] = {}
    for product, number in polynomial.items():
        exponents = dict(product)
        powers = exponents.pop(p, 0), exponents.pop(rest, 0)
        several = parted.setdefault(frozenset(exponents.items()), {})
        several[powers] = several.get(powers, 0.0) + number
    every = [powers for several in parted.values() for powers in several]
    least = [min(each) for each in zip(*every, strict=True)]
    most = [max(each) for each in zip(*every, strict=True)]
    if any(high - low > MOST_POWERS for low, high in zip(least, most, strict=True)):
        return polynomial
    expanded = {
        product: found
        for product, several in parted.items()
        if (found := _expanded(several, least[0], least[1]))
    }
    if not expanded:
        return {}
    by_p = min(exponent for powers in expanded.values() for exponent in powers)
    expanded = {
        product: {exponent - by_p: number for exponent, number in powers.items()}
        for product, powers in expanded.items()
    }
    by_rest = 0
    while all(abs(sum(powers.values())) < SMALL for powers in expanded.values()):
        expanded = {product: _divided(powers) for product, powers in expanded.items()}
        by_rest += 1
    common = {p: least[0] + by_p, rest: least[1] + by_rest}
    return {
        _with(product, {**common, p: common[p] + exponent}): number
        for product, powers in expanded.items()
        for exponent, number in powers.items()
    }


def _expanded(several: Mapping[tuple[int, int], float], least_p: int, least_rest: int) -> Powers:
    """Σ c pⁱ (1 − p)ʲ by powers of p, where i and j are less by the least ones."""
    found: Powers = {}
    for (i, j), number in several.items():
        for k in range(j - least_rest + 1):
            at = i - least_p + k
            found[at] = found.get(at, 0.0) + number * comb(j - least_rest, k) * (-1) ** k
    return {exponent: number for exponent, number in found.items() if abs(number) >= SMALL}


def _divided(powers: Powers) -> Powers:
    """The quotient by 1 − p of what is 0 where p is 1."""
    found: Powers = {}
    total = 0.0
    for exponent in range(max(powers)):
        total += powers.get(exponent, 0.0)
        if abs(total) >= SMALL:
            found[exponent] = total
    return found


def _with(product: Product, exponents: Mapping[Factor, int]) -> Product:
    return product | {(one, exponent) for one, exponent in exponents.items() if exponent}
