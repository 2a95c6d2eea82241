"""Splits a step at some sizes: its nodes to stages, these to pieces, a program for each rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass, field, replace
from chainrule.devices.check import check_programs
from chainrule.devices.commits import Commits, commits_of
from chainrule.devices.cores import threads_of_rank
from chainrule.devices.evening import evened
from chainrule.devices.graphs import graphs_of
from chainrule.devices.grid import Grid
from chainrule.devices.instructions import AllReduce, Key, Program, Run
from chainrule.devices.job import launched
from chainrule.devices.merging import merged
from chainrule.devices.messages import Lent, lent
from chainrule.devices.overlap import Overlapping
from chainrule.devices.parts import Parts
from chainrule.devices.pieces import Piece
from chainrule.devices.planning.devices import THREADS, Devices
from chainrule.devices.programs import Programs
from chainrule.devices.rank import Code
from chainrule.devices.replicas import adding
from chainrule.devices.reports.times import adding_seconds
from chainrule.devices.stages import (
    MEMORY,
    Placed,
    cuts_after,
    cuts_of_least_load,
    cuts_of_least_memory,
    placed,
)
from chainrule.devices.tensor.collectives import is_collective, own_part
from chainrule.devices.tensor.layouts import Layout
from chainrule.devices.tensor.step import Lying
from chainrule.errors import ChainruleError, InvariantError
from chainrule.execute.executor import Overwriting
from chainrule.execute.executors import executor_of, executor_on, prepare
from chainrule.graph.cached import cached_property
from chainrule.graph.frozen import Frozen
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType
from chainrule.graph.words import names_of
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.plan.pipelines.stages import Orders
from chainrule.plan.speeds import SPEEDS
from chainrule.schedule.records import Compute
from chainrule.train.step.micro_batches import MicroBatchedStep, note_part
from chainrule.version import VERSION

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep

Seconds = Callable[[Node], float]
MOST_READ = 4  # replicas that are processes, whose gradients each of them reads


@dataclass(frozen=True, eq=False)
class Split(Frozen):
    """A step at some sizes: its pieces, and the program of each rank."""

    _called = "a training step that is split"

    sizes: Mapping[str, int]  # of the whole batch
    graph: Graph  # of the two passes
    placed: Placed
    pieces: tuple[Piece, ...]
    programs: tuple[Program, ...]
    names: Mapping[str, int]  # the numbers of inputs
    ends: Mapping[str, int]  # the numbers of what replaces arrays of the state, and the objective
    compiled: tuple[Any, ...]
    values: Mapping[int, tuple[str, ArrayType]]  # the name and the type of each number
    text: str  # which step it is, in words
    threads: int  # that each rank works on
    lying: Lying
    layouts: Mapping[Node, Layout]  # of the values of the two passes, on shards
    reasons: Mapping[str, str]  # why parameters are split
    exchanged: Mapping[int, tuple[Graph, Node]]  # values that ranks of a group make together
    commits: Commits
    micro_batches: int
    rows: int  # of a micro-batch
    kept: frozenset[Node]  # values of the forward pass that stages keep where they recompute
    # Inputs of the last pieces for the values of all replicas, by piece and number of the value.
    replicas_read: Mapping[int, Mapping[int, tuple[Node, ...]]]
    lent: Lent
    _ready: set[int] = field(default_factory=set, repr=False)

    @cached_property
    def code(self) -> tuple[Code, ...]:
        """What runs each piece; sums are added up in place where its program can."""
        return tuple(
            one.overwriting if isinstance(one, Overwriting) else _anywhere(one)
            for one in self.compiled
        )

    @cached_property
    def replacing(self) -> Mapping[str, Key]:
        """What replaces the arrays of the state, and the objective."""
        return {name: Key(end, None) for name, end in self.ends.items()}

    @property
    def shown(self) -> frozenset[AllReduce]:
        """The sums that nobody adds up before the update, which reads what all replicas have."""
        return self.commits.sums if self.replicas_read else frozenset()

    def make_ready(self, rank: int) -> None:
        """Makes what the last pieces of a rank need, so that they cannot fail for want of it."""
        if rank not in self._ready:
            for one in self.programs[rank].instructions[self.commits.at[rank] :]:
                if isinstance(one, Run):
                    self.compiled[one.piece].make_ready()
            self._ready.add(rank)

    @property
    def idle(self) -> list[int]:
        """The stages that compute nothing."""
        grid, idle = self.lying.grid, {*self.placed.idle}
        return [stage for stage in range(grid.stages) if idle.issuperset(grid.chunks_of(stage))]

    def note(self, error: ChainruleError, micro_batch: int) -> None:
        """Notes which rows of the batch an error is about."""
        note_part(error, micro_batch, self.micro_batches, self.rows, "micro-batch")

    @property
    def name_of(self) -> Mapping[Node, str]:
        """The user's names of the values of the two passes."""
        return self.graph.name_of


