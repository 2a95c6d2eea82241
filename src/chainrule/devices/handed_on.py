"""Hands the state of an objective on from micro-batch to micro-batch, over all replicas at once.

In one program no replica waits for another: state that the passes read, and that does not follow
from the batch, is computed for all micro-batches before them; state that they do not read, after
them, of what each micro-batch has given for it.  Every rank computes the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chainrule.devices.carried import carried_of
from chainrule.devices.grid import Grid
from chainrule.devices.tensor.collectives import REPLICAS, all_gather, own_part
from chainrule.devices.turns import Turns
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, stamp, topological
from chainrule.primitives.movement import reshape


class HandedOn:
    """The state of an objective whose passes are `graph` and give `ends`.

    `follows` maps the arrays of the state to what follows them, `state` to what they are at first.
    `fixed` are the other inputs that all micro-batches have alike, `rows` those that have a row for
    each of the `each` micro-batches of a replica.

    `before` has such rows of the arrays that the passes read, and `handed` are the values of a
    micro-batch that what follows the others is made of.
    """

    def __init__(
        self,
        graph: Graph,
        follows: Mapping[Node, Node],
        ends: Collection[Node],
        state: Mapping[Node, Node],
        fixed: Mapping[Node, Node],
        rows: Mapping[Node, Node],
        grid: Grid,
        each: int,
    ) -> None:
        self.graph, self.follows, self.state, self.fixed = graph, follows, state, fixed
        self.replicas, self.count = grid.replicas, each * grid.replicas
        found = carried_of(follows, ends, rows)
        self.read = [one for one in follows if one in found.read]
        self.left = [one for one in follows if one not in found.read]
        self.before: dict[Node, Node] = {}
        self.last: dict[Node, Node] = {}
        if self.read:
            self._go_before()
        later = found.after(topological(ends))
        varying = {*rows, *self.read}
        for node in graph.nodes:
            if not varying.isdisjoint(node.inputs):
                varying.add(node)
        parents = {one for node in graph.nodes if node in later for one in node.inputs}
        ended = {follows[one] for one in self.left} - later  # of no array that is carried
        given = (parents | ended) - later - set(self.left)
        self.handed = [node for node in graph.nodes if node in given & varying]

    def _go_before(self) -> None:
        """Computes the arrays that the passes read, for all micro-batches of all replicas."""
        seen = {one: reshape(one, shape=one.shape) for one in self.read}
        stamp(seen.values(), self.read[0].origin)
        turns = Turns(self.graph, self.fixed, {}, self.count)
        carried = {one: (self.state[one], self.follows[one]) for one in self.read}
        self.last, rows = turns.taken(carried, seen.values())
        for one, value in seen.items():
            mine = own_part(rows[value], axis=0, ways=self.replicas, among=REPLICAS)
            stamp((mine,), one.origin)
            self.before[one] = mine

    def after(self, stacks: Mapping[Node, Node]) -> dict[Node, Node]:
        """What the last micro-batch leaves of each array; `stacks` has each of `handed`, with a row
        for each micro-batch of a replica."""
        every = {}
        for one, rows in stacks.items():
            every[one] = all_gather(rows, axis=0, ways=self.replicas, among=REPLICAS)
            stamp((every[one],), one.origin)
        carried = {one: (self.state[one], self.follows[one]) for one in self.left}
        turns = Turns(self.graph, self.fixed, every, self.count)
        return {**self.last, **(turns.taken(carried, ())[0] if carried else {})}
