"""Writes moved elements: reshapes, slices, indices, joins, and arrays of one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from chainrule.explain.equations.formula import Applied, Formula, form_of
from chainrule.explain.equations.joining import side_by_side
from chainrule.explain.equations.matrices import is_diagonal
from chainrule.explain.equations.parts import (
    Bound,
    Fence,
    Part,
    Script,
    Symbol,
    row,
    separated,
    upright,
)
from chainrule.explain.equations.setting import Setter, Setting, is_scalar, operator
from chainrule.explain.equations.spanning import is_kept_axis, is_single, only_unit_axes
from chainrule.explain.equations.values import WHOLE, number, tuple_of
from chainrule.explain.reading.numbers import counted
from chainrule.graph.node import Node
from chainrule.primitives.notation import ATOM, Form

FEW = 4  # the elements of a constant are shown if they are no more


def _hidden_or(setter: Setter, formula: Applied, is_free: bool, word: str) -> Bound:
    """The operand alone where the reader broadcasts it, else the operator with its shape."""
    (inner,) = formula.operands
    if is_free or (inner.spans and inner.node.shape == formula.node.shape):
        return setter.set(inner, is_free)
    if is_scalar(inner):
        return side_by_side(setter.set(inner), _ones(setter, formula))
    return operator(setter, formula, word, setter.shapes.shape(formula.node.shape))


def _ones(setter: Setter, formula: Applied) -> Bound:
    shape = setter.shapes.shape(formula.node.shape)
    return Bound(Script(Symbol(r"\mathbf{1}", "𝟏"), below=shape))


def _full(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    value, node = formula.node.param("value"), formula.node
    shown = number(value, node.dtype)
    if is_free or not node.shape:
        return shown
    if node.dtype.kind != "b" and value == 1:
        return _ones(setter, formula)
    return side_by_side(shown, _ones(setter, formula))


def _broadcast_to(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """Leading axes of length 1 that are dropped and broadcast again are unseen, too."""
    (inner,) = formula.operands
    if is_free and isinstance(inner, Applied) and form_of(inner) is Form.RESHAPING:
        before = inner.operands[0]
        is_unseen = before.node.ndim <= formula.node.ndim and _is_leading(before.node, inner.node)
        if is_unseen and _at_index(setter, inner) is None:
            return setter.set(before, is_free)
    return _hidden_or(setter, formula, is_free, "broadcast")


def _is_leading(longer: Node, shorter: Node) -> bool:
    """Whether two arrays are one but for leading axes of length 1 of the longer one's shape."""
    more = longer.ndim - shorter.ndim
    return longer.shape == (1,) * more + shorter.shape


