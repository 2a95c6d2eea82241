"""Sums over a row of what has factors of the row: the factors are taken out, and a sweep is saved.

The sum of c u + v over a row, with c from an earlier sum of the same row, would need a sweep of its
own after that sum.  As c (sum of u) + (sum of v) the sums are done before, beside it.  So is the
sum of (u / c) (v / c), as (sum of u v) / c / c, where c is made of the squares of v: the backward
pass of a layer_norm has both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.plan.loops import Instance, Kind
from chainrule.primitives.arithmetic import (
    add,
    divide,
    integer_power,
    multiply,
    negative,
    subtract,
)
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import full

MOST_TERMS = 4

# A term: what is summed, its sign, and the factors and divisors of the row.
Factors = tuple[tuple[Primitive, Instance], ...]
Term = tuple[Instance, bool, Factors]


def distributed(instances: Iterable[Instance]) -> list[Instance]:
    """The instances of a nest, operands first, with such sums done as early as they can be.

    Sums keep their identity, and instances that depend on them move to earlier sweeps.
    """
    found: dict[Instance, None] = {}
    for one in instances:
        _update_sweep(one)
        if one.kind is Kind.FOLD and one.node.primitive is sum_ and one.node.dtype.kind == "f":
            terms = _terms(one.operands[0])
            if terms is not None:
                found.update(dict.fromkeys(value for value, _, _ in terms))  # products are new
                found.update(dict.fromkeys(_taken_out(one, terms)))
        found[one] = None
    return list(found)


def _update_sweep(one: Instance) -> None:
    if one.operands:
        one.sweep = max(x.sweep for x in one.operands) + (one.kind is Kind.FOLD)


def _terms(value: Instance) -> list[Term] | None:
    """The value as a sum of terms that are there in earlier sweeps; None if it is not."""
    if not value.inner or not value.sweep:
        return None
    found: list[Term] = []
    pending: list[Term] = [(value, False, ())]
    while pending:
        one, minus, factors = pending.pop()
        if one.sweep < value.sweep:
            if not one.inner:
                return None
            found.append((one, minus, factors))
            if len(found) > MOST_TERMS:
                return None
            continue
        parts = _parts(one)
        if parts is None:
            return None
        pending += [
            (part, minus != sign, (*factors, *more)) for part, sign, more in reversed(parts)
        ]
    return found


def _parts(one: Instance) -> list[Term] | None:
    """A value that is linear in values of the same column, as their sum."""
    if one.kind is not Kind.MAP:
        return None
    primitive = one.node.primitive
    if primitive is add:
        return [(x, False, ()) for x in one.operands]
    if primitive is subtract:
        return [(one.operands[0], False, ()), (one.operands[1], True, ())]
    if primitive is negative:
        return [(one.operands[0], True, ())]
    if primitive is multiply and all(x.inner for x in one.operands):
        return _product(one)
    part = _without_factor(one)
    return None if part is None else [part]


def _without_factor(one: Instance) -> Term | None:
    """A value times or over a factor of the row, without that; None if it has none."""
    if one.kind is not Kind.MAP or one.node.primitive not in (multiply, divide):
        return None
    x, y = one.operands
    if one.node.primitive is multiply and not x.inner:
        x, y = y, x
    if x.inner and not y.inner and _is_made_of_sums(y):
        return x, False, ((one.node.primitive, y),)
    return None


def _product(one: Instance) -> list[Term] | None:
    """A product whose operands have factors of the row: the product without them.

    It may overflow or vanish where the factors would have brought it near 1.  So the factors must
    be made of the squares of an operand: these do so before, unless the other is far from it.
    """
    rests: list[Instance] = []
    factors: Factors = ()
    for rest in one.operands:
        while rest.sweep == one.sweep and (part := _without_factor(rest)) is not None:
            rest, factors = part[0], (*factors, *part[2])
        rests.append(rest)
    made = replace(one, operands=tuple(rests), sweep=max(x.sweep for x in rests))
    if made.sweep == one.sweep or not all(_has_squares(factor, rests) for _, factor in factors):
        return None
    return [(made, False, factors)]


def _has_squares(factor: Instance, values: list[Instance]) -> bool:
    """Whether a sum of the squares of one of the values is among what makes the factor."""
    return any(
        one.kind is Kind.FOLD and _square_of(one.operands[0]) in values for one in _made_of(factor)
    )


def _square_of(one: Instance) -> Instance | None:
    """What the value is the square of."""
    if one.kind is not Kind.MAP:
        return None
    squared = one.node.primitive is multiply and one.operands[0] is one.operands[-1]
    squared |= one.node.primitive is integer_power and one.node.param("exponent") == 2
    return one.operands[0] if squared else None


def _is_made_of_sums(factor: Instance) -> bool:
    """Whether the last reductions before the factor are all sums.

    Who divides a row by its largest element wants sums that do not overflow; without the division
    they would, and 0 / 0 would not be NaN.
    """
    folds = (one for one in _made_of(factor) if one.kind is Kind.FOLD)
    return all(one.node.primitive is sum_ for one in folds)


def _made_of(factor: Instance) -> list[Instance]:
    """The factor and what it is computed from, back to the last reductions before it."""
    found = dict.fromkeys([factor])
    pending = [factor]
    while pending:
        one = pending.pop()
        if one.kind is not Kind.FOLD:
            pending += (x for x in one.operands if x not in found)
            found.update(dict.fromkeys(one.operands))
    return list(found)


def _taken_out(total: Instance, terms: list[Term]) -> list[Instance]:
    """Make `total` the sum of the terms' own sums; the instances that this needs."""
    made: list[Instance] = []
    dtype = total.node.dtype
    sums: dict[Instance, Instance] = {}

    def combined(primitive: Primitive, *operands: Instance) -> Instance:
        one = Instance(_scalar(primitive, dtype), Kind.MAP, operands)
        _update_sweep(one)
        made.append(one)
        return one

    result: Instance | None = None
    for value, minus, factors in terms:
        if value not in sums:
            sums[value] = Instance(total.node, Kind.FOLD, (value,))
            _update_sweep(sums[value])
            made.append(sums[value])
        part = sums[value]
        for primitive, factor in factors:
            part = combined(primitive, part, factor)
        if result is None:
            result = combined(negative, part) if minus else part
        else:
            result = combined(subtract if minus else add, result, part)
    assert result is not None
    # `total` itself becomes the last operation, since others refer to it.
    if result.kind is Kind.FOLD:
        result = combined(negative, combined(negative, result))
    made.remove(result)
    total.kind, total.node, total.operands = Kind.MAP, result.node, result.operands
    total.sweep = result.sweep
    return made


def _scalar(primitive: Primitive, dtype: np.dtype) -> Node:
    """A node that says what is done with numbers of the row."""
    number = full(value=0.0, type=array_type(dtype, ()))
    return primitive(*[number] * len(primitive.inputs))
