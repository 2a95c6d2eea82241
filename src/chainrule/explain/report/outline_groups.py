"""The nested scopes of the page: calls of functions, repetitions and their turns, stretches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from chainrule.explain.drawing.outline import Branch, Structure, branches, repeats, units_in
from chainrule.explain.drawing.units import Unit, Units

MOST_INSIDE = 40  # boxes of a scope; where there would be more, they are in stretches


class Kind(StrEnum):
    """What a scope stands for."""

    WHOLE = "whole"  # the pass itself
    CALL = "call"  # of a user's function
    REPEAT = "repeat"  # equal stretches that follow each other, its turns
    TURN = "turn"
    STRETCH = "stretch"  # of a long program
    PARAMETERS = "parameters"  # which the same operators read


@dataclass(eq=False)
class PageScope:
    """A contiguous part of a pass.  `elements` are its units and the scopes inside, in order.

    `place` says which of how many turns it is, or of a stretch its first and last element and of
    how many, counted from 1; `path` is that of a call.
    """

    key: str
    kind: Kind
    title: str = ""
    count: int = 1
    place: tuple[int, ...] = ()
    path: str = ""
    elements: list[Element] = field(default_factory=list)

    @property
    def inner(self) -> Iterator[PageScope]:
        """The scopes directly inside."""
        return (one for one in self.elements if isinstance(one, PageScope))


Element = Unit | PageScope
Boxes = Mapping[Unit, int]


def page_scopes(units: Units, members: Sequence[Unit], name: str, boxes: Boxes) -> PageScope:
    """The scope of a whole pass; `boxes` says how many boxes each of its units needs."""
    tree = branches(members, name)
    structure = Structure(units, tree)
    found: dict[Branch, PageScope] = {}
    for branch in reversed(tree):  # the calls inside come after the one that they are in
        scope = PageScope(branch.key, Kind.WHOLE)
        if branch.scope is not None:
            scope = PageScope(branch.key, Kind.CALL, branch.title, path=branch.scope.path)
        inside = [found[one] if isinstance(one, Branch) else one for one in branch.elements]
        inside = _with_repeats(branch, inside, structure, boxes)
        scope.elements = _in_stretches(branch.key, inside, boxes)
        found[branch] = scope
    return found[tree[0]]


def scopes_in(scope: PageScope) -> list[PageScope]:
    """A scope and all inside, outer ones first, in order."""
    found, stack = [], [scope]
    while stack:
        one = stack.pop()
        found.append(one)
        stack += reversed([*one.inner])
    return found


def _with_repeats(
    branch: Branch, elements: list[Element], structure: Structure, boxes: Boxes
) -> list[Element]:
    """The elements of a branch, where some repeat as one scope."""
    inside = [tuple(units_in(one)) for one in branch.elements]
    numbers = [structure.of(one) for one in branch.elements]
    for one in reversed(repeats(numbers, [len(units) for units in inside])):
        after = one.start + one.period * one.count
        starts = range(one.start, after, one.period)
        turns = [[u for units in inside[at : at + one.period] for u in units] for at in starts]
        if structure.is_regular(turns):
            first = elements[one.start : starts[1]]
            calls = [call.title for call in first if isinstance(call, PageScope)]
            repeat = PageScope(f"{branch.key} from {one.start}", Kind.REPEAT)
            repeat.title, repeat.count = ", ".join(dict.fromkeys(calls)), one.count
            parts = [elements[at : at + one.period] for at in starts]
            repeat.elements = _in_stretches(repeat.key, _turns(repeat, parts, boxes), boxes)
            elements[one.start : after] = [repeat]
    return elements


def _turns(repeat: PageScope, parts: list[list[Element]], boxes: Boxes) -> list[Element]:
    """A scope for each turn; what is a single call is one already, a single unit stays one."""
    turns: list[Element] = []
    for number, part in enumerate(parts, 1):
        turn = part[0]
        if len(part) > 1:
            turn = PageScope(f"{repeat.key} turn {number}", Kind.TURN, repeat.title)
            turn.elements = _in_stretches(turn.key, part, boxes)
        if isinstance(turn, PageScope):
            turn.place = number, repeat.count
        turns.append(turn)
    return turns


def _in_stretches(key: str, elements: list[Element], boxes: Boxes) -> list[Element]:
    """The elements; where they need too many boxes, in scopes of about as many boxes each.

    Stretches are nested so that all levels are about as wide.
    """
    weights = [1 if isinstance(one, PageScope) else boxes[one] for one in elements]
    count = min(-(-sum(weights) // MOST_INSIDE), len(elements))
    if count < 2:
        return elements
    levels = 1
    while MOST_INSIDE**levels < count:
        levels += 1
    width = round(count ** (1 / levels)) or 1
    found = _cut(key, [(one, at, at) for at, one in enumerate(elements, 1)], weights, count)
    while len(found) > MOST_INSIDE:
        found = _cut(key, found, [1] * len(found), -(-len(found) // width))
    return [one for one, _, _ in found]


Placed = tuple[Element, int, int]  # with the places of its first and its last element


def _cut(key: str, parts: list[Placed], weights: list[int], count: int) -> list[Placed]:
    """Parts in `count` stretches of about equal weight, none empty."""
    total, last = sum(weights), parts[-1][2]
    found: list[Placed] = []
    inside: list[Placed] = []
    done = 0
    for place, (part, weight) in enumerate(zip(parts, weights, strict=True), 1):
        inside.append(part)
        done += weight
        left = count - len(found) - 1
        is_full = done * count >= total * (len(found) + 1)
        if place == len(parts) or (left and (is_full or len(parts) - place == left)):
            span = inside[0][1], inside[-1][2]
            scope = PageScope(f"{key} part {span[0]}-{span[1]}", Kind.STRETCH, place=(*span, last))
            scope.elements = [one for one, _, _ in inside]
            found.append((scope, *span))
            inside = []
    return found
