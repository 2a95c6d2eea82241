"""Makes, moves and joins the conditions under which derivatives are not 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from chainrule.graph.node import Node
from chainrule.primitives import logic
from chainrule.primitives.cumulative import cumsum, recurrence
from chainrule.primitives.families import BOOL
from chainrule.primitives.primitive import MOVING, Fold, Gather, Map
from chainrule.primitives.sources import full_like, uniform

Key = tuple[Node, bool]


class Condition:
    """Outside of it a derivative is 0.  It is `make(*given)`, whose nodes are made when they are
    needed, once; or that of a `where`, or its opposite, if there is a `key`: the condition, and
    whether it holds where this does.

    `only_steep`: nothing but functions that may be infinitely steep pay for asking.  The condition
    is that of a sum, which is all deselected rarely; or the value is a number outside of it, as in
    forward mode, and so no product with NaN or infinity.  `cheap` is what of it others ask, too.
    """

    __slots__ = ("_made", "cheap", "given", "key", "make", "only_steep")

    def __init__(
        self,
        make: Callable[..., Node],
        given: tuple = (),
        only_steep: bool = False,
        key: Key | None = None,
    ) -> None:
        self.make = make
        self.given = given
        self.only_steep = only_steep
        self.cheap: Condition | None = None if only_steep else self
        self.key = key
        self._made: Node | None = None

    def node(self) -> Node:
        """Booleans of the shape of the derivative."""
        if self._made is None:
            self._made = self.make(*self.given)
        return self._made

    def parts(self) -> list[Condition]:
        """The conditions of which it is made by `both`; itself if there are none."""
        if self.make is not _all_hold:
            return [self]
        return [part for one in self.given for part in one.parts()]

    def select(self, value: Node) -> Node:
        """The value, and 0 where the condition does not hold."""
        if self.key is not None and not self.key[1]:
            return logic.where(self.key[0], full_like(value, 0), value)
        return logic.where(self.node(), value, full_like(value, 0))


def of_where(key: Key, only_steep: bool) -> Condition:
    """The condition of a `where`, or its opposite."""
    asked, holds = key
    return Condition(_itself if holds else logic.logical_not, (asked,), only_steep, key)


def _itself(asked: Node) -> Node:
    return asked


def everywhere(g: Node) -> Condition:
    """The condition of a derivative that is nowhere 0, as far as is known."""
    return Condition(uniform, (True, BOOL, g.shape), True)


def both(one: Condition | None, other: Condition | None) -> Condition | None:
    """The condition that those hold which there are."""
    if one is None or other is None:
        return other if one is None else one
    if one.key is not None and one.key == other.key:
        return other
    found = Condition(_all_hold, (one, other), one.only_steep and other.only_steep)
    if one.only_steep or other.only_steep:
        found.cheap = one.cheap or other.cheap
    elif one.cheap is not one or other.cheap is not other:
        found.cheap = both(one.cheap, other.cheap)
    return found


def _all_hold(one: Condition, other: Condition) -> Node:
    return logic.logical_and(one.node(), other.node())


def leaving(
    within: Condition | None, outside: Mapping[Condition, Condition], made: Callable[[], Node]
) -> Condition | None:
    """The condition, around a loop or a choice, of what has the condition `within` in its body:
    those that are known `outside` for the parts of `within`, or what the body is `made` to give."""
    if within is None:
        return None
    parts = within.parts()
    if all([one in outside for one in parts]):
        return reduce(both, [outside[one] for one in parts])
    return Condition(made, (), all([one.only_steep or one not in outside for one in parts]))


def any_of(conditions: Sequence[Condition]) -> Condition | None:
    """The condition that one of these holds; None where that is always so, by what is known."""
    different = {one.key or one: one for one in conditions}
    if len(different) == 1:
        return conditions[0]
    if any([one.key and (one.key[0], not one.key[1]) in different for one in conditions]):
        return None
    only_steep = any([one.only_steep for one in conditions])
    found = Condition(_one_holds, tuple(different.values()), only_steep)
    cheap = [one.cheap for one in conditions if one.cheap is not None]
    if not only_steep and cheap != conditions:
        found.cheap = any_of(cheap) if len(cheap) == len(conditions) else None
    return found


def _one_holds(*conditions: Condition) -> Node:
    first, *others = dict.fromkeys([one.node() for one in conditions])
    for other in others:
        first = logic.logical_or(first, other)
    return first


def chosen(asked: Node, first: Condition, second: Condition) -> Condition:
    """The first condition where `asked` holds, elsewhere the second."""

    def made() -> Node:
        return logic.where(asked, first.node(), second.node())

    return Condition(made, (), first.only_steep and second.only_steep)


def concatenated(node: Node, parts: Sequence[Condition | bool]) -> Condition:
    """Of a node that joins pieces: those of the pieces, or whether they are selected at all."""

    def made() -> Node:
        found = [
            one.node() if isinstance(one, Condition) else uniform(one, BOOL, like.shape)
            for one, like in zip(parts, node.inputs, strict=True)
        ]
        return node.primitive(*found, **dict(node.params))

    return Condition(made, (), True)


def moved(g: Node, value: Node, condition: Condition) -> Condition | None:
    """The condition for a value of which the elements are those of g, moved, added or multiplied.

    The nodes between g and the value do the same to the condition.  Where they add, they add ones
    where it holds and zeros elsewhere: any number that is not 0 is selected.  None where a node
    mixes elements another way.
    """
    path: list[Node] = []
    one, only_moves = value, True
    while one is not g:
        kernel, below = one.primitive.kernel, one.inputs
        runs = one.primitive is recurrence
        if isinstance(kernel, (Fold, Gather)) or runs or one.primitive is cumsum:
            only_moves = False
        elif not isinstance(kernel, (Map, *MOVING)):
            return None
        selects = one.primitive is logic.where
        if not isinstance(kernel, Map) or (selects and one is not value):
            path.append(one)
        if not below:
            return None
        one = below[1] if selects or runs else below[0]
    if not path:
        return condition

    def made() -> Node:
        found = condition.node()
        if not only_moves:
            like = path[-1].inputs[0]
            found = logic.where(found, full_like(like, 1), full_like(like, 0))
        for one in reversed(path):
            if one.primitive is logic.where:
                found = logic.where(one.inputs[0], found, full_like(found, 0))
            elif one.primitive is recurrence:  # its terms reach all places that follow
                found = cumsum(found, **dict(one.params))
            else:
                found = one.primitive(found, *one.inputs[1:], **dict(one.params))
        return found if only_moves else logic.not_equal(found, full_like(found, 0))

    found = Condition(made, (), condition.only_steep or not only_moves)
    if not found.only_steep and condition.cheap is not condition:
        found.cheap = None if condition.cheap is None else moved(g, value, condition.cheap)
    return found
