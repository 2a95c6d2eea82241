"""What a stage that recomputes keeps all the same, within the bytes that are left.

Each value that the backward pass reads is computed again from others of them, or from what the
forward pass begins with; the seconds of that are saved where it is kept.  Those are kept that save
most for each byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import fsum

from chainrule.devices.tensor.collectives import all_reduce, is_collective
from chainrule.graph.node import Node, topological
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.plan.pipelines.stages import Kind, Task
from chainrule.plan.speeds import SPEEDS


def takes_over(node: Node, forward: Collection[Node]) -> bool:
    """Whether a node is a sum that takes the place of what another stage has sent: it cannot be
    added up again."""
    return node.primitive is all_reduce and node.inputs[0] not in forward


def kept_of(
    order: Iterable[Node],
    forward: Collection[Node],
    read: Collection[Node],
    leaving: Collection[Node],
    nbytes: int,
) -> set[Node]:
    """What a stage keeps of the values that its backward pass reads: what cannot be added up again,
    and in so many bytes others that its forward pass computes anyway, for what leaves it.

    `order` has the nodes of all stages, `forward` those of this one.
    """
    reached = set(topological(read)).intersection(forward)
    once = {one for one in reached if takes_over(one, forward)}
    made = set(topological([*leaving, *once])).intersection(read) - once
    return once | kept_within([one for one in order if one in made], forward, once, nbytes)


def computed_again(
    wanted: Iterable[Node], forward: Collection[Node], there: Collection[Node]
) -> set[Node]:
    """The nodes of a forward pass that give these values anew, where `there` were kept."""
    found: set[Node] = set()
    pending = [node for node in wanted if node in forward and node not in there]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += [one for one in node.inputs if one in forward and one not in there]
    return found


def kept_within(
    wanted: Iterable[Node], forward: Collection[Node], once: Collection[Node], nbytes: int
) -> set[Node]:
    """Which of the wanted values to keep in so many bytes, beside those of `once`; of equal ones
    the first."""
    if nbytes <= 0:
        return set()
    wanted = list(wanted)
    known = {*wanted, *once}
    speeds = SPEEDS[64].numpy
    ranked = []
    for number, node in enumerate(wanted):
        if is_collective(node) or not int(node.type.nbytes):
            continue
        made = computed_again([node], forward, known - {node})
        saved = fsum(node_nanoseconds(one, speeds) for one in made)
        ranked.append((-saved / int(node.type.nbytes), number, node))
    found: set[Node] = set()
    for _, _, node in sorted(ranked, key=lambda one: one[:2]):
        if int(node.type.nbytes) <= nbytes:
            nbytes -= int(node.type.nbytes)
            found.add(node)
    return found


def most_under_way(tasks: Sequence[Task], chunk: int) -> int:
    """Of how many micro-batches a stage keeps the values of a chunk at most, until all gradients
    are there."""
    most = count = 0
    for task in tasks:
        if task.chunk == chunk:
            count += task.kind is Kind.FORWARD
            most = max(most, count)
            count -= task.kind in (Kind.WEIGHTS, Kind.WHOLE_BACKWARD)
    return most
