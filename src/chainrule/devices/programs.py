"""From the pieces of a training step to a program for each rank."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from chainrule.devices.instructions import (
    AllReduce,
    Await,
    Begin,
    Instruction,
    Key,
    Program,
    Receive,
    Run,
    Send,
)
from chainrule.devices.pieces import Piece, is_everywhere, piece_of
from chainrule.devices.stages import Placed
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.plan.pipelines.stages import Kind, Orders, Task
from chainrule.primitives.sources import input_


@dataclass(frozen=True, eq=False)
class Parts:
    """A training step on equal parts of a batch: `summing` adds what one part contributes to sums,
    `updating` moves the state by them.

    `sums` maps the name of a sum, in both graphs, to the name of what follows it; `following` does
    so for the arrays of the state; `owned` maps an optimizer's array to its parameter; `varying`
    are the inputs that differ from part to part.
    """

    summing: Graph
    updating: Graph
    objective: str
    sums: Mapping[str, str]
    following: Mapping[str, str]
    owned: Mapping[str, str]
    varying: frozenset[str]


@dataclass(eq=False)
class Programs:
    """Makes the programs of all ranks; rank r * stages + s is stage s of replica r."""

    parts: Parts
    placed: Placed
    orders: Orders
    replicas: int
    recompute: bool = False
    pieces: list[Piece] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stages = self.placed.count
        nodes = [*self.parts.summing.nodes, *self.parts.updating.nodes]
        numbers: dict[object, int] = {}
        self.number: dict[Node, int] = {}
        inputs = {item.node: item.name for g in self.graphs for item in g.inputs}
        for node in nodes:  # an input has the same number in both graphs
            self.number[node] = numbers.setdefault(inputs.get(node, node), len(numbers))
        self.names = {name: numbers[name] for name in inputs.values()}

    @property
    def graphs(self) -> tuple[Graph, Graph]:
        return self.parts.summing, self.parts.updating

    def programs(self) -> tuple[Program, ...]:
        """One for each rank."""
        passes = [self._passes(stage) for stage in range(self.stages)]
        updates = self._updates()
        made = []
        for replica in range(self.replicas):
            for stage in range(self.stages):
                made.append(self._program(replica, stage, passes[stage], updates))
        return tuple(made)

    # The two passes ------------------------------------------------------------------------------

    @cached_property
    def place(self) -> dict[Node, int]:
        """The stage of each node of the passes, and of each input that has one."""
        return {**self.placed.forward, **self.placed.backward, **self.placed.owner}

    @cached_property
    def read_by(self) -> dict[Node, set[int]]:
        """The stages that read each node."""
        found: dict[Node, set[int]] = {}
        for node in (*self.placed.forward, *self.placed.backward):
            for parent in node.inputs:
                found.setdefault(parent, set()).add(self.place[node])
        return found

    def _passes(self, stage: int) -> dict[Kind, list[int]]:
        """The pieces of a stage: forward, backward as far as other stages wait for it, the rest.

        Where it recomputes, the forward piece gives other stages what they read, and the first of
        the others begins with the part of the forward pass that they read here.
        """
        forward = {node for node, one in self.placed.forward.items() if one == stage}
        backward = {node for node, one in self.placed.backward.items() if one == stage}
        sent = [node for node in backward if self.read_by.get(node, set()) - {stage}]
        awaited = backward.intersection(topological(sent))
        here = forward.intersection(parent for node in backward for parent in node.inputs)
        again: list[int] = []
        if self.recompute and here and several_under_way(self.orders[stage]):
            elsewhere = {one for one in forward if self.read_by.get(one, set()) - {stage}}
            sending = forward.intersection(topological(elsewhere))
            made = self._piece(f"forward {stage}", sending, elsewhere)
            again = self._piece(f"recompute {stage}", forward.intersection(topological(here)), here)
        else:
            made = self._piece(f"forward {stage}", forward)
        first = self._piece(f"backward {stage}", awaited)
        rest = self._piece(f"gradients {stage}", backward - awaited)
        return {
            Kind.FORWARD: made,
            Kind.BACKWARD: [*again, *first] if first else [],
            Kind.WEIGHTS: rest if first else [*again, *rest],
        }

    def _piece(self, name: str, own: set[Node], gives: Collection[Node] | None = None) -> list[int]:
        """The number of a piece that gives what other pieces read, or what is said; none if it has
        nothing to do."""
        if not own:
            return []
        if gives is None:
            everyone = (*self.placed.forward, *self.placed.backward)
            read = {parent for node in everyone if node not in own for parent in node.inputs}
            gives = own & (read | set(self._after_sums))
        ordered = sorted(gives, key=self.number.__getitem__)
        self.pieces.append(piece_of(self.parts.summing, name, own, ordered, self.placed.everywhere))
        return [len(self.pieces) - 1]

    @cached_property
    def _after_sums(self) -> dict[Node, int]:
        """What follows each sum, and the number of the sum, whose place it takes."""
        names = self.parts.summing.names
        return {names[then]: self.names[name] for name, then in self.parts.sums.items()}

    def _key(self, node: Node, part: int | None) -> Key:
        """How a value is called while a part is worked on."""
        if node in self._after_sums:
            return Key(self._after_sums[node], None)
        if node.primitive is input_:
            name = next(item.name for item in self.parts.summing.inputs if item.node is node)
            return Key(self.number[node], part if name in self.parts.varying else None)
        return Key(self.number[node], part)

    def _run(self, number: int, part: int) -> Run:
        piece = self.pieces[number]
        reads = tuple(self._key(node, part) for node in piece.reads)
        return Run(number, part, reads, tuple(self._key(node, part) for node in piece.gives))

    # One rank ------------------------------------------------------------------------------------

    def _program(
        self,
        replica: int,
        stage: int,
        passes: Mapping[Kind, Sequence[int]],
        updates: Sequence[tuple[int, int]],
    ) -> Program:
        base = replica * self.stages
        rank = base + stage
        made: list[Instruction] = []
        received: set[Key] = set()
        sent: set[Key] = set()
        first = replica * self.micro_batches
        for node, owner in self.placed.owner.items():  # parameters that several stages read
            if self.number[node] in self._sum_numbers:
                continue
            key = Key(self.number[node], None)
            for reader in sorted(self.read_by.get(node, set()) - {owner}):
                if owner == stage:
                    made.append(Send(key, base + reader))
                elif reader == stage:
                    made.append(Receive(key, base + owner))
                    received.add(key)
        for task in self.orders[stage]:
            part = first + task.micro_batch
            for number in (one for kind in _kinds(task.kind) for one in passes[kind]):
                made += self._receives(number, stage, base, part, received)
                made.append(self._run(number, part))
                made += self._sends(number, stage, base, part, sent)
        sums = [
            Key(self.names[name], None)
            for name in self.parts.sums
            if self._sum_stage(name) == stage
        ]
        if self.replicas > 1 and sums:
            group = tuple(one * self.stages + stage for one in range(self.replicas))
            made.append(AllReduce(tuple(sums), group))
        results = self._update(made, stage, base, updates)
        return freeing(rank, made, tuple(results))

    @cached_property
    def micro_batches(self) -> int:
        """How many parts each replica works on."""
        return sum(task.kind is Kind.FORWARD for task in self.orders[0])

    @cached_property
    def _sum_numbers(self) -> set[int]:
        return {self.names[name] for name in self.parts.sums}

    def _sum_stage(self, name: str) -> int:
        return self.place[self.parts.summing.names[self.parts.sums[name]]]

    def _receives(
        self, number: int, stage: int, base: int, part: int, received: set[Key]
    ) -> Iterable[Receive]:
        for node in self.pieces[number].reads:
            owner = self.place.get(node, stage)
            key = self._key(node, part)
            if owner != stage and key not in received:
                received.add(key)
                yield Receive(key, base + owner)

    def _sends(
        self, number: int, stage: int, base: int, part: int, sent: set[Key]
    ) -> Iterable[Send]:
        for node in self.pieces[number].gives:
            key = self._key(node, part)
            if key in sent:  # it is computed again
                continue
            sent.add(key)
            for reader in sorted(self.read_by.get(node, set()) - {stage}):
                yield Send(key, base + reader)

    # The update ----------------------------------------------------------------------------------

    @cached_property
    def _update_stage(self) -> dict[Node, int]:
        """The stage of each node of the update that is not computed everywhere."""
        graph = self.parts.updating
        shared = is_everywhere(graph.nodes)
        found: dict[Node, int] = {}
        for item in graph.inputs:
            if item.node not in shared or item.name in self.parts.sums:
                found[item.node] = self._input_stage(item.name)
        for node in graph.nodes:
            if node in found or node.primitive is input_:
                continue
            read = [parent for parent in node.inputs if parent in found]
            if not read:
                continue
            places = {found[parent] for parent in read}
            large = [found[parent] for parent in read if parent.shape]
            found[node] = large[0] if large else places.pop() if len(places) == 1 else 0
        return found

    def _input_stage(self, name: str) -> int:
        if name in self.parts.sums:
            return self._sum_stage(name)
        owners = {item.name: item.node for item in self.parts.summing.inputs}
        parameter = name if name in owners else self.parts.owned[name]
        return self.placed.owner.get(owners[parameter], 0)

    def _updates(self) -> list[tuple[int, int]]:
        """The pieces of the update in an order in which they can run, each with its stage."""
        graph, stage = self.parts.updating, self._update_stage
        shared = {node for node in graph.nodes if node not in stage}
        level: dict[Node, int] = {}
        for node in graph.nodes:
            if node in stage:
                read = [parent for parent in node.inputs if parent in stage]
                level[node] = max(
                    (level[one] + (stage[one] != stage[node]) for one in read), default=0
                )
        wanted = {graph.names[name] for name in self.parts.following.values()}
        wanted.add(graph.names[self.parts.objective])
        made = []
        keys = sorted(
            {(level[node], stage[node]) for node in level if node.primitive is not input_}
        )
        for depth, where in keys:
            own = {
                node
                for node in level
                if (level[node], stage[node]) == (depth, where) and node.primitive is not input_
            }
            read = {parent for node in level if node not in own for parent in node.inputs}
            gives = [node for node in graph.nodes if node in own and node in read | wanted]
            self.pieces.append(piece_of(graph, f"update {where}", own, gives, shared))
            made.append((len(self.pieces) - 1, where))
        alone = [node for node in graph.nodes if node in wanted and node in shared]
        alone = [node for node in alone if node.primitive is not input_]
        if alone:  # what all stages compute alike: the first does
            self.pieces.append(piece_of(graph, "update", alone, alone, shared))
            made.append((len(self.pieces) - 1, 0))
        return made

    def _update(
        self, made: list[Instruction], stage: int, base: int, updates: Sequence[tuple[int, int]]
    ) -> list[Key]:
        """Adds the update of a stage to its program; gives what it has at the end."""
        graph, place = self.parts.updating, self._update_stage
        read_at = [(self.pieces[number].reads, where) for number, where in updates]
        received: set[Node] = set()
        for number, where in updates:
            piece = self.pieces[number]
            if where == stage:
                for node in piece.reads:
                    owner = place.get(node, stage)
                    if owner != stage and node not in received:
                        received.add(node)
                        made.append(Receive(Key(self.number[node], None), base + owner))
                reads = tuple(Key(self.number[node], None) for node in piece.reads)
                gives = tuple(Key(self.number[node], None) for node in piece.gives)
                made.append(Run(number, None, reads, gives))
            here = [*piece.gives] if where == stage else []
            for node in here:
                others = {one for reads, one in read_at if node in reads} - {stage}
                made += [Send(Key(self.number[node], None), base + one) for one in sorted(others)]
        wanted = [*self.parts.following.values(), self.parts.objective]
        mine = {
            node
            for number, where in updates
            if where == stage
            for node in self.pieces[number].gives
        }
        found = [graph.names[name] for name in wanted if graph.names[name] in mine]
        return [Key(self.number[node], None) for node in dict.fromkeys(found)]


def several_under_way(tasks: Sequence[Task]) -> bool:
    """Whether a stage ever begins a micro-batch while another one waits for its backward pass."""
    before = [task.kind is Kind.FORWARD for task in tasks]
    return any(one and other for one, other in pairwise(before))


def _kinds(kind: Kind) -> tuple[Kind, ...]:
    return (Kind.BACKWARD, Kind.WEIGHTS) if kind is Kind.WHOLE_BACKWARD else (kind,)


def freeing(rank: int, instructions: Sequence[Instruction], results: tuple[Key, ...]) -> Program:
    """The program, in which each instruction says what is not needed any more after it."""
    needed, made = set(results), list[Instruction]()
    there: set[Key] = set()
    given: dict[Key, None] = {}
    for one in instructions:
        reads = _read(one)
        given |= dict.fromkeys(key for key in reads if key not in there)
        there.update(reads)
        there.update(_given(one))
    for one in reversed(instructions):
        used = [key for key in dict.fromkeys((*_read(one), *_given(one))) if key not in needed]
        needed.difference_update(_given(one))  # a value that is computed again has several lives
        needed.update(_read(one))
        made.append(replace(one, frees=tuple(used)) if isinstance(one, (Run, Send)) else one)
    return Program(rank, tuple(given), tuple(reversed(made)), results)


def _read(one: Instruction) -> tuple[Key, ...]:
    match one:
        case Run() | Begin() | Await():
            return one.reads
        case Send():
            return (one.key,)
        case AllReduce():
            return one.keys
    return ()


def _given(one: Instruction) -> tuple[Key, ...]:
    match one:
        case Run() | Begin() | Await():
            return one.gives
        case Receive():
            return (one.key,)
        case AllReduce():
            return one.keys
    return ()
