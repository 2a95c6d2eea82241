"""vjp and jvp of whole graphs: seeds and tangents become inputs, derivatives outputs."""

from __future__ import annotations

from chainrule.graph.graph import Graph
from chainrule.graph.invariants import refuse_no_graph
from chainrule.graph.node import Node, stamp
from chainrule.graph.origin import Origin
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import ordered
from chainrule.primitives.sources import full_like, input_
from chainrule.tracebacks import entry
from chainrule.transforms.backward import Wrt, gradient_name, wrt_names
from chainrule.transforms.deduplicate import deduplicate
from chainrule.transforms.jvp import push
from chainrule.transforms.simplify import simplify
from chainrule.transforms.vjp import pull, summed_seeds


def free_name(graph: Graph, name: str) -> str:
    """`name`, with underscores appended until the graph does not have it."""
    while name in graph.names:
        name += "_"
    return name


def _added_input(graph: Graph, name: str, like: Node, index: int) -> Input:
    node = input_(index=index, type=like.type)
    stamp((node,), like.origin.derived("seed", like))
    return Input(free_name(graph, name), node)


@entry
def vjp_graph(graph: Graph, wrt: Wrt = None) -> Graph:
    """The graph with a new input `J_bar` for each float output J, and as further outputs the sums
    over these of J_bar times dJ/dW for each W of `wrt` (named `dout/dW`)."""
    chosen = wrt_names(graph, wrt)
    inputs = list(graph.inputs)
    seeded: list[Node] = []
    seeds: list[Node] = []
    for name, node in graph.outputs:
        if node.type.is_float:
            added = _added_input(graph, f"{name}_bar", node, len(inputs))
            inputs.append(added)
            seeded.append(node)
            seeds.append(added.node)
    sums = summed_seeds(seeded, seeds)
    stamp(sums.values(), Origin(transform="vjp"))
    cotangents, _ = pull(graph.nodes, sums, [graph[name] for name in chosen], "vjp")
    outputs = list(graph.outputs)
    names = {**graph.names, **{item.name: item.node for item in inputs}}
    for name in chosen:
        variable = graph[name]
        value = cotangents.get(variable)
        if value is None:
            value = full_like(variable, 0)
            stamp((value,), variable.origin.derived("vjp", variable))
        shown = free_name(graph, gradient_name("out", name))
        names[shown] = value
        outputs.append((shown, value))
    return _finished(graph, inputs, outputs, names)


@entry
def jvp_graph(graph: Graph, wrt: Wrt = None) -> Graph:
    """The graph with a new input `x_dot` for each of `wrt`, and as further outputs the tangent
    `J_dot` of each float output J."""
    refuse_no_graph(graph, "cr.transforms.jvp_graph(cr.trace(f))")
    inputs = list(graph.inputs)
    tangents: dict[Node, Node] = {}
    for name in wrt_names(graph, wrt):
        added = _added_input(graph, f"{name}_dot", graph[name], len(inputs))
        inputs.append(added)
        tangents[graph[name]] = added.node
    found = push(graph.nodes, tangents)
    outputs = list(graph.outputs)
    names = {**graph.names, **{item.name: item.node for item in inputs}}
    for name, node in graph.outputs:
        if not node.type.is_float:
            continue
        value = found.get(node)
        if value is None:
            value = full_like(node, 0)
            stamp((value,), node.origin.derived("jvp", node))
        shown = free_name(graph, f"{name}_dot")
        while shown in names:
            shown += "_"
        names[shown] = value
        outputs.append((shown, value))
    return _finished(graph, inputs, outputs, names)


def _finished(graph: Graph, inputs: list, outputs: list, names: dict) -> Graph:
    combined = graph.replace(inputs=tuple(inputs), outputs=tuple(outputs), names=names, result=None)
    combined = combined.replace(nodes=ordered(combined))
    simple = simplify(combined, frozen=graph.nodes)
    return deduplicate(simple, frozen=graph.nodes)


def split(graph: Graph, late: tuple[str, ...], early: tuple[str, ...]) -> tuple[Graph, Graph]:
    """Two graphs that do the work of one: what does not need the inputs `late`, and the rest.

    The first has the outputs `early` and, named `saved0`, ..., the values that the second reads;
    the second has these and `late` as inputs, and the other outputs.
    """
    dependent = {graph[name] for name in late}
    for node in graph.nodes:
        if any(parent in dependent for parent in node.inputs):
            dependent.add(node)
    wanted = [(name, node) for name, node in graph.outputs if name not in early]
    saved: dict[Node, str] = {}
    for node in [n for n in graph.nodes if n in dependent]:
        for parent in node.inputs:
            if parent not in dependent:
                saved.setdefault(parent, f"saved{len(saved)}")
    for _, node in wanted:
        if node not in dependent:
            saved.setdefault(node, f"saved{len(saved)}")
    first_inputs = tuple(item for item in graph.inputs if item.name not in late)
    first = Graph(
        name=f"{graph.name}_forward",
        inputs=first_inputs,
        outputs=(
            *((f"value{i}", graph[name]) for i, name in enumerate(early)),
            *((name, node) for node, name in saved.items()),
        ),
        nodes=(),
        names={
            **{item.name: item.node for item in first_inputs},
            **{f"value{i}": graph[name] for i, name in enumerate(early)},
            **{name: node for node, name in saved.items()},
        },
        conditions=graph.conditions,
    )
    return first.replace(nodes=ordered(first)), _second(graph, late, saved, dependent, wanted)


def _second(
    graph: Graph,
    late: tuple[str, ...],
    saved: dict[Node, str],
    dependent: set[Node],
    wanted: list[tuple[str, Node]],
) -> Graph:
    new: dict[Node, Node] = {}
    inputs = []
    for name in late:
        old = graph[name]
        new[old] = input_(index=len(inputs), type=old.type)
        inputs.append(Input(name, new[old]))
    for old, name in saved.items():
        new[old] = input_(index=len(inputs), type=old.type)
        inputs.append(Input(name, new[old]))
    for node in graph.nodes:
        if node in dependent and node not in new:
            parents = tuple(new[parent] for parent in node.inputs)
            new[node] = node.with_inputs(parents)
    outputs = tuple((f"out{i}", new[node]) for i, (_, node) in enumerate(wanted))
    second = Graph(
        name=f"{graph.name}_backward",
        inputs=tuple(inputs),
        outputs=outputs,
        nodes=(),
        names={**{item.name: item.node for item in inputs}, **dict(outputs)},
    )
    return second.replace(nodes=ordered(second))
