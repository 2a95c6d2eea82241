"""Joins parts with operators, and adds the brackets that precedence needs: a + b, a b, a/b."""

from __future__ import annotations

from collections.abc import Iterable

from chainrule.explain.equations import parts
from chainrule.explain.equations.parts import (
    DOT,
    THIN,
    Bound,
    Fence,
    Fraction,
    Part,
    Symbol,
    row,
)
from chainrule.explain.equations.values import bracketed
from chainrule.primitives.notation import (
    ADDITIVE,
    ATOM,
    BIG,
    FRACTION,
    PRODUCT,
    SIDE_BY_SIDE,
    TEXT_FRACTION,
)

ODOT = Symbol(r" \odot ", " ⊙ ")
DIGITS = tuple("0123456789√")  # between a factor and these stands a dot


def fenced(part: Bound, need: int, text_need: int) -> Bound:
    """The part in brackets where it needs them, perhaps in text only."""
    if part.binding < need:
        return bracketed(part)
    if part.text_binding < text_need:
        return Bound(Fence(part, only_text=True), part.binding, ATOM)
    return part


def added(left: Bound, right: Bound) -> Bound:
    """left + right, or left − b where right is −b."""
    if right.negated is not None:
        return subtracted(left, right.negated)
    return Bound(row(left, parts.PLUS, fenced(right, ADDITIVE, ADDITIVE)), ADDITIVE, ADDITIVE)


def total(terms: Iterable[Bound]) -> Bound:
    """a + b − c + ...: one row, however many there are."""
    first, *others = terms
    shown: list[Part] = [fenced(first, ADDITIVE, ADDITIVE)]
    for one in others:
        if one.negated is None:
            shown += [parts.PLUS, fenced(one, ADDITIVE, ADDITIVE)]
        else:
            shown += [parts.MINUS, fenced(one.negated, ADDITIVE + 1, ADDITIVE + 1)]
    if not others:
        return fenced(first, ADDITIVE, ADDITIVE)
    return Bound(row(*shown), ADDITIVE, ADDITIVE)


def subtracted(left: Bound, right: Bound) -> Bound:
    """left − right, or left + b where right is −b."""
    if right.negated is not None:
        return added(left, right.negated)
    inner = fenced(right, ADDITIVE + 1, ADDITIVE + 1)
    return Bound(row(left, parts.MINUS, inner), ADDITIVE, ADDITIVE)


def minus(part: Bound) -> Bound:
    """−part; of −b, b."""
    if part.negated is not None:
        return part.negated
    inner = fenced(part, BIG, BIG)
    return Bound(row(Symbol("-", "−"), inner), ADDITIVE, ADDITIVE, negated=inner)


def side_by_side(left: Bound, right: Bound) -> Bound:
    """The product `left right` of a number and an array, of two numbers, of two matrices."""
    if left.negated is not None:
        return minus(side_by_side(left.negated, right))
    if right.negated is not None:
        return minus(side_by_side(left, right.negated))
    first = fenced(left, SIDE_BY_SIDE, TEXT_FRACTION)
    second = fenced(right, SIDE_BY_SIDE, SIDE_BY_SIDE)
    between = DOT if parts.begins_with(second) in DIGITS else THIN
    return Bound(row(first, between, second), SIDE_BY_SIDE, SIDE_BY_SIDE)


def dotted(left: Bound, right: Bound) -> Bound:
    """x · y"""
    need = SIDE_BY_SIDE
    return Bound(row(fenced(left, need, need), DOT, fenced(right, need, need)), PRODUCT, PRODUCT)


def doubled(part: Bound) -> Bound:
    """2 x"""
    return side_by_side(Bound(Symbol("2", "2")), part)


def elementwise(left: Bound, right: Bound) -> Bound:
    left, right = fenced(left, PRODUCT, PRODUCT), fenced(right, PRODUCT, PRODUCT)
    return Bound(row(left, ODOT, right), PRODUCT, PRODUCT)


def fraction(top: Bound, bottom: Bound) -> Bound:
    """top over bottom."""
    return Bound(Fraction(top, bottom), FRACTION, TEXT_FRACTION)
