"""What a schedule says before it is replayed: the size of each arena, which values have bytes."""

from __future__ import annotations

from collections.abc import Container

from chainrule.graph.node import Node
from chainrule.primitives.primitive import Generate
from chainrule.schedule.lives import BEFORE
from chainrule.schedule.records import SCRATCH, Compute, Schedule, View
from chainrule.schedule.virtual import shows_its_input


def stored_values(schedule: Schedule) -> dict[Node, int]:
    """For each value that ever has bytes or is a view: the instruction that first makes it so."""
    first = dict.fromkeys(schedule.given, BEFORE)
    for number, instruction in enumerate(schedule.instructions):
        match instruction:
            case Compute(nodes=nodes):
                for node in nodes:
                    first.setdefault(node, number)
            case View(node=node):
                first.setdefault(node, number)
    return first


def stored_under(node: Node, stored: Container[Node]) -> Node | None:
    """The value whose bytes are read for `node`; None if they are generated."""
    while node not in stored:
        if isinstance(node.primitive.kernel, Generate):
            return None
        if not shows_its_input(node.primitive):
            return node
        node = node.inputs[0]
    return node


def arena_sizes(schedule: Schedule) -> dict[str, int]:
    """The number of bytes of each arena; the array of a result is as large as the result."""
    found = {SCRATCH: schedule.scratch_nbytes}
    for buffer in schedule.given.values():
        if buffer.arena != SCRATCH:
            found[buffer.arena] = max(found.get(buffer.arena, 0), buffer.end)
    given, results = frozenset(found), frozenset(schedule.results)
    for instruction in schedule.instructions:
        if isinstance(instruction, Compute):
            for node, buffer in zip(instruction.nodes, instruction.into, strict=False):
                nbytes = node.type.nbytes
                if node in results and buffer.arena not in given and isinstance(nbytes, int):
                    found[buffer.arena] = max(found.get(buffer.arena, 0), nbytes)
    return found
