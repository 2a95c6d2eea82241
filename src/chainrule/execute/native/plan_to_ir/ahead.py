"""Arrays too large for the caches are fetched some way ahead of where a sweep is.

The processor fetches ahead by itself, too, but not as far, not what is only written, and in each
page it has to find out anew that it should.  On some, code that fetches costs more than it gains
(`Target.fetches_by_itself`): there nothing of this is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.execute.native.plan_to_ir.emit import count
from chainrule.execute.native.plan_to_ir.emit_instances import Points
from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Kind
from chainrule.plan.loops.sweeps import Sweep
from chainrule.primitives.affine import Affine

AHEAD_NBYTES = 2048
LARGE_NBYTES = 1 << 20  # of an array: half of a second-level cache, or all of it
SHORTEST_NBYTES = 32  # of a vector: shorter ones would fetch each line many times


class Ahead:
    """What one sweep is the first to read of large arrays, and what it writes to them.

    `width` is the number of lanes.  `before` are the sweeps that have gone over the same row: what
    they have read is in a cache.
    """

    def __init__(self, sweep: Sweep, width: int, before: Sequence[Sweep]) -> None:
        self.width = width
        there = {place for one in before for place in _read(one)}
        self.reads = [one for one in _read(sweep) if one not in there and self._is_stream(*one)]
        self.writes = [
            (store.node, store.place)
            for store in sweep.stores
            if not store.indices and self._is_stream(store.node, store.place)
        ]

    def _is_stream(self, node: Node, place: Affine) -> bool:
        """Whether vectors of a large array follow one another."""
        is_long = self.width * node.dtype.itemsize >= SHORTEST_NBYTES
        return is_long and place[-1] == 1 and node.type.nbytes >= LARGE_NBYTES

    def fetch(self, points: Points) -> None:
        """Emit it for the vector of columns at which `points` stands."""
        code, places = points.code, points.places
        ahead = count(AHEAD_NBYTES)
        for one in self.reads:
            code.fetch(code.address(places.pointer(*one), ahead, "i8"))
        for one in self.writes:
            code.fetch(code.address(places.pointer(*one), ahead, "i8"), writes=True)


def _read(sweep: Sweep) -> list[tuple[Node, Affine]]:
    """The arrays that a sweep reads in its columns, and at which places."""
    loads = (one for one in sweep.computes if one.kind is Kind.LOAD)
    found = ((one.source, one.place) for one in loads if one.source is not None)
    return list(dict.fromkeys(found))