def split_of(step: ParallelStep, sizes: Mapping[str, int]) -> Split:
    """The pieces and the programs of a step, for a part of a batch of these sizes."""
    graphs = graphs_of(step, sizes)
    parts, cuts, chosen = graphs.parts, graphs.cuts, graphs.chosen
    graph = parts.summing
    inputs = {item.name: item.node for item in graph.inputs}
    sums = {inputs[name]: graph.names[then] for name, then in parts.sums.items()}
    threads = threads_of_rank(step.ranks)
    executor = executor_on(step.parts.whole.executor, threads)
    weights = weights_of(step.devices, step.grid, step.balance)
    grid, orders = step.grid, step.orders
    place = placed_step(step.parts, parts, grid, orders, step.ends, step.balance, executor, weights)
    making = Programs(
        parts,
        place,
        step.orders,
        step.grid,
        step.recompute,
        adds_up=not step.shard_optimizer,
        spare=step.spare,
    )
    programs, pieces = making.programs(), list(making.pieces)
    if executor_of(executor).traits.has_kernels:  # which fuse
        programs, pieces = merged(programs, pieces, graph)
    if step.replicas > 1:
        overlapping = Overlapping(
            pieces,
            making.graphs,
            making.number,
            {making.names[name]: graph.names[then] for name, then in parts.sums.items()},
            {making.names[name]: int(graph.names[name].type.nbytes) for name in parts.sums},
        )
        programs, pieces = overlapping.programs(programs), overlapping.made
    try:
        check_programs(programs, parts.given(making.names, step.parts.count))
    except InvariantError:
        making.carrying.refuse_circles(parts, step.order)
        raise
    ends = {
        name: making.number[parts.updating.names[then]]
        for name, then in {**parts.following, parts.objective: parts.objective}.items()
    }
    none = Commits(tuple(len(one.instructions) for one in programs), {})
    # Of parts of arrays, ranks that are threads have copies.
    has_parts = step.ways > 1 or step.shard_optimizer
    commits = none if has_parts else commits_of(programs, ends, making.names)
    follows = {then: one for one, then in sums.items()}
    of_number = {making.number[item.node]: item.node for item in parts.updating.inputs}
    follows |= {
        node: of_number[commits.taken[number]]
        for node, number in making.number.items()
        if number in commits.taken
    }
    last = {
        one.piece
        for program, at in zip(programs, commits.at, strict=True)
        for one in program.instructions[at:]
        if isinstance(one, Run)
    }

    def prepared(number: int, executor: str) -> Any:
        piece = pieces[number]
        return prepare(
            executor,
            piece.graph,
            list(dict.fromkeys(piece.gives.values())),
            {
                piece.reads[follows[then]]: made
                for then, made in piece.gives.items()
                if then in follows and follows[then] in piece.reads
            },
        )

    compiled = {one: prepared(one, executor) for one in range(len(pieces)) if one not in last}
    replicas_read: dict[int, Mapping[int, tuple[Node, ...]]] = {}
    if not all(isinstance(one, Overwriting) for one in compiled.values()):
        commits = none
    if commits.taken and _see_each_other(step):
        read = {key.value for one in commits.sums for key in one.keys}
        added = {node for node, number in making.number.items() if number in read}
        for one in last:
            pieces[one], found = adding(pieces[one], added, step.replicas)
            replicas_read[one] = {making.number[node]: inputs for node, inputs in found.items()}
    if launched() is None and commits.taken:  # the first of replicas updates for all
        executor = executor_on(step.parts.whole.executor, threads * step.replicas)
    compiled |= {one: prepared(one, executor) for one in last}
    at = {**sizes, step.parts.size: sizes[step.parts.size] * step.parts.count}
    values: dict[int, tuple[str, ArrayType]] = {}
    for one in making.graphs:
        names = names_of(one)
        for node in one.nodes:
            if node in one.name_of or making.number[node] not in values:
                values[making.number[node]] = names[node], node.type
    groups = () if step.devices is None else step.devices.groups
    has_limits = any(one.memory_nbytes for one in groups)
    where = ", ".join(f"{name}={size}" for name, size in sorted(at.items()))
    text = (
        f"{step.parts.whole.graph.name} in {step.parts.count} parts with {where}, {step.stages} "
        f"stages, {step.replicas} replicas{f', {step.ways} ways' if step.ways > 1 else ''}, "
        f"{step.order}{', recomputing' if step.recompute else ''}"
        f"{', optimizer sharded' if step.shard_optimizer else ''}, chainrule {VERSION}"
    )
    return Split(
        at,
        graph,
        place,
        tuple(pieces),
        programs,
        making.names,
        ends,
        tuple([compiled[one] for one in range(len(pieces))]),
        values,
        text,
        threads,
        Lying(step.grid, cuts),
        graphs.layouts,
        {} if chosen is None else chosen.reasons,
        {
            making.number[node]: (one, node)
            for one in making.graphs
            for node in one.nodes
            if is_collective(node)
        },
        commits,
        step.parts.count,
        sizes[step.parts.size],
        frozenset(making.kept_values),
        replicas_read,
        {} if has_limits else lent(programs, {one: kind for one, (_, kind) in values.items()}),
    )


