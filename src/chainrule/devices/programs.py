"""From the pieces of a training step to a program for each rank."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from chainrule.devices.carrying import Carrying
from chainrule.devices.grid import Grid
from chainrule.devices.instructions import AllReduce, Instruction, Key, Program, Receive, Send
from chainrule.devices.keeping import computed_again, kept_of
from chainrule.devices.lives import clearing, freeing
from chainrule.devices.parts import Parts
from chainrule.devices.pieces import Piece, is_everywhere
from chainrule.devices.stages import Placed
from chainrule.devices.tensor.collectives import REPLICAS, all_reduce, is_collective
from chainrule.devices.units import Unit, Units, levels
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.plan.pipelines.stages import Kind, Orders, is_kept
from chainrule.primitives.sources import input_


@dataclass(eq=False)
class Programs:
    """Makes the programs of all ranks.

    `adds_up` says whether sums of replicas are added before the update, and not in it; `spare` has
    the bytes of a micro-batch that each chunk may keep where it recomputes.
    """

    parts: Parts
    placed: Placed
    orders: Orders
    grid: Grid
    recompute: bool = False
    adds_up: bool = True
    spare: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.units, self.kept_values = Units(self.grid), set[Node]()
        nodes = [*self.parts.summing.nodes, *self.parts.updating.nodes]
        numbers: dict[object, int] = {}
        self.number: dict[Node, int] = {}
        inputs = {item.node: item.name for g in self.graphs for item in g.inputs}
        for node in nodes:  # an input has the same number in both graphs
            alike = node.inputs[0] if node.primitive is all_reduce else node  # in its place
            if alike is not node:
                self.number[node] = self.number[alike]
                continue
            self.number[node] = numbers.setdefault(inputs.get(node, node), len(numbers))
        self.names = {name: numbers[name] for name in inputs.values()}
        self.carrying = self._carrying()

    def _carrying(self) -> Carrying:
        graph, parts = self.parts.summing, self.parts
        given = {item.name: item.node for item in graph.inputs}
        return Carrying(
            {given[name]: graph.names[then] for name, then in parts.carried.items()},
            [graph.names[then] for then in parts.sums.values()],
            {given[name] for name in parts.varying if name in given},
            self.placed,
            self.grid,
            self.micro_batches,
            self.number,
            {given[name]: self.names[then] for name, then in parts.carried.items()},
            self.read_by,
        )

    @property
    def graphs(self) -> tuple[Graph, Graph]:
        return self.parts.summing, self.parts.updating

    @property
    def pieces(self) -> list[Piece]:
        """All pieces that programs name, by their numbers."""
        return self.units.pieces

    def programs(self) -> tuple[Program, ...]:
        """One for each rank."""
        grid = self.grid
        passes = [self._passes(chunk) for chunk in range(grid.all_chunks)]
        updates = self._updates()
        own = [[passes[one] for one in grid.chunks_of(stage)] for stage in range(grid.stages)]
        return tuple(
            self._program(rank, own[grid.stage_of(rank)], updates) for rank in range(grid.count)
        )

    # The two passes ------------------------------------------------------------------------------

    @cached_property
    def place(self) -> dict[Node, int]:
        """The chunk of each node of the passes, and of each input that has one."""
        return {**self.placed.forward, **self.placed.backward, **self.placed.owner}

    @cached_property
    def read_by(self) -> dict[Node, set[int]]:
        """The chunks that read each node, also for what each chunk computes for itself."""
        found: dict[Node, set[int]] = {}
        for node in (*self.placed.forward, *self.placed.backward):
            chunk, pending = self.place[node], [*node.inputs]
            while pending:
                one = pending.pop()
                chunks = found.setdefault(one, set())
                if chunk not in chunks:
                    chunks.add(chunk)
                    pending += one.inputs if one in self.placed.everywhere else ()
        return found

    def _readers(self, node: Node, stage: int) -> list[int]:
        """The other stages that read a node."""
        stages = {self.grid.stage_with(chunk) for chunk in self.read_by.get(node, ())}
        return sorted(stages - {stage})

    def _passes(self, chunk: int) -> dict[Kind, list[Unit]]:
        """What is done for a chunk: forward, backward as far as others wait for it, the rest.

        Where it recomputes, the forward part gives other chunks what they read, and the first of
        the others begins with the part of the forward pass that they read here.
        """
        grid, label = self.grid, self.grid.label(chunk)
        forward = self._of_chunk(chunk) - self.carrying.before - self.carrying.after
        backward = {node for node, one in self.placed.backward.items() if one == chunk}
        sent = [node for node in backward if self.read_by.get(node, set()) - {chunk}]
        awaited = backward.intersection(topological(sent))
        here = forward.intersection(parent for node in backward for parent in node.inputs)
        again: list[Unit] = []
        tasks = self.orders[grid.stage_with(chunk)]
        if self.recompute and here and is_kept(tasks, chunk // grid.stages):
            leaving = {one for one in forward if self.read_by.get(one, set()) - {chunk}}
            spare = self.spare[chunk] if self.spare else 0
            kept = kept_of(self.placed.forward, forward, here, leaving, spare)
            leaving |= forward & self.carrying.handed_on
            kept |= here & self.carrying.handed_on
            self.kept_values |= kept
            leaving |= kept
            sending = forward.intersection(topological(leaving))
            made = self._units(f"forward {label}", sending, leaving)
            needed = computed_again(here, forward, kept)
            again = self._units(f"recompute {label}", needed, here - kept)
        else:
            made = self._units(f"forward {label}", forward)
        first = self._units(f"backward {label}", awaited)
        rest = self._units(f"gradients {label}", backward - awaited)
        return {
            Kind.FORWARD: made,
            Kind.BACKWARD: [*again, *first] if first else [],
            Kind.WEIGHTS: rest if first else [*again, *rest],
        }

    def _of_chunk(self, chunk: int) -> set[Node]:
        return {node for node, one in self.placed.forward.items() if one == chunk}

    def _aside(self, stage: int, nodes: Collection[Node]) -> list[Unit]:
        """What a stage computes of such nodes, which are no part of the passes."""
        chunks = [(at, self._of_chunk(at).intersection(nodes)) for at in self.grid.chunks_of(stage)]
        return [
            one
            for chunk, own in chunks
            for one in self._units(f"forward {self.grid.label(chunk)}, state", own)
        ]

    def _units(
        self, name: str, own: set[Node], gives: Collection[Node] | None = None
    ) -> list[Unit]:
        """What gives what others read, or what is said; nothing if there is nothing to do."""
        graph = self.parts.summing
        if gives is None:
            everyone = (*self.placed.forward, *self.placed.backward)
            read = {parent for node in everyone if node not in own for parent in node.inputs}
            gives = read | {*self._after_sums, *self.carrying.follows}
        level = levels(graph.nodes, dict.fromkeys(own, 0))
        made: list[Unit] = []
        for at in range(max(level.values(), default=-1) + 1):
            nodes = {node for node, one in level.items() if one == at}
            here = {node for node in nodes if not is_collective(node)}
            needed = {parent for node in own - here for parent in node.inputs}
            shared = self.placed.everywhere
            made += self.units.of_level(graph, name, nodes, needed.union(gives), shared)
        return made

    @cached_property
    def _input_names(self) -> dict[Node, str]:
        return {item.node: item.name for item in self.parts.summing.inputs}

    @cached_property
    def _after_sums(self) -> dict[Node, int]:
        """What follows each sum, and the number of the sum, whose place it takes."""
        names = self.parts.summing.names
        return {names[then]: self.names[name] for name, then in self.parts.sums.items()}

    def _key(self, node: Node, part: int | None) -> Key:
        """How a value is called while a part is worked on."""
        carried = None if part is None else self.carrying.key(node, part)
        if carried is not None:
            return carried
        if node in self._after_sums:
            return Key(self._after_sums[node], None)
        if node.primitive is input_:
            name = self._input_names[node]
            return Key(self.number[node], part if name in self.parts.varying else None)
        return Key(self.number[node], part)

    # One rank ------------------------------------------------------------------------------------

    def _program(
        self,
        rank: int,
        chunks: Sequence[Mapping[Kind, Sequence[Unit]]],
        updates: Sequence[tuple[Unit, int]],
    ) -> Program:
        grid, stage = self.grid, self.grid.stage_of(rank)
        made: list[Instruction] = []
        received: set[Key] = set()
        sent: set[Key] = set()
        carrying, first = self.carrying, self.carrying.first_part(rank)

        def run(units: Iterable[Unit], part: int) -> None:
            for unit in units:
                made.extend(self._receives(unit, rank, part, received))
                key = partial(self._key, part=part)
                made.append(unit.instruction(rank, grid, part, key))
                made.extend(self._sends(unit, rank, part, sent))

        def carry(arrays: Collection[Node], nodes: Collection[Node]) -> None:
            made.extend(carrying.taken_over(arrays, rank))
            units = self._aside(stage, nodes)
            for part in range(first, first + self.micro_batches):
                run(units, part)
            made.extend(carrying.handed_over(arrays, rank))

        for node, owner in self.placed.owner.items():  # parameters that several stages read
            if self.number[node] in self._sum_numbers or node in carrying.following:
                continue
            key, holder = Key(self.number[node], None), grid.stage_with(owner)
            for reader in self._readers(node, holder):
                if holder == stage:
                    made.append(Send(key, self._at(rank, reader)))
                elif reader == stage and holder < stage:  # else only its backward pass reads it
                    made.append(Receive(key, self._at(rank, holder)))
                    received.add(key)
        if grid.replicas > 1:
            carry(carrying.first, carrying.before)
        else:
            made += carrying.taken_over(carrying.following, rank)
        for task in self.orders[stage]:
            passes = chunks[task.chunk]
            units = (one for kind in _kinds(task.kind) for one in passes[kind])
            run(units, first + task.micro_batch)
        if grid.replicas > 1:
            carry(carrying.last, carrying.after)
            made += carrying.given_back(rank)
        sums = [
            Key(self.names[name], None)
            for name in self.parts.sums
            if self._sum_stage(name) == stage
        ]
        made = clearing(made, sums)
        if grid.replicas > 1 and sums and self.adds_up:
            made.append(AllReduce(tuple(sums), grid.group(rank, REPLICAS), in_place=True))
        results = self._update(made, rank, updates)
        return freeing(rank, made, tuple(results))

    def _at(self, rank: int, stage: int) -> int:
        """The rank like this one in another stage."""
        return self.grid.rank(self.grid.replica_of(rank), stage, self.grid.shard_of(rank))

    @cached_property
    def micro_batches(self) -> int:
        """How many parts each replica works on."""
        return sum(task.kind is Kind.FORWARD and not task.chunk for task in self.orders[0])

    @cached_property
    def _sum_numbers(self) -> set[int]:
        return {self.names[name] for name in self.parts.sums}

    def _sum_stage(self, name: str) -> int:
        chunk = self.place[self.parts.summing.names[self.parts.sums[name]]]
        return self.grid.stage_with(chunk)

    def _receives(self, unit: Unit, rank: int, part: int, received: set[Key]) -> Iterable[Receive]:
        stage = self.grid.stage_of(rank)
        for node in unit.reads:
            owner = self.grid.stage_with(self.place.get(node, stage))
            key = self._key(node, part)
            if owner != stage and key not in received:
                received.add(key)
                yield Receive(key, self._at(rank, owner))

    def _sends(self, unit: Unit, rank: int, part: int, sent: set[Key]) -> Iterable[Send]:
        for node in unit.gives:
            key = self._key(node, part)
            if key in sent:  # it is computed again
                continue
            stages = {*self._readers(node, self.grid.stage_of(rank))}
            for reader in sorted(stages.union(self.carrying.next_readers(node, rank, part))):
                sent.add(key)
                yield Send(key, self._at(rank, reader))

    # The update ----------------------------------------------------------------------------------

    @cached_property
    def _update_stage(self) -> dict[Node, int]:
        """The stage of each node of the update that is not computed everywhere."""
        graph = self.parts.updating
        shared = is_everywhere(graph.nodes)
        found: dict[Node, int] = {}
        repeated: set[Node] = set()  # arrays that are made of numbers alone
        for item in graph.inputs:
            is_given = item.name in self.parts.sums or item.name in self._left
            if item.node not in shared or is_given:
                found[item.node] = self._input_stage(item.name)
        for node in graph.nodes:
            if node in found or node.primitive is input_:
                continue
            read = [parent for parent in node.inputs if parent in found]
            if not read:
                continue
            places = {found[parent] for parent in read}
            large = [parent for parent in read if parent.shape and parent not in repeated]
            found[node] = found[large[0]] if large else places.pop() if len(places) == 1 else 0
            if node.shape and not large:
                repeated.add(node)
        for node in reversed(graph.nodes):  # a number is sent, and repeated where it is read
            found |= {one: found[node] for one in node.inputs if one in repeated}
        return found

    def _input_stage(self, name: str) -> int:
        if name in self.parts.sums:
            return self._sum_stage(name)
        name = self._left.get(name, name)
        owners = {item.name: item.node for item in self.parts.summing.inputs}
        parameter = name if name in owners else self.parts.owned[name]
        return self.grid.stage_with(self.placed.owner.get(owners[parameter], 0))

    @cached_property
    def _left(self) -> dict[str, str]:
        """The arrays of the objective's state by what follows them, which the update reads."""
        return {then: name for name, then in self.parts.carried.items()}

    def _updates(self) -> list[tuple[Unit, int]]:
        """What does the update in an order in which it can run, each with its stage."""
        graph, stage = self.parts.updating, self._update_stage
        shared = {node for node in graph.nodes if node not in stage}
        level = levels(graph.nodes, stage)
        wanted = {graph.names[name] for name in self.parts.following.values()}
        wanted.add(graph.names[self.parts.objective])
        computed = [node for node in level if node.primitive is not input_]
        made: list[tuple[Unit, int]] = []
        for depth, where in sorted({(level[node], stage[node]) for node in computed}):
            own = {node for node in computed if (level[node], stage[node]) == (depth, where)}
            here = {node for node in own if not is_collective(node)}
            read = {parent for node in level if node not in here for parent in node.inputs}
            units = self.units.of_level(graph, f"update {where}", own, read | wanted, shared)
            made += [(unit, where) for unit in units]
        alone = {node for node in wanted if node in shared and node.primitive is not input_}
        # What all stages compute alike: the first does.
        made += [(one, 0) for one in self.units.of_level(graph, "update", alone, alone, shared)]
        return made

    def _update(
        self, made: list[Instruction], rank: int, updates: Sequence[tuple[Unit, int]]
    ) -> list[Key]:
        """Adds the update of a rank to its program; gives what it has at the end."""
        graph, place = self.parts.updating, self._update_stage
        stage = self.grid.stage_of(rank)
        received: set[Node] = set()
        mine: set[Node] = set()

        def key(node: Node) -> Key:
            return Key(self.number[node], None)

        for unit, where in updates:
            if where != stage:
                continue
            for node in unit.reads:
                owner = place.get(node, stage)
                if owner != stage and node not in received:
                    received.add(node)
                    made.append(Receive(key(node), self._at(rank, owner)))
            made.append(unit.instruction(rank, self.grid, None, key))
            mine.update(unit.gives)
            for node in unit.gives:
                others = {at for one, at in updates if node in one.reads} - {stage}
                made += [Send(key(node), self._at(rank, one)) for one in sorted(others)]
        wanted = [*self.parts.following.values(), self.parts.objective]
        found = [graph.names[name] for name in wanted if graph.names[name] in mine]
        return [key(node) for node in dict.fromkeys(found)]


def _kinds(kind: Kind) -> tuple[Kind, ...]:
    return (Kind.BACKWARD, Kind.WEIGHTS) if kind is Kind.WHOLE_BACKWARD else (kind,)
