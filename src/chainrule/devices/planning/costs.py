"""Counts what each stage of a placed step costs: seconds and bytes, from the graph alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import fsum

from chainrule.dataclass import dataclass, fields
from chainrule.devices.parts import Parts
from chainrule.devices.planning.devices import Group, Link
from chainrule.devices.reports.times import adding_seconds
from chainrule.devices.stages import Placed
from chainrule.devices.tensor.collectives import all_reduce, is_collective
from chainrule.graph.node import Node, topological
from chainrule.plan.compiled_duration import node_nanoseconds as compiled_nanoseconds
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.primitives.sources import input_, is_uniform
from chainrule.schedule.in_numpy import outline_in_c_order, taken_nbytes
from chainrule.schedule.virtual import shows_its_input

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
    `data_nbytes` is the data of a micro-batch.  `ahead_working_nbytes`, `working_nbytes` and
    `late_working_nbytes` are the most that the forward pass, `backward` and `weights` have at once
    beside what is kept, and `update_nbytes` what the update makes beside the state.
    `made_nbytes` are those of sums that the only micro-batch makes: they are not there before.
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
    ahead_working_nbytes: int = 0
    working_nbytes: int = 0
    late_working_nbytes: int = 0
    update_nbytes: int = 0
    made_nbytes: int = 0


LARGEST = (
    *("ahead_nbytes", "back_nbytes"),
    *("ahead_working_nbytes", "working_nbytes", "late_working_nbytes"),
)


def together(chunks: Sequence[StageCosts]) -> StageCosts:
    """A stage that has these chunks: sums, but of messages, which leave one by one."""
    if len(chunks) == 1:
        return chunks[0]
    names = [one.name for one in fields(StageCosts)]
    found = {name: sum(getattr(one, name) for one in chunks) for name in names}
    for name in LARGEST:
        found[name] = max(getattr(one, name) for one in chunks)
    return StageCosts(**found)


def in_numpy(group: Group) -> Seconds:
    """Seconds of a node by NumPy."""
    return lambda node: node_nanoseconds(node, group.speeds.numpy) / 1e9


def compiled(group: Group) -> Seconds:
    """Seconds of a node in compiled code."""
    return lambda node: compiled_nanoseconds(node, group.speeds, group.nanoseconds_of_flop) / 1e9


def exchanging(seconds: Seconds, links: Mapping[str, Link]) -> Seconds:
    """The same, and seconds of what ranks of a group exchange over the link of the group."""

    def found(node: Node) -> float:
        if not is_collective(node):
            return seconds(node)
        nbytes = max(int(one.type.nbytes) for one in (node, *node.inputs))
        taken = adding_seconds(nbytes, node.param("ways"), links[node.param("among")])
        return taken if node.primitive is all_reduce else taken / 2

    return found


def costs_of(
    parts: Parts, placed: Placed, seconds: Seconds, *, by_numpy: bool = False, copies: bool = False
) -> tuple[StageCosts, ...]:
    """What each stage costs, for parts of a batch of the sizes of these graphs.

    `by_numpy` says that values are arrays of their own, sums among them, `copies` that the update
    makes new arrays beside those of the state.
    """
    counting = _Counting(parts, placed, by_numpy, copies)
    updates = counting.updates(seconds)
    return tuple(counting.stage(at, seconds, updates[at]) for at in range(placed.count))


class _Counting:
    def __init__(self, parts: Parts, placed: Placed, by_numpy: bool, copies: bool) -> None:
        self.parts, self.placed = parts, placed
        self.by_numpy, self.copies = by_numpy, copies
        self.place = {**placed.forward, **placed.backward}
        names = {item.name: item.node for item in parts.summing.inputs}
        self.sums = {names[name] for name in parts.sums}
        self.data = {names[name] for name in parts.varying if name in names}
        self.readers: dict[Node, set[int]] = {}
        for node, stage in self.place.items():
            for parent in node.inputs:
                self.readers.setdefault(parent, set()).add(stage)
        self.users = {node: set[Node]() for node in (*self.place, *parts.updating.nodes)}
        for node in self.users:
            for parent in node.inputs:
                if parent in self.users:
                    self.users[parent].add(node)
        self.ends = {parts.summing.names[then] for then in parts.sums.values()}
        self.ends |= {parts.updating.names[then] for then in parts.following.values()}
        self.updating = [list[Node]() for _ in range(placed.count)]  # what each stage updates
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
        before = set(topological(sent))
        awaited = [node for node in backward if node in before]
        late = [node for node in backward if node not in before]
        kept = self._read(backward)
        sums = [one for one in self.sums if placed.owner[one] == stage]
        made = _nbytes(one for one in sums if one not in self.readers)
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
            _nbytes(sums),
            _nbytes(one for one in self.data if stage in self.readers.get(one, ())),
            max(self._working(forward) - _nbytes(kept.intersection(forward)), 0),
            self._working(awaited),
            self._working(late),
            made + max(self._working(self.updating[stage]), self.state[stage] * self.copies),
            made,
        )

    def _working(self, nodes: Sequence[Node]) -> int:
        """The most bytes that NumPy has at once of these nodes, one computed after the other, and
        each kept as long as it is read, or to the end if others read it."""
        if not self.by_numpy:
            return 0
        own, there, most = set(nodes), 0, 0
        base: dict[Node, Node] = {}
        last: dict[Node, Node] = {}
        for node in nodes:
            is_view = shows_its_input(node.primitive) or is_collective(node)
            base[node] = base.get(node.inputs[0], node.inputs[0]) if is_view else node
            for one in node.inputs:
                last[base.get(one, one)] = node
        staying = {base[node] for node in nodes if self.users[node] - own or node in self.ends}
        ends: dict[Node, int] = {}
        for one, node in last.items():
            if one in own and one not in staying:
                ends[node] = ends.get(node, 0) + _own(one)
        for node in nodes:
            if base[node] is node and not is_uniform(node):
                operands = [outline_in_c_order(one) for one in node.inputs]
                there += _own(node)
                most = max(most, there + taken_nbytes(node, operands))
            there -= ends.get(node, 0)
        return most

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
                self.updating[stage].append(node)
        return found


def _own(node: Node) -> int:
    return 0 if is_uniform(node) else int(node.type.nbytes)


def _sum(seconds: Seconds, nodes: Iterable[Node]) -> float:
    return fsum(map(seconds, nodes))


def _nbytes(nodes: Iterable[Node]) -> int:
    return sum(int(node.type.nbytes) for node in nodes)
