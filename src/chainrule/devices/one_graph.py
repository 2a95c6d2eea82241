"""Makes one graph of a split step of one stage: what each rank computes, exchanges included.

The programs of ranks have pieces, and messages between them.  Here the same pieces are one graph:
the two passes on this rank's micro-batches, one after the other in a loop where there are several,
the sums of gradients over replicas, and the update.
"""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.dataclass import dataclass
from chainrule.devices.graphs import RankGraphs
from chainrule.devices.handed_on import HandedOn
from chainrule.devices.tensor.collectives import REPLICAS, all_reduce
from chainrule.devices.tensor.step import Cut
from chainrule.devices.turns import Turns
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import Node, stamp
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import ordered
from chainrule.primitives.movement import reshape, transpose
from chainrule.primitives.sources import full_like, input_


@dataclass(frozen=True, eq=False)
class OneGraph:
    """A step as each rank computes it.

    `rows` are the inputs along whose axis a batch is shared out, `keys` those of which each
    micro-batch has its own, stacked along a new first axis.  `cuts` says how ranks have parts of
    the inputs, `following` names what replaces the arrays of the state.  `sums` maps the names of
    what the passes leave, in their loop if there is one, to the parameter whose gradients it is of,
    None for the objective.
    """

    graph: Graph
    objective: str
    rows: Mapping[str, int]
    keys: tuple[str, ...]
    cuts: Mapping[str, tuple[Cut, ...]]
    following: Mapping[str, str]
    sums: Mapping[str, str | None]

    def wanted(self, graph: Graph) -> tuple[list[Node], dict[Node, Node]]:
        """What a form of the graph computes, and which inputs' arrays take which of it."""
        inputs = {item.name: item.node for item in graph.inputs}
        new = {inputs[name]: graph.names[then] for name, then in self.following.items()}
        return [graph.names[self.objective], *new.values()], new


def one_graph(name: str, graphs: RankGraphs, axes: Mapping[str, int], count: int) -> OneGraph:
    """The graph of ranks whose graphs are these, `count` micro-batches in all; `axes` are those of
    the rows in the inputs that have rows."""
    making = _Making(graphs, axes, count)
    return making.made(name)


