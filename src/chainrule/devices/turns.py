"""Takes a graph several times in turn: a loop, each time on rows of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.scan_node import scan
from chainrule.dataclass import dataclass
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.sources import constant


@dataclass(frozen=True, eq=False)
class Turns:
    """A graph that is taken `count` times.

    `fixed` maps nodes of it to what they are outside, `rows` to arrays with a row for each turn.
    """

    graph: Graph
    fixed: Mapping[Node, Node]
    rows: Mapping[Node, Node]
    count: int

    def taken(
        self, carried: Mapping[Node, tuple[Node, Node]], stacked: Iterable[Node]
    ) -> tuple[dict[Node, Node], dict[Node, Node]]:
        """What the last turn leaves of the nodes that are `carried`, and the values of those that
        are `stacked`, with a row for each turn.

        `carried` maps each to what it is at first, and to what follows it in each turn.
        """
        names = {**self.graph.name_of}
        held = [one for one in self.graph.nodes if one.primitive is constant]
        given = {**self.fixed, **{one: one for one in held}}
        values = tuple(stacked)
        loop = Loop(
            "micro_batch",
            tuple([Given(names.get(x, "value"), outer, x) for x, outer in given.items()]),
            tuple(
                [Carry(names.get(x, "value"), *one[:1], x, one[1]) for x, one in carried.items()]
            ),
            tuple([Given(names.get(x, "rows"), outer, x) for x, outer in self.rows.items()]),
            values,
            self.count,
            False,
            {name: node for name, node in self.graph.names.items() if node not in held},
            "micro-batches",
        )
        finals, rows = loop.run(scan, range(len(carried)), range(len(values)))
        return (
            {node: finals[place] for place, node in enumerate(carried)},
            {node: rows[place] for place, node in enumerate(values)},
        )
