"""The best schedules of stages by dynamic programming: which keep what they save, and which run
forward again.

As Rotor does for chains (Beaumont and others, arXiv 1911.13214), with several ways to keep less
than all that a stage saves, as Rockmate has them (Zhao and others, ICML 2023).  Stages that are
alike, as the layers of a network are, are solved once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chainrule.plan.recomputation.keepings import Keeping, keepings
from chainrule.plan.recomputation.stages import Stage

LEVELS, MOST_LEVELS = 192, 512  # of memory: about, and where stages hand on little
COARSE = 4  # levels

EVERY = slice(None)

Array = np.ndarray


@dataclass(frozen=True)
class Forward:
    """A stage runs forward, and then only these of its values are there."""

    stage: int
    kept: frozenset[int]


@dataclass(frozen=True)
class Dropped:
    """No value of a stage is there any more."""

    stage: int


@dataclass(frozen=True)
class Backward:
    """A stage runs backward."""

    stage: int


Event = Forward | Dropped | Backward


class _Ways(NamedTuple):
    """The keepings of a stage, a row for each: the units that one takes, those that are left of
    each number of units, those that are in use on the way forward, and what it costs, where all
    values are computed for the first time, and later."""

    units: Array
    left: Array
    forward: Array
    first: Array
    later: Array


class StageTable:
    """For stages s to t, the least cost of what is computed again, for each number of units of
    memory: from the way forward of s to its way back.

    What stage s - 1 hands on is there, and does not count; what comes back to stage t counts.  If
    it is `held`, what stage t hands on is there, and counts, until its way back.  Units are rounded
    up, and bytes that small values add are not: a schedule may need a little more or less.
    """

    def __init__(self, stages: Sequence[Stage], budget: int) -> None:
        self.stages, self.budget, self.last = stages, budget, len(stages) - 1
        insides = [one.inside for one in stages]
        handed = [sum(one.nbytes[v] for v in one.handed) for one in insides]
        least = min(filter(None, handed), default=1)  # of which the others often are multiples
        parts = max(1, round(least * LEVELS / budget))
        self.unit = max(-(-least // parts), -(-budget // MOST_LEVELS))
        self.step = max(least // 2, self.unit)  # bytes less for which there may be another schedule
        self.levels = budget // self.unit + 1
        self.handed = np.array([0, *map(self._units, handed)])
        self.walk = np.array([self._units(one.forward_nbytes(one.handed)) for one in insides])
        self.again = [self._units(one.forward_nbytes(one.saved)) for one in insides]
        costs = [one.again(one.handed, frozenset()) for one in insides]
        self.until = np.cumsum([0, *costs])  # cost of the way forward of those before each stage
        self.alone = [
            [one.again(one.saved, there) for there in (frozenset(), one.handed)] for one in insides
        ]
        self.numbers = np.arange(self.levels)
        self.keepings = [keepings(one) for one in insides]
        made = {one: self._ways(one) for one in dict.fromkeys(self.keepings)}
        self.ways = [made[one] for one in self.keepings]
        self.gradient = [self._coarse_units(one.gradient_nbytes) for one in stages]
        self.back = [self._coarse_units(one.backward_nbytes) for one in stages]
        count = len(stages)
        self.run = np.zeros((count, count), int)  # the number of each run; like ones have the same
        self.costs = np.empty((1, 2, self.levels))  # of each run: held or not, and the units
        self.beside = np.empty((1, 2, self.levels))  # the same beside what is handed on to it
        self._fill()

    def _units(self, nbytes: int) -> int:
        return -(-nbytes // self.unit)

    def _coarse_units(self, nbytes: int) -> int:
        """About so many, so that stages are alike between which small values come together."""
        return COARSE * round(nbytes / (COARSE * self.unit))

    def _ways(self, found: Sequence[Keeping]) -> _Ways:
        units = np.array([[self._units(one.nbytes)] for one in found])
        return _Ways(
            units,
            left=np.maximum(self.numbers - units, 0),
            forward=np.array([[self._units(one.forward_nbytes)] for one in found]),
            first=np.array([[one.extra] for one in found]),
            later=np.array([[one.extra + one.cost] for one in found]),
        )

    def _fill(self) -> None:
        numbers: dict[object, int] = {}
        each = zip(self.gradient, self.back, self.stages, strict=True)
        kind = [numbers.setdefault((*both, one.inside), len(numbers)) for *both, one in each]
        known: dict[tuple[int, ...], int] = {}
        for span in range(len(kind)):
            for s in range(len(kind) - span):
                t = s + span
                parts = (self.run[s, t - 1], self.run[s + 1, t]) if span else ()
                key = (*parts, kind[s], self.handed[s], t == self.last)
                if key not in known:
                    known[key] = self._solve(len(known), s, t)
                self.run[s, t] = known[key]

    def _solve(self, number: int, s: int, t: int) -> int:
        if number == len(self.costs):
            self.costs = np.concatenate([self.costs, np.empty_like(self.costs)])
            self.beside = np.concatenate([self.beside, np.empty_like(self.beside)])
        if s == t:
            least = np.stack([self._alone(s, held) for held in (0, 1)])
        else:
            kept = [self._keeping(s, t, held).min(axis=0) for held in (0, 1)]
            least = np.minimum(kept, [self._running_again(s, t, held) for held in (0, 1)])
        self.costs[number] = least
        handed = min(self.handed[s], self.levels)
        self.beside[number, :, :handed] = np.inf
        self.beside[number, :, handed:] = least[:, : self.levels - handed]
        return number

    def _alone(self, s: int, held: int) -> Array:
        """A stage runs backward; before, it runs forward if it has to."""
        cost = 0 if s == self.last else self.alone[s][held]
        runs = cost > 0 or s == self.last
        need = max(self.back[s], self.gradient[s] + self.again[s] if runs else 0)
        return np.where(self.numbers < need, np.inf, float(cost))

    def _keeping(self, s: int, t: int, held: int, at: slice = EVERY) -> Array:
        """Stage s keeps some values until it runs backward: a row for each of its keepings."""
        ways, rest = self.ways[s], self.costs[self.run[s + 1, t], held]
        there = self.gradient[t] + held * self.handed[t + 1]
        need = np.maximum(self.back[s], there + ways.forward)
        more = ways.later if t < self.last else ways.first
        costs = rest[ways.left[:, at]] + more
        costs[self.numbers[at] < np.maximum(need, ways.units)] = np.inf
        return costs

    def _running_again(self, s: int, t: int, held: int) -> Array:
        """Stages s to j run forward, for some j before t, and only what j hands on is kept: until
        j + 1 has run backward, or until j has."""
        walked, needs = self._walks(s, t, held)
        behind = self.beside[self.run[s + 1 : t + 1, t], held] + walked[:, None]
        behind[self.numbers < needs[:, None]] = np.inf
        before = self.costs[self.run[s, s:t]].min(axis=1)
        return (before + behind).min(axis=0)

    def _walks(self, s: int, t: int, held: int) -> tuple[Array, Array]:
        """For each j, the cost of running stages s to j forward again, and what that needs."""
        first = t == self.last
        walked = np.zeros(t - s) if first else self.until[s + 1 : t + 1] - self.until[s]
        needs = self.walk[s:t] + self.handed[s:t]
        needs[0] = self.walk[s]
        needs = np.maximum.accumulate(needs)
        return walked, needs + (self.gradient[t] + held * self.handed[t + 1])

    def schedule(self, budget: int) -> Iterator[Event] | None:
        """What happens in the best schedule within a budget, at most that of the table; None where
        there is none."""
        units = budget // self.unit
        least = self.costs[self.run[0, self.last], 0, units]
        return self._events(units) if least < np.inf else None

    def _events(self, units: int) -> Iterator[Event]:
        pending = [(0, self.last, 0, units)]
        while pending:
            s, t, held, units = pending.pop()
            if s == t:
                yield Backward(s)
                continue
            least = self.costs[self.run[s, t], held, units]
            costs = self._keeping(s, t, held, slice(units, units + 1))
            found = np.flatnonzero(costs == least)
            if len(found):
                kept = self.keepings[s][found[0]]
                yield Forward(s, self.stages[s].nodes(kept.values))
                pending.append((s, s, 0, units))
                pending.append((s + 1, t, held, units - self._units(kept.nbytes)))
                continue
            j, stays = self._last_walked(s, t, held, units)
            for one in range(s, j + 1):
                yield Forward(one, self.stages[one].nodes(self.stages[one].inside.handed))
                if one > s:
                    yield Dropped(one - 1)
            pending.append((s, j, stays, units))
            pending.append((j + 1, t, held, units - self.handed[j + 1]))

    def _last_walked(self, s: int, t: int, held: int, units: int) -> tuple[int, int]:
        """The best j of `_running_again`, and whether what it hands on stays until it has run
        backward."""
        walked, needs = self._walks(s, t, held)
        behind = self.beside[self.run[s + 1 : t + 1, t], held, units] + walked
        behind[needs > units] = np.inf
        costs = self.costs[self.run[s, s:t], :, units] + behind[:, None]
        at, stays = divmod(int(costs.argmin()), 2)
        return s + at, stays
