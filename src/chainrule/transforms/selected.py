"""Masks derivatives behind selects: they stay 0 beside NaN and infinity.

`np.where(x > 0, np.log(x), 0)` gives log the cotangent `where(x > 0, g, 0)`.  Times 1/x it is NaN
at x = 0, though the value never came from there.  So the same select follows each elementwise rule.
In forward mode the tangent of `np.where(x > 0, x, 0)` is 0 where the root of that is infinitely
steep.  The slope 0 of a maximum is a select, too: it is one where the other factor may be infinite.
The condition is followed through sums, broadcasts and moves; it ends at products of matrices and at
linear algebra, where each element is made of many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from chainrule.graph.node import Node
from chainrule.primitives import arithmetic, logic
from chainrule.primitives.cumulative import recurrence
from chainrule.primitives.indexing import scatter_add
from chainrule.primitives.movement import broadcast_to, pad, reshape, transpose
from chainrule.primitives.primitive import Assemble, Explicit, Linear, Map, Partials
from chainrule.primitives.sources import constant, full, input_, size_value
from chainrule.transforms.choices import PRODUCTS
from chainrule.transforms.conditions import (
    Condition,
    Key,
    any_of,
    both,
    chosen,
    concatenated,
    everywhere,
    moved,
    of_where,
)
from chainrule.transforms.steadiness import is_data, is_steady
from chainrule.transforms.steepness import may_be_steep, may_divide

PLACING = (pad, scatter_add)  # among zeros: derivatives of what slices and indices read
EXTREMES = (arithmetic.maximum, arithmetic.minimum)
COMPARISONS = (logic.less, logic.less_equal, logic.greater, logic.greater_equal, logic.equal)


class Selections:
    """Under which conditions the derivatives of one pass are not 0, and which may be infinite.

    Of a backward pass these are cotangents; where `forward`, tangents.
    """

    def __init__(self, forward: bool = False) -> None:
        self._forward = forward
        self._conditions: dict[Node, Condition] = {}
        # Cotangents of values that are not NaN where these are deselected, as those of a relu.
        self._of_numbers: set[Node] = set()
        # Of derivatives that were divided by something, as far as this goes on: what they were
        # made of, by which node, and by what.  Asked only where a slope is 0 by a choice.
        self._divided: dict[Node, tuple[Sequence[Node], Node | None, Any]] = {}
        self._steep: dict[Node, bool] = {}
        self._steady: dict[Node, bool] = {}

    def of(self, g: Node) -> Condition | None:
        """The condition outside of which this derivative is 0, if one is known."""
        return self._conditions.get(g)

    def put(self, g: Node, condition: Condition | None) -> None:
        """This derivative is 0 outside of the condition, if there is one."""
        if condition is not None:
            self._conditions[g] = condition

    def passed(self, node: Node, index: int, g: Any, value: Any) -> Any:
        """What the rule of `node` for one input has made of g, the cotangent of the node or, in
        forward mode, the tangent of that input: 0 where g is deselected, also where the rule gives
        NaN."""
        if value is g:
            return value
        derivative = node.primitive.derivative
        kind = type(derivative)
        is_map = kind is Partials or isinstance(node.primitive.kernel, Map)
        if not is_map and kind is not Linear and kind is not Explicit:
            if node.primitive is not recurrence:
                self.follow((g,), value)
                return value
        slope = own = None
        chooses = False  # by comparing: what it leaves out is not NaN
        if isinstance(derivative, Partials):
            first, second = value.inputs
            slope = first if second is g else second
            rule = derivative.selected[index] if derivative.selected else None
            if rule is not None:
                own = Condition(rule, (node, *node.inputs), self._forward)
                chooses = node.primitive in EXTREMES
                # A tangent that is no steep one may have a derivative that is.
                if g in self._divided and (self._forward or self._is_steep(g)):
                    value = own.select(value)
        elif value.primitive is logic.where:
            own = self._of_choice(node, value)
            chooses = own is not None and _compares(own, node.inputs[-1])
        elif kind is Explicit and is_map:
            slope = node.inputs[-1]
        condition = self._conditions.get(g)
        of_numbers = chooses and (condition is None or condition.cheap is None)
        if g in self._of_numbers:
            if not is_map:
                of_numbers = value.primitive in (reshape, transpose)
            elif own is not None or kind is Partials:
                of_numbers = chooses or (own is None and len(node.inputs) == 1)
            else:
                of_numbers = True
        if condition is None and value.primitive in PLACING:
            condition = everywhere(g)
        if condition is not None:
            if not is_map:
                condition = moved(g, value, condition)
                if condition is not None and value.primitive in (arithmetic.multiply, recurrence):
                    value = condition.select(value)
            else:
                asked = None
                if kind is not Linear:
                    asked = self._that_asks(g, value, condition, node, slope)
                if asked is not None:
                    value = asked.select(value)
        if of_numbers:
            self._of_numbers.add(value)
        if condition is not None or own is not None:
            self.put(value, both(condition, own))
        if slope is not None and may_divide(node, slope):
            self._divided[value] = (g,), node, slope
        elif g in self._divided:
            self._divided[value] = (g,), None, None
        return value

    def joined(self, node: Node, tangents: list[Node | None], value: Any) -> Any:
        """The tangent of a linear node from those of its inputs (None for zero), in forward
        mode."""
        live = [dx for dx in tangents if dx is not None]
        joins = isinstance(node.primitive.kernel, Assemble) and len(tangents) > 1
        if len(live) == 1 and not joins:
            return self.passed(node, tangents.index(live[0]), live[0], value)
        found = [one for dx in live if (one := self._conditions.get(dx)) is not None]
        every = len(found) == len(live)
        if joins:
            if found or len(live) < len(tangents):
                parts = [dx is not None and (self._conditions.get(dx) or True) for dx in tangents]
                self.put(value, concatenated(node, parts))
        elif every and node.primitive is logic.where:
            self.put(value, chosen(node.inputs[0], *found))
        elif every and isinstance(node.primitive.kernel, Map):
            self.put(value, any_of(found))
        self.follow(live, value)
        return value

    def moved(self, old: Node, new: Node) -> None:
        """`new` is `old` in another dtype, or some of its elements in another shape."""
        if new is not old:
            condition = self._conditions.get(old)
            self.put(new, None if condition is None else moved(old, new, condition))
            self.follow((old,), new)

    def added(self, parts: list[Node], total: Node) -> None:
        """`total` is the sum of the parts: it is 0 where all of them are."""
        conditions = [one for part in parts if (one := self._conditions.get(part)) is not None]
        if conditions and len(conditions) == len(parts):
            self.put(total, any_of(conditions))
            if self._of_numbers.issuperset(parts):
                self._of_numbers.add(total)
        self.follow(parts, total)

    def follow(self, parts: Sequence[Node], whole: Node) -> None:
        """`whole` is made of the parts by adding or joining them: it is steep where they are."""
        if self._divided and not self._divided.keys().isdisjoint(parts):
            self._divided[whole] = parts, None, None

    def inherit(self, other: Selections, theirs: Sequence[Node], mine: Node) -> None:
        """`mine` is, on this side of the border of a body, one of `theirs`: it is steep if any of
        them may be."""
        if other._divided and not other._divided.keys().isdisjoint(theirs):
            self._divided[mine] = (), None, None
            self._steep[mine] = True

    def _that_asks(
        self, g: Node, value: Node, condition: Condition, node: Node, slope: Node | None
    ) -> Condition | None:
        """What `value`, which may be NaN where g is 0 by the condition, is selected by."""
        cheap = condition.cheap
        if cheap is not None and g in self._of_numbers and self._stays_zero(g, value):
            cheap = None
        if cheap is not condition and slope is not None and may_be_steep(node, slope):
            return condition
        return None if cheap is None or _is_harmless(g, value) else cheap

    def _stays_zero(self, g: Node, value: Node) -> bool:
        """Whether g is multiplied by nothing but steady values: 0 stays 0 where they are no NaN."""
        while value is not g:
            if value.primitive not in PRODUCTS:
                return False
            value, *factors = value.inputs if value.inputs[-1] is not g else value.inputs[::-1]
            for factor in factors:
                if is_data(factor) or not is_steady(factor, self._steady):
                    return False
        return True

    def _is_steep(self, g: Node) -> bool:
        """Whether a derivative may be infinite where all values are numbers."""
        pending, seen = [g], {g}
        while pending:
            one = pending.pop()
            if one not in self._divided or self._steep.get(one) is False:
                continue
            parts, node, slope = self._divided[one]
            if one in self._steep or (node is not None and may_be_steep(node, slope)):
                self._steep[g] = True
                return True
            pending += [part for part in parts if part not in seen]
            seen.update(parts)
        self._steep.update(dict.fromkeys(seen, False))
        return False

    def _of_choice(self, node: Node, value: Node) -> Condition | None:
        """Where the rule of a `where` has selected."""
        asked, first, second = value.inputs
        if _is_zero(first) == _is_zero(second):
            return None
        key = asked, _is_zero(second)
        return of_where(key, self._forward or _is_known(key, node.inputs))


def _compares(own: Condition, x: Node) -> bool:
    """Whether x is deselected by a comparison that it holds: it is not NaN there."""
    if own.key is None:
        return False
    asked, holds = own.key
    return not holds and asked.primitive in COMPARISONS and x in asked.inputs


def _is_known(key: Key, inputs: tuple[Node, ...]) -> bool:
    """Whether an input is one finite number outside of the condition."""
    asked, holds = key
    if asked.primitive is not (logic.not_equal if holds else logic.equal):
        return False
    x, y = asked.inputs
    return x in inputs and y.primitive is full and math.isfinite(y.param("value"))


def _is_zero(x: Node) -> bool:
    return x.primitive is full and x.param("value") == 0


def _is_harmless(g: Node, value: Node) -> bool:
    """Whether g is multiplied by numbers that are finite whatever the program is given."""
    if value.primitive is arithmetic.divide:
        x = value.inputs[1]
        while x.primitive is broadcast_to:
            x = x.inputs[0]
        if _is_zero(x):
            return False
    elif value.primitive is not arithmetic.multiply:
        return False
    return all(x is g or _is_a_number(x) for x in value.inputs)


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
