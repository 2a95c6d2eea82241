"""Makes a body from nodes: cuts out the graph between given inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from chainrule.graph.body import Body
from chainrule.graph.free_names import free_name
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import Node
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import ordered
from chainrule.primitives.sources import input_
from chainrule.transforms.deduplicate import deduplicated
from chainrule.transforms.simplify import simplified


def between(inputs: Collection[Node], outputs: Iterable[Node]) -> list[Node]:
    """The nodes that the outputs need, in topological order, as far as the inputs.

    The inputs are themselves among them, where they are needed; what they are made of is not.
    """
    order: list[Node] = []
    ends = set(inputs)
    done: set[Node] = set()
    for output in outputs:
        stack = [(output, False)]
        while stack:
            node, ready = stack.pop()
            if node in done:
                continue
            if ready or node in ends:
                done.add(node)
                order.append(node)
                continue
            stack.append((node, True))
            stack.extend((parent, False) for parent in reversed(node.inputs))
    return order


def body_of(
    name: str,
    inputs: Sequence[tuple[str, Node]],
    outputs: Sequence[tuple[str, Node]],
    names: Mapping[str, Node],
    note: str = "",
) -> Body:
    """The body that computes the outputs from the inputs (each a wished name and a node).

    What the inputs are made of is outside; `names` are those of nodes inside; `note`: see `Body`.
    """
    new: dict[Node, Node] = {}
    taken: dict[str, Node] = {}
    made = []
    for index, (wish, node) in enumerate(inputs):
        one = input_(index=index, type=node.type)
        object.__setattr__(one, "origin", node.origin)
        new[node] = one
        made.append(Input(free_name(wish, taken), one))
        taken[made[-1].name] = one
    for node in between(tuple(new), [node for _, node in outputs]):
        if node not in new:
            operands = tuple([new[parent] for parent in node.inputs])
            new[node] = node.with_inputs(operands)
    given = {item.node for item in made}
    for wish, node in names.items():
        if node in new and new[node] not in given:
            taken.setdefault(wish, new[node])
    name_of = {node: shown for shown, node in reversed(taken.items())}
    results: dict[str, Node] = {}
    for wish, node in outputs:
        one = new[node]
        shown = name_of.get(one, wish)
        if shown in results or taken.get(shown, one) is not one:
            shown = free_name(wish, {**taken, **results})
        results[shown] = one
    graph = Graph(
        name=name,
        inputs=tuple(made),
        outputs=tuple(results.items()),
        nodes=(),
        names=taken,
    )
    return Body(check(graph.replace(nodes=ordered(graph))), note)


def tidied(inputs: Collection[Node], outputs: Iterable[Node]) -> dict[Node, Node]:
    """For each node between inputs and outputs what it becomes: simpler, and nothing twice."""
    ends = list(inputs)
    nodes = list(dict.fromkeys([*ends, *between(ends, outputs)]))
    simple = simplified(nodes, ends)
    again = list(dict.fromkeys([*ends, *between(ends, simple.values())]))
    once = deduplicated(again, ends)
    return {node: once[simple[node]] for node in nodes}


def reached(nodes: Iterable[Node], starts: Iterable[Node]) -> set[Node]:
    """The nodes (given in topological order) that depend on any of the starts."""
    found = set(starts)
    for node in nodes:
        if any([parent in found for parent in node.inputs]):
            found.add(node)
    return found
