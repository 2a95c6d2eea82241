"""Writes matrix products: side by side, with ᵀ, ⟨x, y⟩, a bᵀ, or labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from chainrule.explain.equations.formula import Applied, Formula, form_of
from chainrule.explain.equations.joining import dotted, elementwise, fenced, side_by_side
from chainrule.explain.equations.parts import (
    COMMA,
    TRANSPOSED,
    Bound,
    Fence,
    Script,
    Symbol,
    row,
    upright,
)
from chainrule.explain.equations.setting import Setter, Setting, is_scalar, operator
from chainrule.explain.equations.spanning import is_single
from chainrule.primitives.notation import ATOM, POWER, SIDE_BY_SIDE, Form


def _matmul(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """Juxtaposition; of two vectors x · y.  In a derivative, numbers stand in front."""
    x, y = formula.operands
    if formula.node.origin.transform and (found := _factor(y)) is not None:
        number, y = found
        product = replace(formula, operands=(x, y))
        return side_by_side(setter.set(number), _matmul(setter, product, is_free))
    left, right = setter.set(x, False), setter.set(y, False)
    if x.node.ndim == y.node.ndim == 1:
        return dotted(left, right)
    # A vector inside a chain belongs to one side: (A x) B is not A (x B).
    if _ends_in_vector(x, 1):
        left = fenced(left, ATOM, ATOM)
    if _ends_in_vector(y, 0):
        right = fenced(right, ATOM, ATOM)
    return side_by_side(left, right)


def _factor(formula: Formula) -> tuple[Formula, Formula] | None:
    """The number and the array, of a number times an array."""
    if form_of(formula) is not Form.PRODUCT:
        return None
    for number, array in (formula.operands, formula.operands[::-1]):
        if is_scalar(number) and array.spans and array.node.shape == formula.node.shape:
            return (number, array) if not is_scalar(array) else None
    return None


def _ends_in_vector(formula: Formula, side: int) -> bool:
    return form_of(formula) is Form.MATRIX_PRODUCT and formula.operands[side].node.ndim == 1


def _transposed(part: Bound) -> Bound:
    return Bound(Script(fenced(part, POWER + 1, POWER + 1), above=TRANSPOSED), POWER, POWER)


def _transpose(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """The transpose xᵀ of a matrix, or of each one of a stack; else the operator with its
    permutation.

    In a derivative, yᵀ xᵀ for (x y)ᵀ; and nothing of one element, whose axes come and go unseen.
    """
    (inner,) = formula.operands
    if _is_of_matrices(formula):
        return _flipped(setter, inner) if formula.node.origin.transform else _marked(setter, inner)
    if formula.node.origin.transform and is_single(formula.node):
        return setter.set(inner, is_free)
    return operator(setter, formula, "transpose", setter.parameters(formula.node)["permutation"])


def _is_of_matrices(formula: Formula) -> bool:
    """Whether a transposition exchanges the last two axes and no others."""
    order = formula.node.param("permutation")
    last = len(order) - 2
    return last >= 0 and order == (*range(last), last + 1, last)


def _marked(setter: Setter, formula: Formula) -> Bound:
    return _transposed(setter.set(formula, False))


def _flipped(setter: Setter, formula: Formula) -> Bound:
    """The transpose of a matrix with the mark inside: of xᵀ it is x, of 2 x y it is 2 yᵀ xᵀ."""
    match form_of(formula):
        case Form.TRANSPOSITION if _is_of_matrices(formula):
            return setter.set(formula.operands[0], False)
        case Form.MATRIX_PRODUCT if min(one.node.ndim for one in formula.operands) > 1:
            return side_by_side(*(_flipped(setter, one) for one in formula.operands[::-1]))
    found = _factor(formula)
    if found is not None:
        number, array = found
        return side_by_side(setter.set(number), _flipped(setter, array))
    return _marked(setter, formula)


def _contract(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """A matrix product where it is one, a bᵀ, ⟨x, y⟩, x ⊙ y, else the sum with its labels."""
    node = formula.node
    x_axes, y_axes, out = (node.param(key) for key in ("x_axes", "y_axes", "out_axes"))
    x, y = (_apart(setter, one) for one in formula.operands)
    if x_axes == y_axes == out:
        return elementwise(x, y)
    if x_axes == y_axes and out == ():
        return Bound(Fence(row(x, COMMA, y), "⟨", "⟩"))
    found = _product(x, x_axes, y, y_axes, out) or _product(y, y_axes, x, x_axes, out)
    return found if found is not None else _einsum(x, x_axes, y, y_axes, out)


def _apart(setter: Setter, operand: Formula) -> Bound:
    """An operand of a contraction; a product of matrices in brackets: (v A) wᵀ, v A being a row."""
    part = setter.set(operand, False)
    return fenced(part, ATOM, ATOM) if form_of(operand) is Form.MATRIX_PRODUCT else part


def _product(x: Bound, x_axes: tuple, y: Bound, y_axes: tuple, out: tuple) -> Bound | None:
    """x y, with x or y transposed where that takes; None where no product of matrices is meant."""
    shared = set(x_axes) & set(y_axes)
    if not shared and len(x_axes) == len(y_axes) == 1 and out == x_axes + y_axes:
        return side_by_side(fenced(x, SIDE_BY_SIDE, SIDE_BY_SIDE), _transposed(y))
    if len(shared) != 1 or shared & set(out) or max(len(x_axes), len(y_axes)) > 2:
        return None
    if len(x_axes) == len(y_axes) == 1:
        return None
    rows = tuple(label for label in x_axes if label not in shared)
    columns = tuple(label for label in y_axes if label not in shared)
    if out != rows + columns or (len(x_axes) == 1 and len(y_axes) == 2 and not columns):
        return None
    left = _transposed(x) if len(x_axes) == 2 and x_axes[0] in shared else x
    right = _transposed(y) if len(y_axes) == 2 and y_axes[1] in shared else y
    return side_by_side(left, right)


def _einsum(x: Bound, x_axes: tuple, y: Bound, y_axes: tuple, out: tuple) -> Bound:
    letters = "ijklmnopqrstuvwxyzabcdefgh"
    labels = sorted({*x_axes, *y_axes})
    named = {label: letters[place % len(letters)] for place, label in enumerate(labels)}
    left, right, result = ("".join(named[one] for one in axes) for axes in (x_axes, y_axes, out))
    below = Symbol(rf"{left}, {right} \to {result}", f"{left},{right}→{result}")
    return Bound(row(Script(upright("einsum"), below=below), Fence(row(x, COMMA, y))))


PRODUCTS: Mapping[Form, Setting] = MappingProxyType(
    {
        Form.MATRIX_PRODUCT: _matmul,
        Form.CONTRACTION: _contract,
        Form.TRANSPOSITION: _transpose,
    }
)
