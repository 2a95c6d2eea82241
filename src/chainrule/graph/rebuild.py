"""Map every node of a graph to a new one, carrying names, outputs and gradients along."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.graph.parts import Gradient, Term


def rebuild(graph: Graph, make: Callable[[Node, tuple[Node, ...]], Node]) -> Graph:
    """The graph of `make(node, new_inputs)` for every node, in order."""
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        new[node] = make(node, tuple([new[parent] for parent in node.inputs]))
    return substituted(graph, new, tuple(dict.fromkeys(new.values())))


def substituted(graph: Graph, new: Mapping[Node, Node], nodes: tuple[Node, ...]) -> Graph:
    """The graph with every reference to a node replaced by `new[node]` (where it is there).

    Names, and terms of gradients, whose node is not among `nodes` are dropped.
    """
    present = set(nodes)
    names = {name: new.get(node, node) for name, node in graph.names.items()}
    gradients = []
    for gradient in graph.gradients:
        wrt, value = new.get(gradient.wrt, gradient.wrt), new.get(gradient.value, gradient.value)
        if wrt not in present or value not in present:
            continue
        terms = tuple(
            Term(
                new.get(term.consumer, term.consumer),
                term.argument,
                new.get(term.value, term.value),
            )
            for term in gradient.terms
        )
        gradients.append(Gradient(gradient.of, wrt, value, terms))
    return graph.replace(
        inputs=tuple(
            item.__class__(item.name, new.get(item.node, item.node), item.default)
            for item in graph.inputs
        ),
        outputs=tuple((name, new.get(node, node)) for name, node in graph.outputs),
        nodes=nodes,
        names={name: node for name, node in names.items() if node in present},
        gradients=tuple(gradients),
    )


def ordered(graph: Graph) -> tuple[Node, ...]:
    """The inputs first, then all nodes that outputs and names need, inputs before users."""
    roots = [item.node for item in graph.inputs]
    roots += list(graph.names.values())
    roots += [node for _, node in graph.outputs]
    return tuple(topological(roots))
