"""Counts what each stage of a placed step costs: seconds and bytes, from the graph alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import fsum, prod

from chainrule.devices.parts import Parts
from chainrule.devices.planning.devices import Group, Link
from chainrule.devices.reports.times import adding_seconds
from chainrule.devices.stages import Placed
from chainrule.devices.tensor.collectives import all_reduce, is_collective
from chainrule.graph.node import Node, topological
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.primitives.primitive import Contract, Generate, Given, Move
from chainrule.primitives.sources import input_

Seconds = Callable[[Node], float]


@dataclass(frozen=True)
class StageCosts:
    """A stage, or a chunk of one: seconds and bytes of one micro-batch, and of a step.

    `forward`, `backward` (of what other stages wait for) and `weights` (the rest of the backward
    pass) are seconds of a micro-batch, `update` those of a step.  `kept_nbytes` are the values of a
    micro-batch that the backward pass reads, `late_nbytes` those of them that `weights` reads.
    `taken_nbytes` are those that its forward pass reads of other stages; `ahead_nbytes` and
    `back_nbytes` are the messages of a micro-batch to other stages.
    `state_nbytes` are parameters and the optimizer's arrays, `sums_nbytes` the sums of gradients,
    `data_nbytes` is the data of a micro-batch.
    """

    forward: float
    backward: float
    weights: float
    update: float
    kept_nbytes: int
    late_nbytes: int
    taken_nbytes: int
    ahead_nbytes: int
    back_nbytes: int
    state_nbytes: int
    sums_nbytes: int
    data_nbytes: int


def together(chunks: Sequence[StageCosts]) -> StageCosts:
    """A stage that has these chunks: sums, but of messages, which leave one by one."""
    if len(chunks) == 1:
        return chunks[0]
    names = [one.name for one in fields(StageCosts)]
    found = {name: sum(getattr(one, name) for one in chunks) for name in names}
    for name in ("ahead_nbytes", "back_nbytes"):
        found[name] = max(getattr(one, name) for one in chunks)
    return StageCosts(**found)


def in_numpy(group: Group) -> Seconds:
    """Seconds of a node by NumPy."""
    return lambda node: node_nanoseconds(node, group.speeds.numpy) / 1e9


def compiled(group: Group) -> Seconds:
    """Seconds of a node in compiled code: products by their operations, of other kernels those on
    vectors, which loops share.  What is only moved is read where it is needed."""
    speeds = group.speeds

    def seconds(node: Node) -> float:
        match node.primitive.kernel:
            case Given() | Move() | Generate():
                return 0.0
            case Contract():
                flops = int(node.primitive.flops(node))
                return speeds.product / 1e9 + flops / group.flops(node.dtype.name)
        lanes = speeds.vector_nbytes / node.dtype.itemsize
        work = max(int(node.primitive.flops(node)), prod(node.shape))
        return speeds.operation * work / lanes / 1e9

    return seconds


def exchanging(seconds: Seconds, links: Mapping[str, Link]) -> Seconds:
    """The same, and seconds of what ranks of a group exchange over the link of the group."""

    def found(node: Node) -> float:
        if not is_collective(node):
            return seconds(node)
        nbytes = max(int(one.type.nbytes) for one in (node, *node.inputs))
        taken = adding_seconds(nbytes, node.param("ways"), links[node.param("among")])
        return taken if node.primitive is all_reduce else taken / 2

    return found


def costs_of(parts: Parts, placed: Placed, seconds: Seconds) -> tuple[StageCosts, ...]:
    """What each stage costs, for parts of a batch of the sizes of these graphs."""
    counting = _Counting(parts, placed)
    updates = counting.updates(seconds)
    return tuple(counting.stage(at, seconds, updates[at]) for at in range(placed.count))


class _Counting:
    def __init__(self, parts: Parts, placed: Placed) -> None:
        self.parts, self.placed = parts, placed
        self.place = {**placed.forward, **placed.backward}
        names = {item.name: item.node for item in parts.summing.inputs}
        self.sums = {names[name] for name in parts.sums}
        self.data = {names[name] for name in parts.varying if name in names}
        self.readers: dict[Node, set[int]] = {}
        for node, stage in self.place.items():
            for parent in node.inputs:
                self.readers.setdefault(parent, set()).add(stage)
        self.state = self._state()

    def _state(self) -> list[int]:
        """The bytes of parameters, and of what belongs to them, on each stage.  Further stages that
        read a parameter have it for a while; that is left out."""
        found = [0] * self.placed.count
        inputs = {item.name: item.node for item in self.parts.summing.inputs}
        for name, node in inputs.items():
            if node in self.placed.owner and name not in self.parts.sums:
                found[self.placed.owner[node]] += _nbytes([node])
        for item in self.parts.updating.inputs:
            parameter = self.parts.owned.get(item.name)
            if parameter is not None and item.name not in inputs:
                found[self.placed.owner[inputs[parameter]]] += _nbytes([item.node])
        return found

    def stage(self, stage: int, seconds: Seconds, update: float) -> StageCosts:
        """What one stage costs."""
        placed = self.placed
        forward = [node for node, at in placed.forward.items() if at == stage]
        backward = [node for node, at in placed.backward.items() if at == stage]
        sent = [node for node in backward if self._leaves(node, stage)]
        awaited = set(backward).intersection(topological(sent))
        late = [node for node in backward if node not in awaited]
        kept = self._read(backward)
        return StageCosts(
            _sum(seconds, forward),
            _sum(seconds, awaited),
            _sum(seconds, late),
            update,
            _nbytes(kept),
            _nbytes(kept & self._read(late)),
            _nbytes(one for one in self._read(forward) if placed.forward[one] != stage),
            _nbytes(node for node in forward if self._leaves(node, stage)),
            _nbytes(sent),
            self.state[stage],
            _nbytes(one for one in self.sums if placed.owner[one] == stage),
            _nbytes(one for one in self.data if stage in self.readers.get(one, ())),
        )

    def _leaves(self, node: Node, stage: int) -> bool:
        return bool(self.readers.get(node, set()) - {stage})

    def _read(self, nodes: Collection[Node]) -> set[Node]:
        """The values of the forward pass that some nodes read."""
        return {one for node in nodes for one in node.inputs if one in self.placed.forward}

    def updates(self, seconds: Seconds) -> list[float]:
        """The seconds of the update on each stage: of a node, where its first parameter is."""
        graph = self.parts.updating
        owners = {item.name: item.node for item in self.parts.summing.inputs}
        place: dict[Node, int] = {}
        for item in graph.inputs:
            of = owners.get(self.parts.owned.get(item.name, item.name))
            if of is not None and of in self.placed.owner and item.node.shape:
                place[item.node] = self.placed.owner[of]
        found = [0.0] * self.placed.count
        for node in graph.nodes:
            if node.primitive is input_:
                continue
            stage = next((place[one] for one in node.inputs if one in place), None)
            if stage is not None:
                place[node] = stage
                found[stage] += seconds(node)
        return found


def _sum(seconds: Seconds, nodes: Iterable[Node]) -> float:
    return fsum(map(seconds, nodes))


def _nbytes(nodes: Iterable[Node]) -> int:
    return sum(int(node.type.nbytes) for node in nodes)