def _anywhere(program: Any) -> Code:
    """The code of a program whose results always have memory of their own."""
    return lambda inputs, _: program(inputs)


def _see_each_other(step: ParallelStep) -> bool:
    """Whether replicas read each other's gradients where they lie; of many processes, each adds
    only its share of them."""
    if launched() is None or step.replicas == 1:
        return step.replicas > 1
    from chainrule.devices.mpi import join

    return step.replicas <= MOST_READ and join().shares_memory


def placed_step(
    step: MicroBatchedStep,
    parts: Parts,
    grid: Grid,
    orders: Orders,
    ends: Sequence[str] | None,
    balance: str,
    executor: str,
    weights: Sequence[float] = (),
) -> Placed:
    """The chunk of each node of the two passes; `ends` names what chunks end with, if that is
    said; else `balance` is what is shared out evenly to them: bytes, or the times of `executor`,
    which have `weights` where the devices of stages differ.  Stages work in these `orders`."""
    graph, chunks = parts.summing, grid.all_chunks
    inputs = {item.name: item.node for item in graph.inputs}
    sums = {inputs[name]: graph.names[then] for name, then in parts.sums.items()}
    parameters = [inputs[name] for name in step.whole.parameters]
    by_time = ends is None and balance != MEMORY and chunks > 1
    seconds = _times(graph, executor, sums) if by_time else _no_time
    place = placed(
        graph,
        graph.names[parts.objective],
        sums,
        parameters,
        {inputs[name]: graph.names[then] for name, then in parts.carried.items()},
        chunks,
        _cuts(parts, chunks, ends, balance, seconds, weights),
    )
    if by_time:
        place = evened(place, parameters, grid, orders, seconds, weights)
    owner = dict(place.owner)
    for name, of in parts.summed.items():  # no later than what is added, which never goes forward
        if of is not None:
            added = graph.names[parts.sums[name]].inputs
            early = [place.backward[one] for one in added if one in place.backward]
            owner[inputs[of]] = min([owner[inputs[of]], *early])
    for name, of in parts.summed.items():
        last = place.forward[graph.names[parts.objective]]
        owner[inputs[name]] = last if of is None else owner[inputs[of]]
    backward = dict(place.backward)
    for name, then in parts.sums.items():
        backward[graph.names[then]] = owner[inputs[name]]
    return replace(place, backward=backward, owner=owner)


