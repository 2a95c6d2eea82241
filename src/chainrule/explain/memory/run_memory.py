"""One run of a graph at given sizes, training or prediction: its bytes by purpose."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING

from chainrule.dataclass import dataclass
from chainrule.execute.executor import Program
from chainrule.execute.executors import executor_of, prepare
from chainrule.explain.memory.kinds import Kind, kinds_of, saved_values
from chainrule.explain.memory.lying import Lying
from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.graph.words import names_of
from chainrule.plan.products.formula import operand_text
from chainrule.plan.speeds import SPEEDS
from chainrule.primitives.logic import cast
from chainrule.schedule.records import Compute, Schedule
from chainrule.schedule.usage import Life, Usage, usage_of

if TYPE_CHECKING:
    from chainrule.explain.memory.timeline import Moment
    from chainrule.plan.speeds import Speeds

PADDING, WORKSPACE = "padding", "workspace"


@dataclass(frozen=True, eq=False)
class RunMemory:
    """What a run needs.  `graph` is concrete; bytes are those of the executor's own schedule, which
    its `program` has.

    `peak_nbytes` is everything: arrays given, results, and what the run allocates.
    """

    graph: Graph
    usage: Usage
    kinds: Mapping[Node, Kind]
    program: Program

    @property
    def peak_nbytes(self) -> int:
        """The bytes allocated when most are."""
        return self.usage.peak_nbytes

    @property
    def peak_instruction(self) -> int:
        """The first instruction at the peak, counted from 1."""
        return self.usage.peak_instruction

    @property
    def padding_nbytes(self) -> int:
        """Bytes at the peak that belong to no value: alignment, and gaps of placement."""
        return self.usage.padding_nbytes

    @cached_property
    def names(self) -> Mapping[Node, str]:
        """What every node of the graph is called, also those without a name: `%7`, and what the
        executor computes beside them (the factors of a matrix).

        Those that only rearrange or pad a value are called after it: `pad(x)`.
        """
        graph = self.usage.schedule.graph
        found, named = names_of(graph), graph.name_of
        taken = set(found.values())
        for node in graph.nodes:
            if node not in named:
                text = operand_text(node, found.__getitem__, named)
                if text not in taken:
                    found[node] = text
                    taken.add(text)
        return found

    @cached_property
    def alive_at_peak(self) -> Mapping[str, int]:
        """The values in memory at the peak, by name, with their bytes; the largest first.

        Unnamed values are called as in the graph's text, `%3`.
        """
        names = self.names
        alive = [one for one in self.usage.alive_at(self.peak_instruction) if not one.in_place]
        alive.sort(key=lambda life: (-life.nbytes, names[life.node]))
        found: dict[str, int] = {}
        for life in alive:  # two of a given array that is copied
            found[names[life.node]] = found.get(names[life.node], 0) + life.nbytes
        return found

    @cached_property
    def shown_kinds(self) -> tuple[Kind, ...]:
        """What tables and timelines show: every kind, carried state where there is any."""
        carries = Kind.CARRIED in self.kinds.values()
        return tuple(kind for kind in Kind if carries or kind is not Kind.CARRIED)

    @cached_property
    def parts(self) -> Mapping[str, int]:
        """The bytes at the peak by what they are for; their sum is `peak_nbytes`."""
        found = {str(kind): 0 for kind in self.shown_kinds}
        for life in self.usage.alive_at(self.peak_instruction):
            if not life.in_place:
                found[str(self.kinds[life.node])] += life.nbytes
        found[WORKSPACE] = self.usage.workspaces[self.peak_instruction]
        found[PADDING] = self.padding_nbytes
        return found

    @cached_property
    def computes(self) -> tuple[Compute, ...]:
        """The instructions that compute; the first is instruction 1."""
        found = self.usage.schedule.instructions
        return tuple(one for one in found if isinstance(one, Compute))

    def durations(self, speeds: Speeds | None = None) -> tuple[float, ...]:
        """About how many nanoseconds each of `computes` takes, on a machine with these speeds;
        none where the executor does not say."""
        known = getattr(self.program, "durations", None)
        return () if known is None else tuple(known(speeds))

    def nanoseconds(self, speeds: Speeds | None = None) -> float:
        """About how long a run takes, copies of arguments included; 0 where the executor does not
        say: neither for instructions nor for all of them (`nanoseconds` of its program)."""
        whole = getattr(self.program, "nanoseconds", None)
        found = fsum(self.durations(speeds)) if whole is None else whole(speeds)
        copied = sum(self.usage.copied.values())
        if not (found and copied):
            return found
        known = getattr(self.program, "speeds", SPEEDS[64]) if speeds is None else speeds
        return found + known.copying(copied)

    @cached_property
    def users(self) -> Mapping[Node, tuple[Node, ...]]:
        """Which values are computed from each."""
        found: dict[Node, list[Node]] = {}
        for node in self.graph.nodes:
            for parent in dict.fromkeys(node.inputs):
                found.setdefault(parent, []).append(node)
        return {node: tuple(users) for node, users in found.items()}

    @cached_property
    def timeline(self) -> tuple[Moment, ...]:
        """The bytes in use by kind, before the first instruction and during each."""
        from chainrule.explain.memory.timeline import timeline_of

        return timeline_of(self)

    @property
    def computed(self) -> Iterator[Node]:
        """The values that instructions compute."""
        return (node for one in self.computes for node in (*one.nodes, *one.inner))

    def computed_at(self, number: int) -> set[Node]:
        """The values that an instruction computes, written or on the way."""
        one = self.computes[number - 1]
        return {*one.nodes, *one.inner}

    @cached_property
    def computed_in(self) -> Mapping[Node, tuple[int, ...]]:
        """The instructions that compute each value, written or on the way."""
        found: dict[Node, tuple[int, ...]] = {}
        for number, one in enumerate(self.computes, 1):
            for node in dict.fromkeys((*one.nodes, *one.inner)):
                found[node] = (*found.get(node, ()), number)
        return found

    def written_at(self, number: int) -> tuple[Node, ...]:
        """The values that an instruction writes."""
        return self.computes[number - 1].nodes

    def reads_at(self, number: int, node: Node) -> bool:
        """Whether an instruction reads the value from memory."""
        return number > 0 and node in self.computes[number - 1].reads

    @cached_property
    def _made(self) -> Mapping[Node, int]:
        found: dict[Node, int] = {}
        for number, one in enumerate(self.computes, 1):
            for node in (*one.nodes, *one.inner):
                found.setdefault(node, number)
        return found

    def made_at(self, node: Node) -> int:
        """The first instruction that computes a value; 0 for what is given or never computed."""
        return self._made.get(node, 0)

    @cached_property
    def lives_of(self) -> Mapping[Node, tuple[Life, ...]]:
        """The lives of each value in memory, in order of birth; of a given one without copies."""
        found: dict[Node, tuple[Life, ...]] = {}
        for life in self.usage.lives:
            before = () if life.node in self.usage.schedule.given else found.get(life.node, ())
            found[life.node] = (*before, life)
        return found

    @cached_property
    def life_of(self) -> Mapping[Node, Life]:
        """The last life of each value in memory."""
        return {node: lives[-1] for node, lives in self.lives_of.items()}


def run_memory_of(
    graph: Graph,
    results: Sequence[Node],
    *,
    objectives: Collection[Node],
    parameters: Collection[Node],
    state: Collection[Node] = (),
    carried: Collection[Node] = (),
    overwrites: Mapping[Node, Node] | None = None,
    executor: str,
    lying: Mapping[str, Lying] | None = None,
) -> RunMemory:
    """The run that computes `results` of a concrete graph by this executor, where the inputs
    with these names lie so."""
    lies = {x.node: lying[x.name] for x in graph.inputs if x.name in lying} if lying else {}
    traits = executor_of(executor).traits
    copied = {
        node: one.copies(node, c_order_only=traits.c_order_only) for node, one in lies.items()
    }
    program = prepare(executor, graph, results, overwrites)
    schedule = program.schedule({node: one.outline(node) for node, one in lies.items()})
    usage = usage_of(schedule, results, block=traits.one_block, copied=copied)
    forward = _forward_of(graph, objectives) if graph.gradients else set(graph.nodes)
    forward |= _beside(usage.schedule, graph, forward)
    saved = saved_values(usage.schedule, forward)
    kinds = kinds_of(usage.schedule.graph, saved, parameters, state, carried, results)
    return RunMemory(graph, usage, kinds, program)


def _forward_of(graph: Graph, objectives: Collection[Node]) -> set[Node]:
    """The nodes of forward propagation, and the narrower copies of them that it ends with
    (`saved=`)."""
    forward = set(topological(objectives))
    for node in graph.nodes:
        if node in forward or not node.inputs:
            continue
        narrower = node.primitive is cast and node.dtype.itemsize < node.inputs[0].dtype.itemsize
        if not narrower or node.inputs[0] not in forward:
            break
        forward.add(node)
    return forward


def _beside(schedule: Schedule, graph: Graph, forward: Collection[Node]) -> set[Node]:
    """What forward propagation reads that is no node of the graph: factors of a matrix."""
    beside = {*schedule.graph.nodes} - {*graph.nodes} if schedule.graph is not graph else set()
    reading = (one for one in schedule.instructions if isinstance(one, Compute))
    return {
        node
        for one in reading
        if beside and any(node in forward for node in (*one.nodes, *one.inner))
        for node in one.reads
        if node in beside
    }
