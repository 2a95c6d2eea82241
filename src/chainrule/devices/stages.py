"""Which stage of a pipeline each node of a training step belongs to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from chainrule.dataclass import dataclass
from chainrule.devices.pieces import is_everywhere
from chainrule.devices.proportion import cut_in_proportion
from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.plan import split
from chainrule.primitives.sources import input_

MESSAGE_SECONDS = 20e-6  # that a message takes between threads, whatever its size
BYTES_EACH_SECOND = 5e9
TIME, MEMORY = "time", "memory"  # what is shared out to stages so that the largest share is least


@dataclass(frozen=True)
class Placed:
    """`forward` and `backward` map the nodes of the two passes to stages; `owner` does so for the
    inputs that live on one stage: parameters, on the first stage that reads them or computes a part
    of their gradients; the sums of these; and the objective's own state, where it is computed.
    `everywhere` are the nodes that each stage computes for itself, `moved` those of the backward
    pass that are earlier than what they are made for.  Where stages have several chunks, these are
    numbered here in place of stages: chunk c is on stage c % stages.
    """

    count: int
    forward: Mapping[Node, int]
    backward: Mapping[Node, int]
    owner: Mapping[Node, int]
    everywhere: frozenset[Node]
    moved: frozenset[Node] = frozenset()

    @property
    def idle(self) -> list[int]:
        """The stages that compute nothing."""
        busy = {*self.forward.values(), *self.backward.values(), *self.owner.values()}
        return [stage for stage in range(self.count) if stage not in busy]

    def on(self, other: Mapping[Node, Node]) -> Placed:
        """The same places for the nodes of another graph, by those of this one."""

        def places(known: Mapping[Node, int]) -> dict[Node, int]:
            return {other[node]: stage for node, stage in known.items()}

        everywhere, moved = (
            frozenset(other[node] for node in nodes) for nodes in (self.everywhere, self.moved)
        )
        forward, backward = places(self.forward), places(self.backward)
        return Placed(self.count, forward, backward, places(self.owner), everywhere, moved)


def placed(
    graph: Graph,
    objective: Node,
    sums: Mapping[Node, Node],
    parameters: Collection[Node],
    carried: Mapping[Node, Node],
    count: int,
    cuts: Callable[[Sequence[Node]], Mapping[Node, int]],
) -> Placed:
    """Places the nodes of a graph whose outputs are sums of gradients.

    `sums` maps the input of each sum to the value that is added, `carried` that of each array of
    the objective's state to what follows it; `cuts` places the nodes of the
    forward pass that depend on the data, each on no earlier stage than those it reads.
    """
    everywhere = is_everywhere(graph.nodes, carried) - {*carried.values()}

    def computed(ends: Iterable[Node]) -> list[Node]:
        found = (node for node in topological(ends) if node.primitive is not input_)
        return [node for node in found if node not in everywhere]

    forward_nodes = computed([objective])
    of_data = _depending(forward_nodes, {*parameters, *carried})
    forward = dict(cuts([node for node in forward_nodes if node in of_data]))
    owner = _owners(forward, parameters)
    for node in forward_nodes:  # penalties: where their parameters are
        if node not in forward:
            read = [forward.get(parent, owner.get(parent, 0)) for parent in node.inputs]
            forward[node] = max(read, default=0)
    late = {node: forward[node] for node in forward_nodes}
    for node in forward_nodes:  # no earlier than what they read
        late[node] = max([late[node], *(late[one] for one in node.inputs if one in late)])
    late = _with_state(late, owner, computed(carried.values()))
    owner |= {node: late[then] for node, then in carried.items()}
    backward = _backward(graph, late, owner, everywhere, sums, objective, count)
    return Placed(count, late, backward, owner, frozenset(everywhere))


def _depending(nodes: Iterable[Node], parameters: Collection[Node]) -> set[Node]:
    """The nodes that depend on data: on an array that is no parameter."""
    found: set[Node] = set()
    for node in nodes:
        for parent in node.inputs:
            is_data = parent.primitive is input_ and parent.shape and parent not in parameters
            if is_data or parent in found:
                found.add(node)
    return found


def _owners(forward: Mapping[Node, int], parameters: Collection[Node]) -> dict[Node, int]:
    """The first stage that reads each parameter."""
    owner = dict.fromkeys(parameters, 0)
    readers: dict[Node, list[int]] = {}
    for node, stage in forward.items():
        for parent in node.inputs:
            if parent in owner:
                readers.setdefault(parent, []).append(stage)
    return owner | {node: min(stages) for node, stages in readers.items()}


def _with_state(
    forward: Mapping[Node, int], owner: Mapping[Node, int], nodes: Sequence[Node]
) -> dict[Node, int]:
    """With what only the objective's state needs: as early as it can be, or where it is read, if it
    is made of state alone."""
    found = dict(forward)
    for node in nodes:
        read = [found.get(one, owner.get(one)) for one in node.inputs]
        known = [one for one in read if one is not None]
        if node not in found and known:
            found[node] = max(known)
    users: dict[Node, list[int]] = {}
    for node in reversed(nodes):
        here = found.setdefault(node, min(users.get(node, [0])))
        for one in node.inputs:
            users.setdefault(one, []).append(here)
    return {node: found[node] for node in (*forward, *nodes)}


def _backward(
    graph: Graph,
    forward: Mapping[Node, int],
    owner: dict[Node, int],
    everywhere: Collection[Node],
    sums: Mapping[Node, Node],
    objective: Node,
    count: int,
) -> dict[Node, int]:
    """A node of the backward pass is where the node of the forward pass is that it is made for, but
    never after what it reads; sums are where their parameters are."""
    found: dict[Node, int] = {}
    for node in graph.nodes:
        if node in forward or node in everywhere or node.primitive is input_:
            continue
        held = next((one for one in node.inputs if one in sums), None)
        if held is not None:
            found[node] = owner.get(held, forward[objective])
            continue
        source = node.origin.node
        stage = count - 1
        if source is not None:
            stage = forward.get(source, owner.get(source, stage))
        before = [found[parent] for parent in node.inputs if parent in found]
        found[node] = min([stage, *before])
    return found


def message_seconds(node: Node) -> float:
    """About how long it takes to send a value to another stage."""
    return MESSAGE_SECONDS + int(node.type.nbytes) / BYTES_EACH_SECOND


def cuts_after(graph: Graph, names: Sequence[str]) -> Callable[[Sequence[Node]], dict[Node, int]]:
    """Stages that end with values of these names: what they are computed from comes before."""
    for name in names:
        if name not in graph.names:
            raise graph.unknown_name(name)
    ends = [set(topological([graph[name]])) for name in names]

    def cut(nodes: Sequence[Node]) -> dict[Node, int]:
        missing = [name for name in names if graph[name] not in set(nodes)]
        if missing:
            raise InputError(
                f"a stage cannot end with {missing[0]}",
                hint="a value of the forward pass that depends on the data",
            )
        found = {
            node: next((stage for stage, end in enumerate(ends) if node in end), len(ends))
            for node in nodes
        }
        for stage, name in enumerate(names):
            if stage not in found.values():
                raise InputError(
                    f"the stage that ends with {name} has nothing to compute: {name} is there when "
                    f"{names[stage - 1]} is",
                    hint="each stage ends with a value that is computed after that of the stage "
                    "before",
                )
        return found

    return cut


def cuts_of_least_load(
    graph: Graph, seconds: Callable[[Node], float], count: int, slowness: Sequence[float] = ()
) -> Callable[[Sequence[Node]], dict[Node, int]]:
    """Stages of which the one with most to do, messages included, has least: the best there are.

    A node of the forward pass counts with those of the backward pass that were made for it.  With
    `slowness`, each stage takes so many times as long.
    """
    work = {node: seconds(node) for node in graph.nodes}
    together = dict(work)
    for node in graph.nodes:
        source = node.origin.node
        if source is not None and source in together:
            together[source] += work[node]

    def cut(nodes: Sequence[Node]) -> dict[Node, int]:
        sent = [message_seconds(node) for node in nodes]
        return _cut(nodes, [together[node] for node in nodes], sent, count, slowness)

    return cut


def cuts_of_least_memory(
    graph: Graph, state: Mapping[Node, int], count: int, smallness: Sequence[float] = ()
) -> Callable[[Sequence[Node]], dict[Node, int]]:
    """Stages of which the one with most bytes has least: `state` are those that belong to each
    parameter, and stages keep values of about half as many micro-batches as there are stages.  With
    `smallness`, bytes weigh so much on each stage."""

    def cut(nodes: Sequence[Node]) -> dict[Node, int]:
        forward, held = set(nodes), dict.fromkeys(nodes, 0.0)
        kept = {one for node in graph.nodes if node not in forward for one in node.inputs}
        for node in kept & forward:
            held[node] += int(node.type.nbytes) * (count + 1) / 2
        left = dict(state)
        for node in nodes:
            held[node] += sum(left.pop(one, 0) for one in node.inputs)
        return _cut(nodes, [held[node] for node in nodes], [0.0] * len(nodes), count, smallness)

    return cut


def _cut(
    nodes: Sequence[Node],
    loads: Sequence[float],
    sent: Sequence[float],
    count: int,
    weights: Sequence[float],
) -> dict[Node, int]:
    """The stage of each node, so that the largest load of a stage is least."""
    number = {node: at for at, node in enumerate(nodes)}
    edges = {
        (number[parent], number[node])
        for node in nodes
        for parent in node.inputs
        if parent in number
    }
    if len(set(weights)) > 1:
        return dict(zip(nodes, cut_in_proportion(loads, edges, sent, weights), strict=True))
    found = split(loads, [0] * len(nodes), sorted(edges), sent, count, 1)
    return {
        nodes[at]: stage for stage, device in enumerate(found.order) for at in found.stages[device]
    }
