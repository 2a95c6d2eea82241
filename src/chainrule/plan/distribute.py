"""Sums over a row of what has factors of the row: the factors are taken out, and a sweep is saved.

The sum of c u + v over a row, with c from an earlier sum of the same row, would need a sweep of its
own after that sum.  As c (sum of u) + (sum of v) the sums are done before, beside it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.plan.loops import Instance, Kind
from chainrule.primitives.arithmetic import add, divide, multiply, negative, subtract
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
    found: list[Instance] = []
    for one in instances:
        _update_sweep(one)
        if one.kind is Kind.FOLD and one.node.primitive is sum_ and one.node.dtype.kind == "f":
            terms = _terms(one.operands[0])
            if terms is not None:
                found += _taken_out(one, terms)
        found.append(one)
    return found


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
    if primitive is multiply:
        x, y = one.operands
        factor, rest = (y, x) if x.inner else (x, y)
        if x.inner != y.inner and _is_made_of_sums(factor):
            return [(rest, False, ((multiply, factor),))]
    if primitive is divide:
        x, y = one.operands
        if not y.inner and _is_made_of_sums(y):
            return [(x, False, ((divide, y),))]
    return None


def _is_made_of_sums(factor: Instance) -> bool:
    """Whether the last reductions before the factor are all sums.

    Who divides a row by its largest element wants sums that do not overflow; without the division
    they would, and 0 / 0 would not be NaN.
    """
    pending, seen = [factor], {factor}
    while pending:
        one = pending.pop()
        if one.kind is Kind.FOLD:
            if one.node.primitive is not sum_:
                return False
            continue
        pending += (x for x in one.operands if x not in seen)
        seen.update(one.operands)
    return True


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
