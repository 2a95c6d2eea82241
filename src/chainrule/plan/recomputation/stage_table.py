"""The best schedules of stages by dynamic programming: which keep what they save, and which run
forward again.

As Rotor does for chains (Beaumont and others, arXiv 1911.13214), with several ways to keep less
than all that a stage saves, as Rockmate has them (Zhao and others, ICML 2023).  Stages that are
alike, as the layers of a network are, are solved once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chainrule.plan.recomputation.keepings import Keeping, keepings
from chainrule.plan.recomputation.stages import Stage

LEVELS, MOST_LEVELS = 192, 512  # of memory: about, and where stages hand on little
COARSE = 4  # levels

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
        self.handed = [0, *map(self._units, handed)]
        self.walk = [self._units(one.forward_nbytes(one.handed)) for one in insides]
        self.again = [self._units(one.forward_nbytes(one.saved)) for one in insides]
        self.cost = [one.again(one.handed, frozenset()) for one in insides]
        self.alone = [
            [one.again(one.saved, there) for there in (frozenset(), one.handed)] for one in insides
        ]
        self.keepings = [keepings(one) for one in insides]
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
        for held in (0, 1):
            if s == t:
                least = self._alone(s, held)
            else:
                kept = [costs for _, costs in self._keeping(s, t, held)]
                least = np.minimum.reduce([*kept, self._running_again(s, t, held)])
            self.costs[number, held] = least
            self.beside[number, held] = self._shifted(least, self.handed[s])
        return number

    def _alone(self, s: int, held: int) -> Array:
        """A stage runs backward; before, it runs forward if it has to."""
        cost = 0 if s == self.last else self.alone[s][held]
        runs = cost > 0 or s == self.last
        need = max(self.back[s], self.gradient[s] + self.again[s] if runs else 0)
        return self._from(np.full(self.levels, float(cost)), need)

    def _keeping(self, s: int, t: int, held: int) -> Iterator[tuple[Keeping, Array]]:
        """Stage s keeps some values until it runs backward."""
        rest = self.costs[self.run[s + 1, t], held]
        there = self.gradient[t] + held * self.handed[t + 1]
        for one in self.keepings[s]:
            need = max(self.back[s], there + self._units(one.forward_nbytes))
            cost = one.extra + (one.cost if t < self.last else 0)  # the first time all are computed
            yield one, self._from(self._shifted(rest, self._units(one.nbytes)) + cost, need)

    def _running_again(self, s: int, t: int, held: int) -> Array:
        """Stages s to j run forward, for some j before t, and only what j hands on is kept: until
        j + 1 has run backward, or until j has."""
        walked, needs = self._walks(s, t, held)
        behind = self.beside[self.run[s + 1 : t + 1, t], held] + walked[:, None]
        behind[np.arange(self.levels) < needs[:, None]] = np.inf
        return (self.costs[self.run[s, s:t]] + behind[:, None]).min(axis=(0, 1))

    def _walks(self, s: int, t: int, held: int) -> tuple[Array, Array]:
        """For each j, the cost of running stages s to j forward again, and what that needs."""
        cuts, first = range(s, t), t == self.last
        walked = np.cumsum([0 if first else self.cost[j] for j in cuts], dtype=float)
        needs = np.maximum.accumulate([self.walk[j] + (j > s) * self.handed[j] for j in cuts])
        return walked, needs + (self.gradient[t] + held * self.handed[t + 1])

    def _shifted(self, costs: Array, units: int) -> Array:
        """The costs if so many units are taken by something else."""
        found = np.full(self.levels, np.inf)
        if units < self.levels:
            found[units:] = costs[: self.levels - units]
        return found

    def _from(self, costs: Array, need: int) -> Array:
        """The costs where there are as many units as are needed."""
        costs[:need] = np.inf
        return costs

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
            ways = self._keeping(s, t, held)
            kept = next((one for one, costs in ways if costs[units] == least), None)
            if kept is not None:
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
