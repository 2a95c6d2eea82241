"""Writes arithmetic, sums and cases: λ W, x ⊙ y, ‖W‖², { x if x > 0."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from chainrule.explain.equations.formula import Applied, Formula, form_of
from chainrule.explain.equations.joining import (
    added,
    dotted,
    doubled,
    elementwise,
    fenced,
    fraction,
    minus,
    side_by_side,
    subtracted,
)
from chainrule.explain.equations.matrices import is_identity
from chainrule.explain.equations.parts import (
    Bound,
    Cases,
    Fence,
    Part,
    Row,
    Script,
    Symbol,
    row,
    text,
    upright,
)
from chainrule.explain.equations.setting import Setter, Setting, is_scalar
from chainrule.explain.equations.spanning import is_doubled
from chainrule.primitives.notation import BIG, POWER, RELATION, Form


def _add(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """x + y; in a derivative, 2 x for x + x, also in y + x + x."""
    free = setter.is_free_inside(formula, is_free)
    x, y = formula.operands
    if is_doubled(formula.node):
        return doubled(setter.set(x, free))
    if form_of(x) is Form.SUM:
        first, again = x.operands
        if again.node is y.node and formula.node.origin.transform:
            return added(setter.set(first, free), doubled(setter.set(y, free)))
    return added(setter.set(x, free), setter.set(y, free))


def _subtract(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    free = setter.is_free_inside(formula, is_free)
    return subtracted(*(setter.set(one, free) for one in formula.operands))


def _negative(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    return minus(setter.set(formula.operands[0], is_free))


def _is_number(formula: Formula) -> bool:
    return form_of(formula) is Form.UNIFORM


def _multiply(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """λ W for a number times an array, else x ⊙ y."""
    free = setter.is_free_inside(formula, is_free)
    x, y = formula.operands
    if is_scalar(y) and (not is_scalar(x) or _is_number(y) > _is_number(x)):
        x, y = y, x
    left, right = setter.set(x, free), setter.set(y, free)
    if is_scalar(x) and is_scalar(y) and x.node is y.node:
        return dotted(left, right)
    if is_scalar(x):
        is_whole = free or y.node.shape == formula.node.shape
        return right if is_whole and text(left) == "1" else side_by_side(left, right)
    if left.negated is not None:
        return minus(elementwise(left.negated, right))
    return elementwise(left, right)


def _divide(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """A minus sign of the numerator stands before the fraction."""
    free = setter.is_free_inside(formula, is_free)
    top, bottom = (setter.set(one, free) for one in formula.operands)
    if top.negated is None:
        return fraction(top, bottom)
    return minus(fraction(top.negated, bottom))


def _power(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """x², and of an array, whose square could be a matrix product, x^{⊙2}."""
    base, *above = formula.operands
    free = is_free
    if above:
        free = setter.is_free_inside(formula, is_free)
        exponent: Part = setter.set(above[0], free)
    else:
        number = _exponent(formula)
        if number == -1:
            return fraction(Bound(Symbol("1", "1")), setter.set(base, is_free))
        exponent = Symbol(str(number), str(number).replace("-", "−"))
    shown = setter.operand(base, POWER + 1, free)
    if not is_scalar(base):
        exponent = row(Symbol(r"\odot ", "⊙"), exponent)
    return Bound(Script(shown, above=exponent), POWER, POWER)


def _exponent(formula: Formula) -> Any:
    """The exponent of a power, where it is a parameter."""
    is_power = form_of(formula) is Form.POWER
    return dict(formula.node.params).get("exponent") if is_power else None


def _sum(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """‖W‖² of squares, else ∑ with the axes below."""
    (inner,) = formula.operands
    axes = formula.node.param("axes")
    if not axes:
        return setter.set(inner, False)
    below = setter.axes(formula.node, axes, formula.keeps)
    squared = _squared(inner)
    if squared is not None and below is None:
        norm = Fence(setter.set(squared, False), "‖", "‖")
        frobenius = Symbol("F", "F") if inner.node.ndim > 1 else None
        return Bound(_norm(norm, frobenius), POWER, POWER)
    sign = Symbol(r"\sum ", "∑")
    shown = sign if below is None else Script(sign, below=below)
    body = fenced(setter.set(inner, False), BIG, BIG)
    return Bound(row(shown, Symbol(" ", " "), body), BIG, BIG)


def _norm(norm: Part, frobenius: Part | None) -> Part:
    """‖W‖²_F: the square stands before the F in text."""
    if frobenius is None:
        return Script(norm, above=Symbol("2", "2"))
    return Row((Script(norm, frobenius, Symbol("2", "2")),))


def _squared(formula: Formula) -> Formula | None:
    """W, of W² or W ⊙ W."""
    if not formula.node.ndim:
        return None
    if _exponent(formula) == 2:
        return formula.operands[0]
    if form_of(formula) is Form.PRODUCT:
        x, y = formula.operands
        return x if x.node is y.node else None
    return None


def _where(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """The cases; those of an inner where come after."""
    rows: list[tuple[Part, Part | None]] = []
    last: Formula = formula
    free = setter.is_free_inside(formula, is_free)
    while form_of(last) is Form.CASES:
        condition, value, last = last.operands
        rows.append((setter.set(value, free), setter.set(condition, free)))
    rows.append((setter.set(last, free), None))
    return Bound(Cases(tuple(rows)))


def _cast(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """Unseen, except from booleans, [x > 0], and where digits are cut off."""
    (inner,) = formula.operands
    if is_identity(formula.node):
        size = setter.shapes.size(formula.node.shape[0])
        return Bound(Script(Symbol(r"\mathbf{I}", "𝐈"), below=size))
    before, after = inner.node.dtype.kind, formula.node.dtype.kind
    if before == "b" and after != "b":
        return Bound(Fence(setter.set(inner, is_free), "[", "]"))
    if after == "b" and before != "b":
        zero = Bound(Symbol("0", "0"))
        left = fenced(setter.set(inner, is_free), RELATION + 1, RELATION + 1)
        return Bound(row(left, Symbol(r" \neq ", " ≠ "), zero), RELATION, RELATION)
    if before == "f" and after in "iu":
        return Bound(row(upright("int"), Fence(setter.set(inner, is_free))))
    return setter.set(inner, is_free)


ELEMENTS: Mapping[Form, Setting] = MappingProxyType(
    {
        Form.SUM: _add,
        Form.DIFFERENCE: _subtract,
        Form.NEGATIVE: _negative,
        Form.PRODUCT: _multiply,
        Form.QUOTIENT: _divide,
        Form.POWER: _power,
        Form.SERIES: _sum,
        Form.CASES: _where,
        Form.CONVERSION: _cast,
    }
)
