"""From which named values each is made, through those that have no name."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.explain.reading.statements import FORWARD, Reading
from chainrule.graph.node import Node

MOST = 300  # values that are remembered of one without a name


def reads_of(reading: Reading, ids: Mapping[Node, int]) -> tuple[dict[Node, tuple[int, ...]], int]:
    """For each node of `ids`, those of what it is made from, in order of first use.

    What has the name of a gradient alone is no named value to the forward pass (see `read_apart`).
    One walk through the graph.  Of an unnamed value that is made from very many, only the first
    are remembered, or a chain of them would take quadratic time; the second result counts these.
    """
    found: dict[Node, tuple[int, ...]] = {}
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
                reads.update(dict.fromkeys(found[parent]))
        kept = tuple(reads)
        if node not in ids and len(kept) > MOST:
            kept, cut = kept[:MOST], cut + 1
        found[node] = kept
    return {node: found[node] for node in ids if node in found}, cut
