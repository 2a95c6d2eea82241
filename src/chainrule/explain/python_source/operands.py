"""Writes the operands of an operation; leaves broadcasting and dtypes to NumPy.

Where NumPy itself broadcasts and promotes to the declared type, with the same bits, a broadcast, a
uniform constant, and a cast of one of Python's numbers are not written.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.explain.python_source.numbers import float_text
from chainrule.graph.node import Node
from chainrule.graph.types import Shape
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to, reshape
from chainrule.primitives.notation import ATOM, PREFIX
from chainrule.primitives.primitive import Map
from chainrule.primitives.python import Python, Written, dtype_text, number_text
from chainrule.primitives.sources import full, size_value

FLOAT = np.dtype(np.float64)


@dataclass(frozen=True)
class Expression:
    """How a node is written; `is_number` where that gives one of Python's floats: it widens no
    array's dtype."""

    written: Written
    is_number: bool = False


@dataclass(frozen=True)
class Operand:
    """One operand in three forms: `weak` has no dtype where `is_weak`, `plain` is then one of
    Python's floats, `strong` has the dtype of the node.  `node` is the one whose expression it is
    (None for literals), `value` that of a literal."""

    node: Node | None
    weak: Written
    plain: Written
    strong: Written
    shape: Shape
    is_weak: bool = False
    value: Any = None


class Operands:
    """The operands of the nodes of one source.

    `kept` are the nodes of which nothing is left out, the named ones above all; `expression(node)`
    is how a node is written that comes before, `spell(node, operands)` the call itself.
    """

    def __init__(
        self,
        kept: Container[Node],
        expression: Callable[[Node], Expression],
        spell: Callable[[Node, list[Written]], Written],
    ) -> None:
        self._kept = kept
        self._expression = expression
        self._spell = spell

    def of(self, node: Node) -> tuple[list[Operand], list[Written], bool]:
        """The operands of a node, how each is written, and whether the result is a number."""
        if not isinstance(node.primitive.kernel, Map):
            whole = [self._whole(parent) for parent in node.inputs]
            return whole, [one.strong for one in whole], False
        operands = self._broadcast(node)
        spelling = _spelling(node)
        dtypes = [parent.dtype for parent in node.inputs]
        if all(one.is_weak for one in operands) and all(dtype == FLOAT for dtype in dtypes):
            has_float = any(one.node is not None for one in operands)
            shown = [one.weak if has_float else one.plain for one in operands]
            if spelling.numbers(*(one.value for one in operands)):
                return operands, shown, True
            if spelling.binding == ATOM:
                return operands, shown, False
        return operands, list(_typed(operands, dtypes)), False

    def whole(self, node: Node) -> Written:
        """The node with its whole shape and its dtype."""
        return self._whole(node).strong

    def _broadcast(self, node: Node) -> list[Operand]:
        """Operands without their broadcasts, so far as the result keeps its shape."""
        bare = [self._bare(parent) for parent in node.inputs]
        if _covers([one.shape for one in bare], node.shape):
            return bare
        literal = [one.node is None for one in bare]
        kept = literal.index(False) if False in literal else 0
        bare[kept] = self._whole(node.inputs[kept])
        return bare

    def _bare(self, node: Node) -> Operand:
        """The operand without broadcasts and leading axes of length 1."""
        inner = node
        while inner not in self._kept and _only_repeats(inner):
            inner = inner.inputs[0]
        if inner in self._kept:
            return self._whole(inner)
        if inner.primitive is full:
            return _literal(inner)
        if inner.primitive is size_value:
            return _size(self._spell(inner, []))
        return self._whole(inner)

    def _whole(self, node: Node) -> Operand:
        if node not in self._kept:
            if node.primitive in (full, size_value):
                return _strong(None, self._spell(node, []), node.shape)
            if node.primitive is broadcast_to:
                inner = self._whole(node.inputs[0])
                return _strong(inner.node, self._spell(node, [inner.strong]), node.shape)
            if node.primitive is cast and node.type.is_float:
                inner = self._expression_of(node.inputs[0])
                if inner is not None and inner.is_number:
                    return _number(node.inputs[0], inner.written, node.dtype)
        expression = self._expression(node)
        if expression.is_number:
            return _number(node, expression.written, node.dtype)
        return _strong(node, expression.written, node.shape)

    def _expression_of(self, node: Node) -> Expression | None:
        if node not in self._kept and node.primitive in (full, size_value, broadcast_to):
            return None
        return self._expression(node)


def _spelling(node: Node) -> Python:
    spelling = node.primitive.python
    assert spelling is not None, node.primitive.name
    return spelling


def _only_repeats(node: Node) -> bool:
    """Whether NumPy's broadcasting does the same: a broadcast, or leading axes of length 1."""
    if node.primitive is broadcast_to:
        return True
    shape = node.inputs[0].shape if node.primitive is reshape else ()
    return node.primitive is reshape and node.shape == (1,) * (node.ndim - len(shape)) + shape


def _covers(shapes: Sequence[Shape], whole: Shape) -> bool:
    """Whether arrays of these shapes broadcast to the whole shape (each of them does)."""
    if max(map(len, shapes)) != len(whole):
        return False
    return all(
        any(len(shape) >= place and shape[-place] == whole[-place] for shape in shapes)
        for place in range(1, len(whole) + 1)
    )


def _typed(operands: list[Operand], dtypes: list[np.dtype]) -> list[Written]:
    """The operands, where of each dtype at least one has it and so gives it to the others."""
    given = {dtype for one, dtype in zip(operands, dtypes, strict=True) if not one.is_weak}
    shown = []
    for one, dtype in zip(operands, dtypes, strict=True):
        shown.append(one.weak if dtype in given else one.strong)
        given.add(dtype)
    return shown


def _strong(node: Node | None, written: Written, shape: Shape) -> Operand:
    return Operand(node, written, written, written, shape)


def _number(node: Node, written: Written, dtype: np.dtype) -> Operand:
    strong = Written(f"{dtype_text(dtype)}({written.text})")
    return Operand(node, written, written, strong, (), is_weak=True)


def _literal(node: Node) -> Operand:
    value, dtype = node.param("value"), node.dtype
    weak, plain = number_text(value, dtype), float_text(value, dtype)
    strong = Written(f"{dtype_text(dtype)}({weak})")
    return Operand(None, _signed(weak), _signed(plain), strong, (), True, value)


def _size(strong: Written) -> Operand:
    text = strong.text.partition("(")[2].removesuffix(")")
    weak = Written(text) if text.isidentifier() else Written(f"({text})")
    return Operand(None, weak, Written(f"float({text})"), strong, (), is_weak=True)


def _signed(text: str) -> Written:
    return Written(text, PREFIX if text.startswith("-") else ATOM)
