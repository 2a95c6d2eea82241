"""Lists the evaluations of a graph one by one: what each reads, and which values end with it.

This is all that an executor needs that evaluates one node at a time: `execute.reference`, and the
iterations of loops.  A node comes as often as it is computed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.primitives.primitive import Given
from chainrule.primitives.sources import full
from chainrule.schedule.lifetimes import lifetimes_of
from chainrule.schedule.lives import Life, lives_of
from chainrule.schedule.records import Compute, Free, Schedule, View


class Turn(NamedTuple):
    """`into.node` is evaluated from `operands`, in the order of its inputs; then `ended` go."""

    into: Life
    operands: tuple[Life, ...]
    ended: tuple[Life, ...]


_latest: WeakKeyDictionary[Graph, tuple[frozenset[Node], list[Turn]]] = WeakKeyDictionary()


def turns_for(graph: Graph, results: Iterable[Node]) -> list[Turn]:
    """The evaluations of what the results need, in the order of the graph; the latest of each graph
    are kept."""
    wanted = frozenset(results)
    known, turns = _latest.get(graph, (None, []))
    if known != wanted:
        turns = turns_of(order_of(graph, wanted))
        _latest[graph] = wanted, turns
    return turns


def order_of(graph: Graph, results: Iterable[Node]) -> list[Node]:
    """The nodes that the results need, what is given first, else in the order of the graph."""
    needed = set(topological(results))
    return sorted((node for node in graph.nodes if node in needed), key=_is_computed)


def turns_of(order: Sequence[Node]) -> list[Turn]:
    """The evaluations of nodes in this order; one that comes again is computed again.

    A value ends with the last evaluation that reads it before it is computed again.
    """
    lives = lives_of((node.inputs, (node,)) for node in order)
    ended = lives.ended()
    return [
        Turn(into, operands, tuple(gone))
        for (into,), operands, gone in zip(lives.writes, lives.reads, ended, strict=True)
    ]


_obeying: WeakKeyDictionary[Schedule, list[Turn]] = WeakKeyDictionary()


def obeying(schedule: Schedule) -> list[Turn]:
    """The evaluations that a valid schedule asks for, kept as long as it is; see `_turns`."""
    turns = _obeying.get(schedule)
    if turns is None:
        turns = _obeying[schedule] = _turns(schedule)
    return turns


def _turns(schedule: Schedule) -> list[Turn]:
    """The evaluations that a valid schedule asks for: those of each kernel one by one, from what
    the kernel reads.

    What a kernel computes on the way ends with it; the next one that needs it computes it again,
    but for views that the schedule makes, and for uniform values, which have no bytes.
    """
    ends: dict[int, list[Node]] = defaultdict(list)
    for lifetime in lifetimes_of(schedule):
        if lifetime.ended is not None:
            ends[lifetime.ended].append(lifetime.node)
    found: list[Turn] = []
    counts: Counter[Node] = Counter()
    there: dict[Node, Life] = {}
    views: dict[Node, list[Node]] = defaultdict(list)  # by what they show
    shown: dict[Node, Node] = {}  # by the views that are there
    for node in schedule.given:
        _evaluate(node, there, counts, found)
    for number, instruction in enumerate(schedule.instructions):
        nodes: tuple[Node, ...] = ()
        known: dict[Node, Life] = {}
        match instruction:
            case Compute():
                nodes = instruction.nodes
                known = {node: there[node] for node in instruction.reads if node in there}
            case View():
                nodes, known = (instruction.node,), {instruction.of: there[instruction.of]}
                views[instruction.of].append(instruction.node)
                shown[instruction.node] = instruction.of
            case Free():
                pass
        kept = {*known, *nodes}

        def view_of(node: Node, kept: set[Node] = kept) -> Life | None:
            if node in there and (shown.get(node) in kept or node.primitive is full):
                kept.add(node)
                return there[node]
            return None

        for node in nodes:
            _evaluate(node, known, counts, found, view_of)
        uniform = {node: life for node, life in known.items() if node.primitive is full}
        there.update(uniform)
        kept.update(uniform)
        gone = [life for node, life in known.items() if node not in kept]
        ending = ends[number]
        while ending:
            gone += [there.pop(node) for node in ending]
            ending = [view for node in ending for view in views.pop(node, ())]
        there.update((node, known[node]) for node in nodes)
        if gone:
            found[-1] = found[-1]._replace(ended=(*found[-1].ended, *gone))
    return found


def _evaluate(
    node: Node,
    known: dict[Node, Life],
    counts: Counter[Node],
    found: list[Turn],
    there: Callable[[Node], Life | None] = lambda node: None,
) -> None:
    """Evaluate the node, with all that it needs and is neither known nor there; then all that is
    known."""
    pending = [node]
    while pending:
        one = pending[-1]
        if one is not node and one not in known and (life := there(one)) is not None:
            known[one] = life
        missing = () if one in known else [x for x in one.inputs if x not in known]
        if missing:
            pending += missing
            continue
        pending.pop()
        if one not in known:
            known[one] = Life(one, counts[one])
            counts[one] += 1
            found.append(Turn(known[one], tuple([known[x] for x in one.inputs]), ()))


def _is_computed(node: Node) -> bool:
    """Whether the value is not given: inputs and constants are there before the first is made."""
    return not isinstance(node.primitive.kernel, Given)