def _reshape(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """Unseen where it adds leading axes of length 1 before broadcasting; keepdims of reductions."""
    (inner,) = formula.operands
    node, shape = formula.node, formula.node.shape
    if only_unit_axes(node):
        are_single = is_single(node) and is_single(inner.node)
        dropped = _at_index(setter, formula)
        if dropped is not None:
            return dropped
        if are_single or (is_free and _is_leading(node, inner.node)):
            return setter.set(inner, is_free)
        if isinstance(inner, Applied) and is_kept_axis(node, formula.operands):
            return setter.set(replace(inner, keeps=True), is_free)
    return operator(setter, formula, "reshape", setter.shapes.shape(shape))


def _at_index(setter: Setter, formula: Applied) -> Bound | None:
    """x[0], of a slice of length 1 whose axis is dropped; None for others."""
    (inner,) = formula.operands
    if not isinstance(inner, Applied) or not _is_slice(inner):
        return None
    ones = [place for place, size in enumerate(inner.node.shape) if size == 1]
    if len(inner.node.shape) - len(formula.node.shape) != len(ones):
        return None
    return _sliced(setter, inner, frozenset(ones))


def _is_slice(formula: Formula) -> bool:
    return form_of(formula) is Form.AT and len(formula.operands) == 1


def _at(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """The operand with the places in brackets."""
    if _is_slice(formula):
        return _sliced(setter, formula, frozenset())
    return _indexed(setter.operand(formula.operands[0], ATOM, False), _places(setter, formula))


def _sliced(setter: Setter, formula: Applied, dropped: frozenset[int]) -> Bound:
    node, (inner,) = formula.node, formula.operands
    items = zip(node.param("start"), node.param("step"), node.shape, inner.node.shape, strict=True)
    shown = [
        setter.shapes.size(start)
        if place in dropped
        else setter.shapes.span(start, step, count, length)
        for place, (start, step, count, length) in enumerate(items)
    ]
    while len(shown) > 1 and shown[-1] == WHOLE:
        shown.pop()
    return _indexed(setter.operand(inner, ATOM, False), separated([*shown]))


def _indexed(base: Part, index: Part) -> Bound:
    return Bound(row(base, Fence(index, "[", "]")), ATOM, ATOM)


def _places(setter: Setter, formula: Applied) -> Part:
    """The index arrays among the operands."""
    return separated([setter.set(one, False) for one in formula.operands[1:]])


def _placed(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """Zeros of the shape below, with the first operand at the places in brackets."""
    node, inner = formula.node, formula.operands[0]
    if is_diagonal(node):
        return Bound(row(upright("diag"), Fence(setter.set(inner, False))))
    word = "pad" if form_of(formula) is Form.PADDED else "scatter"
    if len(formula.operands) > 1:
        places = _places(setter, formula)
    else:
        starts, steps = node.param("start"), node.param("step")
        items = zip(starts, steps, inner.node.shape, node.shape, strict=True)
        places = separated([setter.shapes.span(*item) for item in items])
    name = Script(upright(word), below=setter.shapes.shape(node.shape))
    at = row(setter.set(inner, False), Symbol(r" \text{ at } ", " at "), Fence(places, "[", "]"))
    return Bound(row(name, Fence(at)))


def _iota(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    return Bound(setter.shapes.positions(formula.node.shape[0]))


def _concatenate(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    axis = formula.node.param("axis")
    if all(_is_stacked(one, axis) for one in formula.operands):
        inner = separated([setter.set(one.operands[0], False) for one in formula.operands])
        name = Script(upright("stack"), below=_axis(axis))
        return Bound(row(name, Fence(inner)))
    shown = separated([_joined(setter, one) for one in formula.operands])
    fence: Part = Fence(shown, "[", "]")
    if formula.node.ndim > 1:
        fence = Script(fence, below=_axis(axis))
    return Bound(fence)


def _joined(setter: Setter, formula: Formula) -> Bound:
    """What is joined to others; a number in the shape that it is given for that."""
    if isinstance(formula, Applied) and form_of(formula) is Form.RESHAPING:
        if formula.node.ndim and is_single(formula.operands[0].node):
            return operator(setter, formula, "reshape", setter.shapes.shape(formula.node.shape))
    return setter.set(formula, False)


def _axis(axis: int) -> Part:
    return row(Symbol(r"\mathrm{axis}\,", "axis "), Symbol(str(axis), str(axis)))


def _is_stacked(formula: Formula, axis: int) -> bool:
    """Whether the operand only got a further axis, along which it is stacked."""
    if form_of(formula) is not Form.RESHAPING:
        return False
    shape = formula.operands[0].node.shape
    return formula.node.shape == (*shape[:axis], 1, *shape[axis:])


def _constant(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """A constant that the program gave no name: its elements, where they are few."""
    shape, array = formula.node.shape, formula.node.param("value").array
    if array.ndim <= 1 and array.size <= FEW:
        elements = [number(one.item(), array.dtype) for one in array.reshape(-1)]
        return Bound(Fence(separated([*elements]), "[", "]")) if array.ndim else elements[0]
    if (ends := counted(array)) is not None:
        dots = Symbol(r"\ldots", "…")
        first, last = (number(one, array.dtype) for one in ends)
        return Bound(Fence(separated([first, dots, last])))
    word = upright("constant")
    return Bound(Script(word, below=setter.shapes.shape(shape)) if shape else word)


def _windowed(setter: Setter, formula: Applied, is_free: bool) -> Bound:
    """windows_{(2, 2), stride = (2, 2)}(x), fold_{…}(x): the options that are not 1 are said."""
    node = formula.node
    size = node.params and dict(node.params).get("window")
    shown = [setter.shapes.shape(node.shape) if size is None else Fence(tuple_of(size))]
    for name in ("stride", "dilation"):
        if any(one != 1 for one in node.param(name)):
            word = Symbol(rf"\mathrm{{{name}}} = ", f"{name} = ")
            shown.append(row(word, Fence(tuple_of(node.param(name)))))
    return operator(setter, formula, node.primitive.name.split("_")[0], separated(shown))


PLACES: Mapping[Form, Setting] = MappingProxyType(
    {
        Form.REPETITION: _broadcast_to,
        Form.RESHAPING: _reshape,
        Form.AT: _at,
        Form.PADDED: _placed,
        Form.SCATTERED: _placed,
        Form.JOINED: _concatenate,
        Form.UNIFORM: _full,
        Form.POSITIONS: _iota,
        Form.ELEMENTS: _constant,
        Form.WINDOWED: _windowed,
    }
)
