"""From which named values each is made, through those that have no name."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.explain.reading.statements import FORWARD, Reading, is_repeated
from chainrule.graph.body import holds_bodies
from chainrule.graph.node import Node
from chainrule.primitives.primitive import MOVING, Gather

MOST = 300  # values that are remembered of one without a name


def reads_of(reading: Reading, ids: Mapping[Node, int]) -> tuple[dict[Node, tuple[int, ...]], int]:
    """For each node of `ids`, those of what it is made from, in order of first use.

    What has the name of a gradient alone is no named value to the forward pass (see `read_apart`).
    Where a pass reads what is inside of a statement of another one (the backward pass: x W of
    h = max(x W, 0)), it reads that statement's value: it computes nothing from x and W.  Elements
    that are only picked or moved there (p[i] of -log(p[i])) are read from where they are.
    One walk through the graph.  Of an unnamed value that is made from very many, only the first
    are remembered, or a chain of them would take quadratic time; the second result counts these.
    """
    found: dict[Node, tuple[int, ...]] = {}
    outside: dict[Node, tuple[int, ...]] = {}  # what statements of other passes read there
    cut = 0
    for node in reading.graph.nodes:
        statement = reading.statement_of.get(node)
        is_forward = statement is not None and statement.during == FORWARD
        reads: dict[int, None] = {}
        for parent in node.inputs:
            is_named = parent in reading.names or parent in reading.sources or not is_forward
            if parent in ids and is_named:
                reads[ids[parent]] = None
            else:
                owner = reading.statement_of.get(parent)
                is_far = statement and owner and owner.during != statement.during
                reads.update(dict.fromkeys((outside if is_far else found)[parent]))
        kept = tuple(reads)
        if node not in ids and len(kept) > MOST:
            kept, cut = kept[:MOST], cut + 1
        found[node] = kept
        outside[node] = kept
        if is_repeated(node) or isinstance(node.primitive.kernel, (Gather, *MOVING)):
            seen = [(ids[one],) if one in ids else outside[one] for one in node.inputs]
            outside[node] = tuple(dict.fromkeys([at for one in seen for at in one]))
        elif statement and statement.value in ids and not holds_bodies(node):
            # of a loop, other passes read what is kept of its iterations, not the named result
            outside[node] = (ids[statement.value],)
    return {node: found[node] for node in ids if node in found}, cut
