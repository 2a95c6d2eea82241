"""Leaves out what a formula does not show: broadcasts; writes 2 x for x + x."""

from __future__ import annotations

from collections.abc import Collection

from chainrule.explain.equations.formula import Applied, Formula
from chainrule.graph.node import Node
from chainrule.primitives.notation import Form
from chainrule.primitives.primitive import Fold, Map

PASSED_ON = (Form.CONVERSION, Form.REPETITION)
UNSEEN = (*PASSED_ON, Form.UNIFORM)


def spans(node: Node, operands: tuple[Formula, ...]) -> bool:
    """Whether a primitive that is applied to operands has its shape without such broadcasting."""
    if not node.shape:
        return True
    if isinstance(node.primitive.kernel, Map) and operands:
        return any([one.spans for one in operands])
    form = node.primitive.latex.form
    if form is Form.UNIFORM:
        return False
    if form is Form.REPETITION:
        return operands[0].spans and operands[0].node.shape == node.shape
    is_kept = is_kept_axis(node, operands)
    return not (is_kept and are_leading(reduced_axes(operands[0].node)))  # else keepdims is seen


def is_passed_on(node: Node, operands: tuple[Formula, ...]) -> bool:
    """Whether a primitive writes nothing of its own beside its operand."""
    form = node.primitive.latex.form
    return form in PASSED_ON or is_kept_axis(node, operands)


def is_unseen(formula: Formula) -> bool:
    """Whether the formula is written as its operand is, or not at all (in most places)."""
    return isinstance(formula, Applied) and formula.node.primitive.latex.form in UNSEEN


def is_doubled(node: Node) -> bool:
    """Whether a derivative adds a value to itself: x + x is written 2 x."""
    is_sum = node.primitive.latex.form is Form.SUM
    return is_sum and node.inputs[0] is node.inputs[1] and bool(node.origin.transform)


def is_kept_axis(node: Node, operands: tuple[Formula, ...]) -> bool:
    """Whether a reshape gives a reduction the axes of length 1 that `keepdims` keeps."""
    if node.primitive.latex.form is not Form.RESHAPING:
        return False
    inner = operands[0]
    if not isinstance(inner, Applied) or not isinstance(inner.node.primitive.kernel, Fold):
        return False
    axes = reduced_axes(inner.node)
    before = inner.node.inputs[0].shape
    return node.shape == tuple(1 if at in axes else size for at, size in enumerate(before))


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes over which a reduction goes."""
    params = dict(node.params)
    return params["axes"] if "axes" in params else (params["axis"],)


def are_leading(axes: Collection[int]) -> bool:
    """Whether axes are the first ones: kept or not, what is left is broadcast in the same way."""
    return set(axes) == set(range(len(axes)))


def only_unit_axes(node: Node) -> bool:
    """Whether a reshape only adds or drops axes of length 1."""
    return _without_ones(node.shape) == _without_ones(node.inputs[0].shape)


def _without_ones(shape: tuple) -> list:
    return [size for size in shape if not (isinstance(size, int) and size == 1)]


def is_single(node: Node) -> bool:
    """Whether an array has one element, whatever the sizes are."""
    return all(isinstance(size, int) and size == 1 for size in node.shape)
