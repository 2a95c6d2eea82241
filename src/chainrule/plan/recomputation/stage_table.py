"""The best schedules of stages by dynamic programming: which keep what they save, and which run
forward again.

As Rotor does for chains (Beaumont and others, arXiv 1911.13214), with several ways to keep less
than all that a stage saves, as Rockmate has them (Zhao and others, ICML 2023).  Stages that are
alike, as the layers of a network are, are solved once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.plan.recomputation.keepings import Keeping, keepings
from chainrule.plan.recomputation.stages import Stage

LEVELS, MOST_LEVELS = 192, 512  # of memory: about, and where stages hand on little
COARSE = 4  # levels

EVERY = slice(None)

Array = np.ndarray


@dataclass(frozen=True)
class Kept:
    """A stage runs forward, and then only the values of this one of its keepings are there."""

    stage: int
    keeping: int


@dataclass(frozen=True)
class Walked:
    """Stages run forward one after another, and then only what the last one hands on is there; if
    it `stays`, until that stage has run backward."""

    first: int
    last: int
    stays: int


@dataclass(frozen=True)
class Backward:
    """A stage runs backward."""

    stage: int


Event = Kept | Walked | Backward


class _Way(NamedTuple):
    """A keeping: the units that it takes, those in use on the way forward, and what it costs where
    all values are computed for the first time, and later."""

    units: int
    forward: int
    first: int
    later: int


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
        handed = [one.handed_nbytes for one in insides]
        least = min(filter(None, handed), default=1)  # of which the others often are multiples
        parts = max(1, round(least * LEVELS / budget))
        self.unit = max(-(-least // parts), -(-budget // MOST_LEVELS))
        self.step = max(least // 2, self.unit)  # bytes less for which there may be another schedule
        self.levels = budget // self.unit + 1
        self.handed = np.array([0, *map(self._units, handed)])
        walking, saving = [one.walking for one in insides], [one.saving for one in insides]
        self.walk = np.array([self._units(nbytes) for _, nbytes in walking])
        # the cost of the way forward of those before each stage
        self.until = np.cumsum([0, *(cost for cost, _ in walking)])
        self.again = [self._units(nbytes) for _, nbytes in saving]
        self.alone = [costs for costs, _ in saving]
        self.numbers = np.arange(self.levels)
        self.keepings = [keepings(one) for one in insides]
        made = {one: self._ways(one) for one in dict.fromkeys(self.keepings)}
        self.ways = [made[one] for one in self.keepings]
        self.gradient = [self._coarse_units(one.gradient_nbytes) for one in stages]
        self.back = [self._coarse_units(one.backward_nbytes) for one in stages]
        count = len(stages)
        self.run = np.zeros((count, count), int)  # the number of each run; like ones have the same
        room = 4 * count  # for all runs, where some are alike
        self.costs = np.empty((room, 2, self.levels))  # of each run: held or not, and the units
        self.beside = np.empty((room, 2, self.levels))  # the same beside what is handed on to it
        self.either = np.empty((room, self.levels))  # the less of both
        self.first = np.empty((room, 2), int)  # the units of which there must be as many, or more
        # Of each run, held, and units: the keeping of stage s, or None, and what is walked else.
        self.chosen: dict[tuple[int, int, int], tuple[int | None, int, int]] = {}
        self._fill()

    def _units(self, nbytes: int) -> int:
        return -(-nbytes // self.unit)

    def _coarse_units(self, nbytes: int) -> int:
        """About so many, so that stages are alike between which small values come together."""
        return COARSE * round(nbytes / (COARSE * self.unit))

    def _ways(self, found: Sequence[Keeping]) -> list[_Way]:
        return [
            _Way(self._units(one.nbytes), self._units(one.forward_nbytes), one.extra, later)
            for one in found
            for later in (one.extra + one.cost,)
        ]

    def _fill(self) -> None:
        numbers: dict[object, int] = {}
        each = zip(self.gradient, self.back, self.stages, strict=True)
        kind = [numbers.setdefault((*both, one.inside), len(numbers)) for *both, one in each]
        known: dict[tuple[int, ...], int] = {}
        handed = self.handed.tolist()
        before: list[int] = []  # the numbers of the runs that are a stage shorter
        for span in range(len(kind)):
            found: list[int] = []
            for s in range(len(kind) - span):
                t = s + span
                key = (*before[s : s + 2], kind[s], handed[s], t == self.last)
                if key not in known:
                    known[key] = self._solve(len(known), s, t)
                self.run[s, t] = number = known[key]
                found.append(number)
            before = found

    def _solve(self, number: int, s: int, t: int) -> int:
        if number == len(self.costs):
            self.costs, self.beside = _twice(self.costs), _twice(self.beside)
            self.either, self.first = _twice(self.either), _twice(self.first)
        if s == t:
            least = np.stack([self._alone(s, held) for held in (0, 1)])
        else:
            least = np.minimum(self._keeping(s, t), self._running_again(s, t))
        self.costs[number], self.either[number] = least, least.min(axis=0)
        self.first[number] = (least == np.inf).sum(axis=1)
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

    def _kept(self, s: int, t: int, held: int) -> Iterator[tuple[int, int, int]]:
        """For each keeping of stage s, the units that it takes, those that there must be, and what
        it costs: s keeps some values until it runs backward."""
        there = self.gradient[t] + held * self.handed[t + 1]
        for one in self.ways[s]:
            need = max(self.back[s], there + one.forward, one.units)
            yield one.units, need, one.first if t == self.last else one.later

    def _keeping(self, s: int, t: int) -> Array:
        """The costs where stage s keeps some values."""
        found, rest = np.full((2, self.levels), np.inf), self.costs[self.run[s + 1, t]]
        for held in (0, 1):
            for units, need, cost in self._kept(s, t, held):
                if need < self.levels:
                    part = found[held, need:]
                    behind = rest[held, need - units : self.levels - units]
                    np.minimum(part, behind + cost, out=part)
        return found

    def _running_again(self, s: int, t: int) -> Array:
        """Stages s to j run forward, for some j before t, and only what j hands on is kept: until
        j + 1 has run backward, or until j has."""
        before, behind = self.run[s, s:t], self.run[s + 1 : t + 1, t]
        costs, walked = self.beside[behind], self.either[before]
        walked += self._walked(s, t)[:, None]
        costs += walked[:, None]
        # of the costs, the first are infinite as it is: there are few others
        infinite = np.maximum(self.first[behind].T, self.first[before].min(axis=1))
        needs = self._needs(s, t)
        if (others := needs > infinite).any():
            for held, j in np.argwhere(others).tolist():
                costs[j, held, : needs[held, j]] = np.inf
        return costs.min(axis=0)

    def _walked(self, s: int, t: int) -> Array:
        """For each j from s to before t, the cost of running stages s to j forward again."""
        return np.zeros(t - s) if t == self.last else self.until[s + 1 : t + 1] - self.until[s]

    def _needs(self, s: int, t: int) -> Array:
        """The units that this needs: a row for each `held`."""
        needs = self.walk[s:t] + self.handed[s:t]
        needs[0] = self.walk[s]
        there = np.array([[self.gradient[t]], [self.gradient[t] + self.handed[t + 1]]])
        return np.maximum.accumulate(needs) + there

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
            key = self.run[s, t], held, units
            if key not in self.chosen:
                self.chosen[key] = self._choice(s, t, held, units)
            keeping, walked, stays = self.chosen[key]
            if keeping is not None:
                yield Kept(s, keeping)
                pending.append((s, s, 0, units))
                pending.append((s + 1, t, held, units - self.ways[s][keeping].units))
            else:
                j = s + walked
                yield Walked(s, j, stays)
                pending.append((s, j, stays, units))
                pending.append((j + 1, t, held, units - self.handed[j + 1]))

    def _choice(self, s: int, t: int, held: int, units: int) -> tuple[int | None, int, int]:
        """The first keeping of stage s that costs least; if it is none of them, how many stages are
        walked behind s, and whether what the last of them hands on stays."""
        least, rest = self.costs[self.run[s, t], held, units], self.costs[self.run[s + 1, t], held]
        for number, (taken, need, cost) in enumerate(self._kept(s, t, held)):
            if units >= need and rest[units - taken] + cost == least:
                return number, 0, 0
        behind = self.beside[self.run[s + 1 : t + 1, t], held, units] + self._walked(s, t)
        behind[self._needs(s, t)[held] > units] = np.inf
        costs = self.costs[self.run[s, s:t], :, units] + behind[:, None]
        return None, *divmod(int(costs.argmin()), 2)


def _twice(array: Array) -> Array:
    """With room for as much again."""
    return np.concatenate([array, np.empty_like(array)])
