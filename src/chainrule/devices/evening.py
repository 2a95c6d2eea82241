"""Evens stages out: a product that takes a gradient back over a cut may lie on either side of it.

The gradient of what a stage has received is computed by it, from a gradient of its own and a
parameter.  The stage before can compute the product in its place: it gets the other gradient for
each micro-batch, and the parameter once a step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from chainrule.devices.grid import Grid
from chainrule.devices.planning.model import apart
from chainrule.devices.stages import Placed, message_seconds
from chainrule.devices.tensor.collectives import is_collective
from chainrule.graph.node import Node, topological
from chainrule.plan.pipelines.stages import Kind, Orders, Stages
from chainrule.plan.pipelines.timeline import timeline

LEAST_GAIN = 0.01  # of the time of a step: a parameter is sent, and held, for it
NEAR = 1.05  # of what the busier stage has to do: beyond that no step is quicker

Chunks = Mapping[Node, int]


def evened(
    place: Placed,
    parameters: Collection[Node],
    grid: Grid,
    orders: Orders,
    seconds: Callable[[Node], float],
    slowness: Sequence[float] = (),
) -> Placed:
    """The stages with such products on the earlier side of cuts, where a step takes less time then.

    Stages work in these `orders`, and take `seconds` for a node, on each chunk `slowness` times as
    long.
    """
    work = {node: seconds(node) for node in (*place.forward, *place.backward)}
    slow = tuple(slowness) or (1.0,) * grid.all_chunks
    evening = _Evening(place, set(parameters), grid, tuple(map(apart, orders)), work, slow)
    backward, least = place.backward, evening.seconds(place.backward)
    moves = evening.moves(backward)
    while (moved := next(moves, None)) is not None:
        found = evening.seconds(moved)
        if found < (1 - LEAST_GAIN) * least:
            backward, least = moved, found
            moves = evening.moves(backward)
    moved = frozenset(node for node, chunk in backward.items() if chunk != place.backward[node])
    return replace(place, backward=backward, moved=moved)


class _Evening:
    """`backward`, here, maps the nodes of the backward pass to chunks, as they might lie."""

    def __init__(
        self,
        place: Placed,
        parameters: Collection[Node],
        grid: Grid,
        orders: Orders,
        work: Mapping[Node, float],
        slow: Sequence[float],
    ) -> None:
        self.place, self.parameters, self.grid = place, parameters, grid
        self.orders, self.work, self.slow = orders, work, slow
        self.parts = sum(one.kind is Kind.FORWARD and not one.chunk for one in orders[0])
        self.users: dict[Node, list[Node]] = {}
        for node in (*place.forward, *place.backward):
            for one in dict.fromkeys(node.inputs):
                self.users.setdefault(one, []).append(node)
        sums = place.owner.keys() - set(parameters)
        self.fixed = {node for one in sums for node in self.users.get(one, ())}

    # The time of a step ---------------------------------------------------------------------------

    def seconds(self, backward: Chunks) -> float:
        """How long the passes of a step take."""
        grid, forward = self.grid, self.place.forward
        sent = [node for node in backward if self._leaves(node, backward[node], backward)]
        awaited = set(topological(sent))
        ahead, back, rest = ([0.0] * grid.stages for _ in range(3))
        for node, chunk in (*forward.items(), *backward.items()):
            does = ahead if node in forward else back if node in awaited else rest
            does[grid.stage_with(chunk)] += self.slow[chunk] * self.work[node]
        for node in self.parameters:
            own = grid.stage_with(self.place.owner[node])
            others = {grid.stage_with(one) for one in self._read_by(node, backward)} - {own}
            for stage in [own, *others] if others else ():
                ahead[stage] += message_seconds(node) / self.parts
        messages = [0.0] * grid.all_chunks  # between a chunk and the next one, either way
        for node in (*sent, *(one for one in forward if self._leaves(one, forward[one], backward))):
            cut = backward[node] - 1 if node in backward else forward[node]
            messages[cut] = max(messages[cut], message_seconds(node))
        transfer = [max(messages[stage :: grid.stages]) for stage in range(grid.stages)]
        stages = Stages(
            grid.stages,
            self.parts,
            tuple(ahead),
            tuple(back),
            tuple(rest),
            tuple(transfer),
            grid.chunks,
        )
        return timeline(stages, self.orders).duration

    def _leaves(self, node: Node, chunk: int, backward: Chunks) -> bool:
        return bool(self._read_by(node, backward) - {chunk})

    def _read_by(self, node: Node, backward: Chunks) -> set[int]:
        """The chunks that read a value."""
        return {self._chunk(one, backward) for one in self.users.get(node, ())}

    def _chunk(self, node: Node, backward: Chunks) -> int:
        return backward[node] if node in backward else self.place.forward[node]

    # What may lie elsewhere -----------------------------------------------------------------------

    def moves(self, backward: Chunks) -> Iterator[Chunks]:
        """How they lie with one product moved; but for those where the earlier stage would have
        more to do than the later one has."""
        grid, loads = self.grid, [0.0] * self.grid.stages
        for node, chunk in (*self.place.forward.items(), *backward.items()):
            loads[grid.stage_with(chunk)] += self.slow[chunk] * self.work[node]
        for node, late in backward.items():
            readers = self._read_by(node, backward)
            if is_collective(node) or node in self.fixed or len(readers) != 1:
                continue
            (early,) = readers
            nodes = self._with_its_own(node, late, backward)
            there = loads[grid.stage_with(early)] + sum(
                self.slow[early] * self.work[one] for one in nodes
            )
            if early < late and there < NEAR * loads[grid.stage_with(late)]:
                reads = {one for own in nodes for one in own.inputs} - nodes
                if all(self._reach(one, early, backward) for one in reads):
                    yield {**backward, **dict.fromkeys(nodes, early)}

    def _with_its_own(self, node: Node, chunk: int, backward: Chunks) -> set[Node]:
        """A node, and what is made of parameters for it alone, such as transposed ones."""
        found, pending = {node}, [node]
        known = self.place.everywhere.union(self.parameters)
        while pending:
            for one in pending.pop().inputs:
                is_here = backward.get(one) == chunk and one not in found
                if is_here and known.issuperset(one.inputs) and found.issuperset(self.users[one]):
                    found.add(one)
                    pending.append(one)
        return found

    def _reach(self, node: Node, chunk: int, backward: Chunks) -> bool:
        """Whether a chunk has a value, or gets it as those of the backward pass that others send;
        values of the forward pass do not come back."""
        return (
            node in self.place.everywhere
            or node in self.parameters
            or node in backward
            or self.place.forward.get(node) == chunk
        )
