"""Selects after it multiplies: a cotangent that is 0 by a select stays 0 beside NaN and infinity.

`np.where(x > 0, np.log(x), 0)` gives log the cotangent `where(x > 0, g, 0)`.  Times 1/x it is NaN
at x = 0, though the value never came from there.  So the same select follows each elementwise rule.
The condition is followed through sums, broadcasts and moves, too; it ends at products of matrices
and at linear algebra, where each element is made of many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from chainrule.graph.node import Node
from chainrule.primitives import arithmetic, logic
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.primitive import (
    Explicit,
    Fold,
    Gather,
    Linear,
    Map,
    Move,
    Multilinear,
    Partials,
)
from chainrule.primitives.sources import constant, full, full_like, input_, size_value

Key = tuple[Node, bool]


class Condition(NamedTuple):
    """Outside of it a cotangent is 0.  `node` makes its nodes when they are needed, once.

    `only_steep`: nothing but functions that may be infinitely steep pay for asking.  The condition
    is that of a sum, which is all deselected rarely; or the value is one known number outside of
    it, as in `where(x == 0, 1, x)`, and so no product with NaN or infinity.  `key` is the condition
    of a `where`, and whether it holds where this does.
    """

    node: Callable[[], Node]
    only_steep: bool = False
    key: Key | None = None


class Selections:
    """Under which conditions the cotangents of one backward pass are not 0."""

    def __init__(self) -> None:
        self._conditions: dict[Node, Condition] = {}
        self._known: dict[Key, Node] = {}

    def passed(self, node: Node, g: Any, value: Any) -> Any:
        """The cotangent `value` of an input of `node`, which a rule has made of g: 0 where g is
        deselected, also where the rule gives NaN."""
        if value is g:
            return value
        own = None
        if value.primitive is logic.where:
            own = self._of_choice(node, value)
        elif value.primitive is arithmetic.multiply and value.inputs[1].primitive is logic.where:
            own = self._of_slope(node, value.inputs[1])
        condition = self._conditions.get(g)
        if condition is not None:
            if not _is_elementwise(node):
                condition = _moved(node, g, value, condition)
            elif not _is_harmless(node, g, value, condition.only_steep):
                value = logic.where(condition.node(), value, full_like(value, 0))
        if own is not None:
            condition = own if condition is None else _both(condition, own)
        if condition is not None:
            self._conditions[value] = condition
        return value

    def renamed(self, old: Node, new: Node) -> None:
        """`new` is `old` in another dtype."""
        if old in self._conditions:
            self._conditions[new] = self._conditions[old]

    def added(self, parts: list[Node], total: Node) -> None:
        """`total` is the sum of the parts: it is 0 where all of them are."""
        conditions = [one for part in parts if (one := self._conditions.get(part)) is not None]
        if conditions and len(conditions) == len(parts):
            condition = _any_of(conditions)
            if condition is not None:
                self._conditions[total] = condition

    def _of_choice(self, node: Node, value: Node) -> Condition | None:
        """Where the rule of a `where` has selected."""
        asked, first, second = value.inputs
        if _is_zero(first) == _is_zero(second):
            return None
        key = asked, _is_zero(second)
        return Condition(partial(self._made, key), _is_known(key, node.inputs), key)

    def _made(self, key: Key) -> Node:
        """The condition of a `where` or its opposite: one node, however often it is asked for."""
        if key not in self._known:
            self._known[key] = key[0] if key[1] else logic.logical_not(key[0])
        return self._known[key]

    def _of_slope(self, node: Node, slope: Node) -> Condition | None:
        """Where a partial that is chosen among numbers is not 0, as that of a maximum."""
        if not isinstance(node.primitive.derivative, Partials) or not _may_be_zero(slope):
            return None
        return Condition(cache(lambda: _nonzero(slope)))


def selected_tangent(parent: Node, slope: Any, dx: Any) -> Any:
    """The tangent slope dx; where the slope is 0 by a select (as that of a maximum that x does
    not win), 0 also beside a tangent that is not finite."""
    product = slope * dx
    if slope.primitive is not logic.where or not _may_be_zero(slope) or not _may_be_steep(parent):
        return product
    return logic.where(_nonzero(slope), product, full_like(product, 0))


def _may_be_steep(node: Node) -> bool:
    """Whether a value comes from an elementwise function by linear steps alone: then its tangent
    may be infinite where it is a number."""
    pending, seen = [node], {node}
    while pending:
        one = pending.pop()
        derivative = one.primitive.derivative
        if isinstance(derivative, (Partials, Explicit)):
            return True
        if isinstance(derivative, Linear):
            fresh = [x for x in one.inputs if x not in seen]
            seen.update(fresh)
            pending += fresh
    return False


def _is_known(key: Key, inputs: tuple[Node, ...]) -> bool:
    """Whether an input is one finite number outside of the condition."""
    asked, holds = key
    if asked.primitive is not (logic.not_equal if holds else logic.equal):
        return False
    x, y = asked.inputs
    return x in inputs and y.primitive is full and math.isfinite(y.param("value"))


def _is_zero(x: Node) -> bool:
    return x.primitive is full and x.param("value") == 0


def _may_be_zero(slope: Node) -> bool:
    """Whether the number 0 is among what is chosen."""
    _, x, y = slope.inputs
    return (
        _is_zero(x)
        or _is_zero(y)
        or any(one.primitive is logic.where and _may_be_zero(one) for one in (x, y))
    )


def _nonzero(x: Node) -> Node:
    """Where a value that is chosen among others, and these among others, is not the number 0."""
    condition, first, second = x.inputs
    match _truth(first), _truth(second):
        case True, False:
            return condition
        case False, False:
            return full_like(condition, False)
        case False, True:
            return logic.logical_not(condition)
        case True, Node() as there:
            return logic.logical_or(condition, there)
        case False, Node() as there:
            return logic.logical_and(logic.logical_not(condition), there)
        case Node() as here, True:
            return logic.logical_or(logic.logical_not(condition), here)
        case Node() as here, False:
            return logic.logical_and(condition, here)
        case here, there:
            assert isinstance(here, Node) and isinstance(there, Node)
            return logic.where(condition, here, there)


def _truth(x: Node) -> Node | bool:
    if x.primitive is logic.where and _may_be_zero(x):
        return _nonzero(x)
    return not _is_zero(x)


def _is_elementwise(node: Node) -> bool:
    primitive = node.primitive
    return isinstance(primitive.kernel, Map) or isinstance(primitive.derivative, Partials)


def _is_harmless(node: Node, g: Node, value: Node, only_steep: bool) -> bool:
    """Whether the rule multiplies by numbers that are finite whatever the program is given; where
    only steep functions matter, whether the operation is none."""
    derivative = node.primitive.derivative
    if isinstance(derivative, Linear):
        return True
    if only_steep and (isinstance(derivative, Multilinear) or any(map(_is_shifted, node.inputs))):
        return True
    if value.primitive not in (arithmetic.multiply, arithmetic.divide):
        return False
    if value.primitive is arithmetic.divide and not _is_nonzero(value.inputs[1]):
        return False
    return all(x is g or _is_a_number(x) for x in value.inputs)


def _is_shifted(x: Node) -> bool:
    """Whether a number is added, as eps is below a root so that it is nowhere steep."""
    return x.primitive is arithmetic.add and any(map(_is_a_number, x.inputs))


def _is_nonzero(x: Node) -> bool:
    """Whether nothing says that it is the number 0."""
    while x.primitive is broadcast_to:
        x = x.inputs[0]
    return not _is_zero(x)


def _is_a_number(x: Node) -> bool:
    """Whether it is made of constants and of Python numbers that the program was given."""
    while x.primitive is broadcast_to:
        x = x.inputs[0]
    if x.primitive is logic.where:
        return all(map(_is_a_number, x.inputs[1:]))
    if x.primitive is full:
        return math.isfinite(x.param("value"))
    if x.primitive is size_value:
        return True
    return x.primitive in (input_, constant) and not x.type.shape and x.type.weak


def _both(one: Condition, other: Condition) -> Condition:
    if one.key is not None and one.key == other.key:
        return other
    return Condition(cache(lambda: logic.logical_and(one.node(), other.node())))


def _any_of(conditions: list[Condition]) -> Condition | None:
    """The condition that one of these holds; None where that is always so, by what is known."""
    keys = {one.key for one in conditions if one.key is not None}
    if any((asked, not holds) in keys for asked, holds in keys):
        return None
    if len(set(conditions)) == 1:
        return conditions[0]

    def joined() -> Node:
        first, *others = dict.fromkeys(one.node() for one in conditions)
        for other in others:
            first = logic.logical_or(first, other)
        return first

    return Condition(cache(joined), any(one.only_steep for one in conditions))


def _moved(node: Node, g: Node, value: Node, condition: Condition) -> Condition | None:
    """The condition for an input of which elements are moved or added; None for other nodes.

    The rule's nodes between g and the value do the same to the condition.  Where they add, they
    add ones where it holds and zeros elsewhere: any number that is not 0 is selected.
    """
    if not isinstance(node.primitive.derivative, Linear):
        return None
    path: list[Node] = []
    one = value
    while one is not g:
        if not one.inputs or not isinstance(one.primitive.kernel, (Move, Fold, Gather)):
            return None
        path.append(one)
        one = one.inputs[0]
    only_moves = all(isinstance(one.primitive.kernel, Move) for one in path)

    def moved() -> Node:
        found = condition.node()
        if not only_moves:
            found = logic.where(found, full_like(g, 1), full_like(g, 0))
        for one in reversed(path):
            found = one.primitive(found, *one.inputs[1:], **dict(one.params))
        return found if only_moves else logic.not_equal(found, full_like(found, 0))

    return Condition(cache(moved), condition.only_steep or not only_moves)