def _cuts(
    parts: Parts,
    chunks: int,
    ends: Sequence[str] | None,
    balance: str,
    seconds: Seconds,
    weights: Sequence[float],
) -> Callable[[Sequence[Node]], Mapping[Node, int]]:
    if ends is not None:
        return cuts_after(parts.summing, ends)
    if balance == MEMORY:
        state = parts.nbytes_of_parameters()
        return cuts_of_least_memory(parts.summing, state, chunks, weights)
    return cuts_of_least_load(parts.summing, seconds, chunks, weights)


def _times(graph: Graph, executor: str, sums: Mapping[Node, Node]) -> Seconds:
    """About how long a rank takes for each node."""
    if any(map(is_collective, graph.nodes)):
        return _seconds
    known = node_seconds(prepare(executor, graph, list(sums.values()), sums))
    return lambda node: known.get(node, 0.0)


def _no_time(node: Node) -> float:
    return 0.0


def weights_of(devices: Devices | None, grid: Grid, balance: str) -> tuple[float, ...]:
    """How many times as long the ranks of each chunk take as the quickest, or how many times as
    few bytes they have; none where all are alike, or have no limit."""
    if devices is None:
        return ()
    groups = [devices.group_of(rank) for rank in range(grid.count)]
    if balance == MEMORY:
        has = [float(one.memory_nbytes or 0) for one in groups]
    else:
        has = [one.flops("float32") for one in groups]
    least = [min(has[rank] for rank in grid.of_stage(stage)) for stage in range(grid.stages)]
    if len(set(least)) == 1 or not min(least):
        return ()
    return tuple(max(least) / least[grid.stage_with(one)] for one in range(grid.all_chunks))


def _seconds(node: Node) -> float:
    """About how long a rank takes for a node of the graph of a shard, in NumPy."""
    if is_collective(node):
        return adding_seconds(int(node.type.nbytes), node.param("ways"), THREADS)
    if node.primitive is own_part:  # a view
        return 0.0
    return node_nanoseconds(node, SPEEDS[64].numpy) / 1e9


def node_seconds(program: Any) -> dict[Node, float]:
    """About how long a program takes for each node: its share of the instruction that computes it,
    as NumPy's times are to each other; these themselves where the executor does not say."""
    numpy = SPEEDS[64].numpy
    if not hasattr(program, "durations"):
        return {node: node_nanoseconds(node, numpy) / 1e9 for node in program.graph.nodes}
    computes = [one for one in program.schedule({}).instructions if isinstance(one, Compute)]
    found: dict[Node, float] = {}
    known = getattr(program.plan, "speeds", SPEEDS[64])  # of no machine: cuts must not depend on it
    for one, taken in zip(computes, program.durations(known), strict=True):
        weights = {node: node_nanoseconds(node, numpy) for node in (*one.nodes, *one.inner)}
        whole = sum(weights.values())
        for node, weight in weights.items():
            share = weight / whole if whole else 1 / len(weights)
            found[node] = found.get(node, 0.0) + taken * share / 1e9
    return found
