"""The units of a pass as a tree of the user's function calls, and stretches of it that repeat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np

from chainrule.dataclass import dataclass, field
from chainrule.explain.drawing.expressions import SILENT
from chainrule.explain.drawing.lanes import Lanes
from chainrule.explain.drawing.units import Unit, Units
from chainrule.explain.reading.statements import GENERATED
from chainrule.graph.origin import Scope

LONGEST_PERIOD = 64  # elements that are compared with as many before them
FEWEST_REPEATS, FEWEST_UNITS = 3, 6  # of a repetition that is worth a box of its own


@dataclass(eq=False)
class Branch:
    """A stretch of units made in one call of a function, with the calls inside it.

    The outermost one stands for the pass itself and has no scope.
    """

    scope: Scope | None
    key: str
    depth: int
    elements: list[Unit | Branch] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The function's name."""
        return stem(self.scope.name) if self.scope else ""


@dataclass(frozen=True)
class Repeat:
    """`count` equal stretches of `period` elements each, beginning at `start`."""

    start: int
    period: int
    count: int


def stem(name: str) -> str:
    """`block_3` is a call of `block`."""
    return re.sub(r"_\d+$", "", name)


def branches(units: Sequence[Unit], name: str, lanes: Lanes | None = None) -> list[Branch]:
    """The whole pass first, every call after the one that it is in.

    Lanes are around all calls, of depth 0; the units come lane by lane.
    """
    found = [Branch(None, name, 0)]
    open_branches = [found[0]]
    for unit in units:
        path = _user_scopes(unit)
        if lanes is not None:
            path.insert(0, lanes.scopes[lanes.lane(unit.nodes)])
        common = 0
        while (
            common < len(path)
            and common + 1 < len(open_branches)
            and open_branches[common + 1].scope is path[common]
        ):
            common += 1
        del open_branches[common + 1 :]
        for scope in path[common:]:
            depth = len(open_branches) - (lanes is not None)
            branch = Branch(scope, f"{name} {len(found)}", depth)
            open_branches[-1].elements.append(branch)
            open_branches.append(branch)
            found.append(branch)
        open_branches[-1].elements.append(unit)
    return found


def _user_scopes(unit: Unit) -> list[Scope]:
    """The calls of the user's functions in which the unit's value was made, outermost first."""
    outside_in = reversed(unit.value.origin.scopes)
    return list(takewhile(lambda scope: not scope.symbol, outside_in))


def units_in(element: Unit | Branch) -> Iterator[Unit]:
    """All units of an element, in order."""
    stack = [element]
    while stack:
        one = stack.pop()
        if isinstance(one, Branch):
            stack.extend(reversed(one.elements))
        else:
            yield one


class Structure:
    """What each element is like, as a number: equal numbers, equal operations (sizes aside)."""

    def __init__(self, units: Units, every: Sequence[Branch]) -> None:
        self.units = units
        self._numbers: dict[object, int] = {}
        self._of: dict[int, int] = {}
        self._place = {unit: index for index, unit in enumerate(units_in(every[0]))}
        for unit in self._place:
            self._of[id(unit)] = self._number(_operations(unit))
        for branch in reversed(every):
            inner = tuple(self._of[id(one)] for one in branch.elements)
            self._of[id(branch)] = self._number((branch.title, inner))

    def _number(self, signature: object) -> int:
        return self._numbers.setdefault(signature, len(self._numbers))

    def of(self, element: Unit | Branch) -> int:
        """The number of an element."""
        return self._of[id(element)]

    def is_regular(self, parts: Sequence[Sequence[Unit]]) -> bool:
        """Whether stretches of equal operations are also wired alike.

        Each of the second and later ones reads the same places of itself and of the one before;
        what else it reads is from before them all.
        """
        first, length = self._place[parts[0][0]], len(parts[0])
        return all(
            self._wiring(unit, first, start * length) == self._wiring(model, first, length)
            for start, part in enumerate(parts[2:], 2)
            for unit, model in zip(part, parts[1], strict=True)
        )

    def _wiring(self, unit: Unit, first: int, start: int) -> list[int | None]:
        """What a unit reads, counted from the stretch that begins `start` after the `first`."""
        found: list[int | None] = []
        for node in unit.reads:
            maker = self.units.owners.get(node, (None,))[0]
            place = self._place.get(maker, -1) if maker is not None else -1
            found.append(place - first - start if place >= first else None)
        return found


def _operations(unit: Unit) -> object:
    primitives = (node.primitive for node in unit.nodes if node.primitive not in GENERATED)
    return tuple(one for one in primitives if one.latex.form not in SILENT)


def repeats(numbers: Sequence[int], weights: Sequence[int]) -> list[Repeat]:
    """Stretches that follow themselves at least three times, from the left, the longest first.

    `weights` are the numbers of units of the elements.
    """
    total = len(numbers)
    periods, counts = _longest(np.asarray(numbers, dtype=np.int64))
    found: list[Repeat] = []
    start = 0
    while start < total:
        period, count = int(periods[start]), int(counts[start])
        if count < FEWEST_REPEATS:
            start += 1
            continue
        after = start + period * count
        if sum(weights[start:after]) >= FEWEST_UNITS:
            found.append(Repeat(start, period, count))
        start = after
    return found


def _longest(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each place, the period with which most of what follows repeats, and how often."""
    total = len(numbers)
    periods, counts = np.ones(total, dtype=np.int64), np.zeros(total, dtype=np.int64)
    places = np.arange(total)
    for period in range(1, min(LONGEST_PERIOD, total // FEWEST_REPEATS) + 1):
        differs = np.full(total, total - period)  # from each place, the next one that differs
        unequal = numbers[period:] != numbers[:-period]
        differs[: total - period][unequal] = places[: total - period][unequal]
        differs = np.minimum.accumulate(differs[::-1])[::-1]
        count = np.maximum(differs - places, 0) // period + 1
        better = (count >= FEWEST_REPEATS) & (count * period > counts * periods)
        periods[better], counts[better] = period, count[better]
    return periods, counts