class _Making:
    def __init__(self, graphs: RankGraphs, axes: Mapping[str, int], count: int) -> None:
        self.graphs, self.parts, self.grid = graphs, graphs.parts, graphs.grid
        self.rows, self.each = axes, count // self.grid.replicas
        self.keys = tuple(x for x in sorted(self.parts.varying) if x not in axes)
        self.inputs: dict[str, Input] = {}
        self.inner: dict[Node, Node] = {}  # of the passes, where they are no loop

    def made(self, name: str) -> OneGraph:
        """The whole of it."""
        parts = self.parts
        left = self._passes()
        names = {
            one: self.inner[node]
            for one, node in parts.summing.names.items()
            if node in self.inner and self.inner[node].primitive is not input_
        }
        if not self.graphs.sharded:  # else the update adds them, in parts
            left = {one: self._added(one, node) for one, node in left.items()}
        given = {
            item.node: left[item.name] if item.name in left else self._input(item)
            for item in parts.updating.inputs
        }
        new = placed(parts.updating, given)
        names |= {one: new[node] for one, node in parts.updating.names.items() if node in new}
        names |= {one: item.node for one, item in self.inputs.items()}
        objective = new[parts.updating.names[parts.objective]]
        ends = {parts.objective: objective}
        for then in parts.following.values():
            node = new[parts.updating.names[then]]
            if node in ends.values():  # each array takes a value of its own
                origin, node = node.origin, reshape(node, shape=node.shape)
                stamp((node,), origin)
            ends[then] = names[then] = node
        inputs = tuple(self.inputs.values())
        graph = Graph(name, inputs, tuple(ends.items()), (), {**names, **ends})
        cuts = {**self.graphs.cuts, **{one: ((REPLICAS, at),) for one, at in self.rows.items()}}
        return OneGraph(
            check(graph.replace(nodes=ordered(graph))),
            parts.objective,
            {one: at for one, at in self.rows.items() if one in self.inputs},
            tuple(one for one in self.keys if one in self.inputs),
            {**cuts, **{one: ((REPLICAS, 0),) for one in self.keys}},
            parts.following,
            {then: parts.summed[one] for one, then in parts.sums.items()},
        )

    def _input(self, item: Input, shape: tuple[int, ...] | None = None) -> Node:
        """The input of this name, of this shape where that is not the item's."""
        if item.name not in self.inputs:
            type_ = item.type if shape is None else item.type.with_shape(shape)
            node = input_(index=len(self.inputs), type=type_)
            stamp((node,), item.node.origin)
            self.inputs[item.name] = Input(item.name, node, item.default)
        return self.inputs[item.name].node

    def _passes(self) -> dict[str, Node]:
        """What is left of the two passes over all micro-batches: by the names of the sums, and by
        the names of what follows the objective's own state.

        Where replicas hand this state on, it is computed before the passes or after them, of all
        micro-batches, by each rank alike.
        """
        graph, parts = self.parts.summing, self.parts
        start: dict[Node, Node] = {}  # of what changes from micro-batch to micro-batch
        state: dict[Node, Node] = {}
        fixed: dict[Node, Node] = {}
        rows: dict[Node, Node] = {}
        for item in graph.inputs:
            if item.name in parts.sums:
                start[item.node] = full_like(item.node, 0)
                stamp((start[item.node],), item.node.origin)
            elif item.name in parts.carried:
                state[item.node] = self._input(item)
            elif item.name in parts.varying:
                rows[item.node] = self._stacked(item)
            else:
                fixed[item.node] = self._input(item)
        follows = {graph.names[x]: graph.names[then] for x, then in parts.carried.items()}
        ends = {graph.names[x]: graph.names[then] for x, then in parts.sums.items()}
        aside: HandedOn | None = None
        if self.grid.replicas > 1 and state:
            aside = HandedOn(
                graph, follows, ends.values(), state, fixed, rows, self.grid, self.each
            )
            rows |= aside.before
        else:
            ends |= follows
            start |= state
        handed = () if aside is None else aside.handed
        if self.each == 1:
            first = {node: self._first(node, one) for node, one in rows.items()}
            self.inner = new = placed(graph, {**state, **fixed, **first, **start})
            found = {node: new[then] for node, then in ends.items()}
            stacks = {one: self._alone(new[one]) for one in handed}
        else:
            turns = Turns(graph, fixed, rows, self.each)
            found, stacks = turns.taken({x: (start[x], then) for x, then in ends.items()}, handed)
        if aside is not None:
            found |= aside.after(stacks)
        return {
            **{name: found[graph.names[name]] for name in parts.sums},
            **{then: found[graph.names[name]] for name, then in parts.carried.items()},
        }

    def _stacked(self, item: Input) -> Node:
        """The micro-batches of this rank, one after another along a first axis."""
        own = tuple(item.node.shape)
        if item.name not in self.rows:
            return self._input(item, (self.each, *own))
        at = self.rows[item.name]
        whole = self._input(item, (*own[:at], self.each * own[at], *own[at + 1 :]))
        if self.each == 1:
            return whole
        apart = reshape(whole, shape=(*own[:at], self.each, *own[at:]))
        order = (at, *(one for one in range(len(own) + 1) if one != at))
        found = transpose(apart, permutation=order) if at else apart
        stamp((found,), item.node.origin)
        return found

    def _first(self, node: Node, stacked: Node) -> Node:
        """The only micro-batch."""
        if stacked.shape == node.shape:
            return stacked
        found = reshape(stacked, shape=node.shape)
        stamp((found,), node.origin)
        return found

    def _alone(self, node: Node) -> Node:
        """The value of the only micro-batch, as a stack of one."""
        found = reshape(node, shape=(1, *node.shape))
        stamp((found,), node.origin)
        return found

    def _added(self, name: str, node: Node) -> Node:
        """A sum of all replicas; what follows the objective's own state is that already."""
        if name not in self.parts.sums or self.grid.replicas == 1:
            return node
        found = all_reduce(node, ways=self.grid.replicas, among=REPLICAS)
        stamp((found,), node.origin)
        return found


def placed(graph: Graph, given: Mapping[Node, Node]) -> dict[Node, Node]:
    """What each node of a graph becomes where its inputs are these."""
    new = dict(given)
    for node in graph.nodes:
        if node not in new:
            operands = tuple([new[one] for one in node.inputs])
            new[node] = node if operands == node.inputs else node.with_inputs(operands)
    return new
