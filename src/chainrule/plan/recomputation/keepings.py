"""Which values a stage can keep from its way forward to its way back, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from functools import lru_cache

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.graph.cached import cached_property
from chainrule.plan.recomputation.problem import Numbers

MOST_KEEPINGS = 8
MOST_WORK = 30_000  # nodes looked at for all of them, or several values go at a time


@dataclass(frozen=True)
class Keeping:
    """Values of a stage that stay, with those that it hands on, until it has run backward.

    `nbytes` are theirs; `forward_nbytes` is what the stage has in use at most while it runs
    forward.  `cost` is that of computing them from what is handed on to the stage, and `extra`
    that of computing afterwards what else it saves.
    """

    values: frozenset[int]
    nbytes: int
    forward_nbytes: int
    cost: int
    extra: int


@dataclass(frozen=True)
class Inside:
    """The values of a stage that can be computed again, as numbers in the order in which they are
    made: `inputs` are those that each reads.  The next stage reads those that are `handed` on, on
    its way forward or back; the stage itself reads those that are `saved` on its way back.
    """

    nbytes: Numbers
    cost: Numbers
    workspace: Numbers
    inputs: tuple[Numbers, ...]
    handed: frozenset[int]
    saved: frozenset[int]

    @cached_property
    def handed_nbytes(self) -> int:
        """Those of all that is handed on."""
        return sum(self.nbytes[v] for v in self.handed)

    @cached_property
    def walking(self) -> tuple[int, int]:
        """What it costs to run forward for what is handed on alone, and the bytes in use then."""
        return self.again(self.handed, frozenset()), self.forward_nbytes(self.handed)

    @cached_property
    def saving(self) -> tuple[tuple[int, int], int]:
        """What it costs to run forward for all that is saved, where nothing is there, and where
        what is handed on is; and the bytes in use then."""
        costs = self.again(self.saved, frozenset()), self.again(self.saved, self.handed)
        return costs, self.forward_nbytes(self.saved)

    def again(self, wanted: Iterable[int], there: Set[int]) -> int:
        """The cost of computing what is wanted and not there; what is handed on to it is."""
        pending, seen, total = list(wanted), set(there), 0
        while pending:
            one = pending.pop()
            if one not in seen:
                seen.add(one)
                total += self.cost[one]
                pending += self.inputs[one]
        return total

    def forward_nbytes(self, staying: Set[int]) -> int:
        """The most that is in use on the way forward, from which such values stay."""
        last = {u: v for v, read in enumerate(self.inputs) for u in read}
        alive = most = 0
        for v, nbytes in enumerate(self.nbytes):
            alive += nbytes
            most = max(most, alive + self.workspace[v])
            gone = {u for u in (*self.inputs[v], v) if last.get(u, u) == v and u not in staying}
            alive -= sum(self.nbytes[u] for u in gone)
        return most

    def keeping(self, kept: frozenset[int]) -> Keeping:
        """What it costs to keep so much."""
        values = kept | self.handed
        nbytes = sum(self.nbytes[one] for one in values)
        costs = self.again(values, frozenset()), self.again(self.saved, values)
        return Keeping(values, nbytes, self.forward_nbytes(values), *costs)


@lru_cache(maxsize=1 << 10)
def keepings(inside: Inside) -> tuple[Keeping, ...]:
    """From all that is saved to nothing, each time less what costs least for its bytes."""
    found = list(_less_and_less(inside))
    chosen = np.linspace(0, len(found) - 1, min(len(found), MOST_KEEPINGS)).astype(int)
    return tuple(found[at] for at in chosen)


def _less_and_less(inside: Inside) -> Iterator[Keeping]:
    kept, now = inside.saved, inside.keeping(inside.saved)
    yield now
    at_once = -(-(len(kept) ** 2) * len(inside.nbytes) // MOST_WORK)
    while left := sorted(kept - inside.handed):
        if len(left) > at_once:
            extra = {one: inside.keeping(kept - {one}).extra - now.extra for one in left}
            left.sort(key=lambda one: extra[one] / max(inside.nbytes[one], 1))
        kept -= set(left[:at_once])
        now = inside.keeping(kept)
        yield now
