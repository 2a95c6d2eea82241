"""Evaluates sizes for given numbers, and solves for named sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import floordiv, mod

from chainrule.graph.sizes.size_terms import Opaque, constant_of, terms_of
from chainrule.graph.sizes.sizes import Size, maximum, minimum, size

_EXTREMES = {"min": minimum, "max": maximum}


def evaluate(a: int | Size, env: Mapping[str, int | Size]) -> int | Size:
    """a with the names in env replaced; an int if no name is left. Values must be >= 1."""
    if not isinstance(a, Size):
        return a
    total: int | Size = 0
    for monomial, value in a.terms:
        for f in monomial:
            if isinstance(f, Opaque):
                value = value * _evaluate_opaque(f, env)
            else:
                value = value * (env[f] if f in env else size(f))
        total = total + value
    return total


def _evaluate_opaque(factor: Opaque, env: Mapping[str, int | Size]) -> int | Size:
    x, *others = (evaluate(a, env) for a in factor.arguments)
    if factor.kind in _EXTREMES:
        return reduce(_EXTREMES[factor.kind], others, x)
    if others[0] == 0:
        raise ZeroDivisionError(f"{factor} divides by zero: {factor.arguments[1]} is 0")
    return (floordiv if factor.kind == "//" else mod)(x, others[0])


def solve(pattern: int | Size, value: int, env: Mapping[str, int]) -> dict[str, int] | None:
    """The {name: int} that makes the pattern equal value, {} if it already is, else None.

    None where the pattern, with env's names replaced, is not linear in one name, or where the
    answer is not an integer >= 1. `solve(2*n + 1, 7, {})` is `{"n": 3}`.
    """
    difference = evaluate(pattern, env) - value
    constant = constant_of(difference)
    match terms_of(difference - constant):
        case ():
            return {} if constant == 0 else None
        case (((str() as name,), slope),) if -constant % slope == 0 and -constant // slope >= 1:
            return {name: -constant // slope}
    return None
