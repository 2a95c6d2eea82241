"""The parts in which a program within a budget is traced: the works of a plan, some of them again.

XLA merges equal computations, and moves them to where it likes.  So what is computed again reads
its operands behind a barrier, together with the part before it: then it is another computation, and
cannot begin earlier.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass
from chainrule.execute.xla.jax_here import jax_here
from chainrule.graph.body import Body, bodies_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Generate, Given, Move

if TYPE_CHECKING:
    from chainrule.execute.xla.tracing import Space
    from chainrule.plan.work import Work

SMALL_NBYTES = 1024  # what is computed again and has less is left to XLA


@dataclass(frozen=True)
class Part:
    """`nodes`, in an order in which they can be computed, from `reads`, which are there; `writes`
    of them stay.  `is_again`: some of them were computed by a part before."""

    reads: tuple[Node, ...]
    nodes: tuple[Node, ...]
    writes: tuple[Node, ...]
    is_again: bool


@dataclass(frozen=True)
class InParts:
    """The parts in which a graph is computed, or the body of a loop in it."""

    parts: tuple[Part, ...]
    body: Body | None = None

    def numbered(self, graph: Graph) -> str:
        """The parts by the places of their nodes: what tells programs of equal graphs apart."""
        bodies = [body for node in graph.nodes for body in bodies_of(node)]
        where = [at for at, one in enumerate(bodies) if one is self.body]
        inner = graph if self.body is None else self.body.graph
        place = {node: at for at, node in enumerate(inner.nodes)}
        parts = [
            ([place[x] for x in one.nodes], [place[x] for x in one.writes], one.is_again)
            for one in self.parts
        ]
        return f"{where}{parts}"


def parts_of(graph: Graph, works: Iterable[Work], results: Sequence[Node]) -> tuple[Part, ...]:
    """The parts that do these works of a plan of a concrete graph, and then compute what is left
    of the results."""
    place = {node: number for number, node in enumerate(graph.nodes)}
    there = {node for node in graph.nodes if isinstance(node.primitive.kernel, Given)}
    given, done = set(there), set[Node]()
    found = []

    def add(writes: Sequence[Node], own: Collection[Node]) -> None:
        reads, nodes = _needed(writes, own, there, given)
        nodes.sort(key=place.__getitem__)
        is_again = any(node in done and _takes_time(node) for node in nodes)
        found.append(Part(tuple(reads), tuple(nodes), tuple(writes), is_again))
        there.update(writes)
        done.update(nodes)

    for work in works:
        writes = [node for node in work.writes if node in place]
        if writes:  # else factors, which routines share
            add(writes, {*work.writes, *work.inner})
    left = [node for node in dict.fromkeys(results) if node not in there]
    if left:
        add(left, ())
    return tuple(found)


def _needed(
    writes: Iterable[Node], own: Collection[Node], there: Collection[Node], given: Collection[Node]
) -> tuple[list[Node], list[Node]]:
    """What is read where `writes` are computed, and what is computed for that: what is `own`, or
    not there."""
    reads, nodes = list[Node](), list[Node]()
    pending, seen = list(writes), set[Node]()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in given or (node in there and node not in own):
            reads.append(node)
        else:
            nodes.append(node)
            pending += node.inputs
    return reads, nodes


def _takes_time(node: Node) -> bool:
    """Whether it is worth a barrier that a node is not kept."""
    is_free = isinstance(node.primitive.kernel, (Move, Generate))
    return not is_free and int(node.type.nbytes) >= SMALL_NBYTES


def evaluate(space: Space, parts: Iterable[Part], values: dict[Node, Any]) -> None:
    """Add what the parts write to the values that are there."""
    barrier = jax_here().lax.optimization_barrier
    given = dict(values)
    last = None
    for part in parts:
        read = {node: values[node] for node in part.reads}
        if part.is_again and read and last is not None:
            *behind, _ = barrier((*read.values(), last))
            read = dict(zip(read, behind, strict=True))
        local = {**given, **read}
        space.evaluate(part.nodes, local)
        values.update((node, local[node]) for node in part.writes)
        last = values[part.writes[0]]
