"""Cuts nodes into what ranks do at once: runs of pieces, and exchanges between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from chainrule.dataclass import dataclass, field
from chainrule.devices.grid import Grid
from chainrule.devices.instructions import AllGather, AllReduce, Collective, Key, ReduceScatter, Run
from chainrule.devices.pieces import Piece, piece_of
from chainrule.devices.tensor.collectives import (
    all_gather,
    all_reduce,
    is_collective,
    own_part,
    reduce_scatter,
)
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

ToKey = Callable[[Node], Key]


@dataclass(frozen=True, eq=False)
class Unit:
    """What all ranks of a stage do at once: they compute `nodes` by a piece, or exchange them.

    `pieces` has the number of the piece, by the place of a rank in each group for which another
    one is needed; it is empty where values are exchanged.
    """

    nodes: tuple[Node, ...]
    reads: tuple[Node, ...]
    gives: tuple[Node, ...]
    among: tuple[str, ...] = ()
    pieces: Mapping[tuple[int, ...], int] = field(default_factory=dict)

    def instruction(self, rank: int, grid: Grid, part: int | None, key: ToKey) -> Run | Collective:
        """What a rank does, for a micro-batch or for the step."""
        reads, gives = tuple(map(key, self.reads)), tuple(map(key, self.gives))
        if self.pieces:
            places = grid.places(rank)
            number = self.pieces[tuple(places[one] for one in self.among)]
            return Run(number, part, reads, gives)
        group = grid.group(rank, self.among[0])
        primitive = self.nodes[0].primitive
        if primitive is all_reduce:
            return AllReduce(gives, group)
        axes = tuple(node.param("axis") for node in self.nodes)
        kind = {all_gather: AllGather, reduce_scatter: ReduceScatter}[primitive]
        return kind(reads, gives, axes, group)


@dataclass(eq=False)
class Units:
    """Makes units, and their pieces."""

    grid: Grid
    pieces: list[Piece] = field(default_factory=list)

    def of_level(
        self,
        graph: Graph,
        name: str,
        nodes: Collection[Node],
        needed: Collection[Node],
        shared: Collection[Node],
    ) -> Iterable[Unit]:
        """What computes these nodes, and then the exchanges among them.

        `needed` are the nodes that something else reads; each piece computes those of `shared` that
        it needs for itself.
        """
        computed = {node for node in nodes if not is_collective(node)}
        if computed:
            gives = [node for node in graph.nodes if node in computed and node in needed]
            yield self._piece(graph, name, computed, gives, shared)
        exchanged: dict[object, list[Node]] = {}
        for node in graph.nodes:
            if node in nodes and is_collective(node):
                exchanged.setdefault((node.primitive, node.param("among")), []).append(node)
        for alike in exchanged.values():
            reads = tuple(node.inputs[0] for node in alike)
            yield Unit(tuple(alike), reads, tuple(alike), (alike[0].param("among"),))

    def _piece(
        self,
        graph: Graph,
        name: str,
        own: Collection[Node],
        gives: Collection[Node],
        shared: Collection[Node],
    ) -> Unit:
        whole = piece_of(graph, name, own, gives, shared)
        parts = {node.param("among") for node in whole.graph.nodes if node.primitive is own_part}
        among = tuple(sorted(parts))
        found: dict[tuple[int, ...], int] = {}
        places: list[tuple[int, ...]] = [()]
        for one in among:
            places = [(*at, place) for at in places for place in range(self.grid.size(one))]
        for at in places:
            where = dict(zip(among, at, strict=True))
            found[at] = len(self.pieces)
            whose = "".join(f", {one.removesuffix('s')} {place}" for one, place in where.items())
            made = piece_of(graph, name + whose, own, gives, shared, where) if among else whole
            self.pieces.append(made)
        return Unit(whole.nodes, tuple(whole.reads), tuple(whole.gives), among, found)


def levels(nodes: Iterable[Node], stage: Mapping[Node, int]) -> dict[Node, int]:
    """For each of `nodes` that has a stage: how many messages or exchanges come before it.

    Each is computed as late as it is read: with what reads it, as in a graph without exchanges.
    """
    level: dict[Node, int] = {}

    def step(before: Node, node: Node) -> bool:
        return stage[before] != stage[node] or is_collective(before)

    for node in nodes:
        if node in stage:
            before = [level[one] + step(one, node) for one in node.inputs if one in level]
            level[node] = max(before, default=0)
    latest: dict[Node, int] = {}
    for node in reversed(level):
        if node in latest and not is_collective(node):
            level[node] = latest[node]
        for one in node.inputs:
            if one in level:
                at = level[node] - step(one, node)
                latest[one] = min(at, latest.get(one, at))
    return level
