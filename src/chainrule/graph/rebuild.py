"""Maps every node of a graph to a new one, with names, outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.graph.origin import Origin, Scope
from chainrule.graph.parts import Gradient, Input, Term


def rebuild(graph: Graph, make: Callable[[Node, tuple[Node, ...], Origin], Node]) -> Graph:
    """The graph of `make(node, new_inputs, new_origin)` for every node, in order.

    The new origins and their scopes have new nodes where the old ones have nodes of the graph.
    """
    new: dict[Node, Node] = {}
    origins = _Origins()
    for node in graph.nodes:
        inputs = tuple([new[parent] for parent in node.inputs])
        new[node] = make(node, inputs, origins.copy(node.origin))
    origins.point_to(new)
    return substituted(graph, new, tuple(dict.fromkeys(new.values())))


class _Origins:
    """Copies of origins and of their scopes, which refer to nodes that are made later."""

    def __init__(self) -> None:
        self.origins: dict[Origin, Origin] = {}
        self.scopes: dict[Scope, Scope] = {}

    def copy(self, origin: Origin) -> Origin:
        """The copy, with the nodes of the original as yet."""
        if origin.scope is None and origin.node is None:
            return origin
        found = self.origins.get(origin)
        if found is None:
            scope = self._scope(origin.scope)
            found = Origin(origin.code, origin.lasti, scope, origin.transform, origin.node)
            self.origins[origin] = found
        return found

    def _scope(self, scope: Scope | None) -> Scope | None:
        missing, outer = [], scope
        while outer is not None and outer not in self.scopes:
            missing.append(outer)
            outer = outer.parent
        for one in reversed(missing):
            parent = None if one.parent is None else self.scopes[one.parent]
            self.scopes[one] = Scope(one.name, parent, one.textbook)
        return None if scope is None else self.scopes[scope]

    def point_to(self, new: Mapping[Node, Node]) -> None:
        """Put new nodes in place of the old ones."""
        for one in self.origins.values():
            one.node = None if one.node is None else new.get(one.node, one.node)
        for old, one in self.scopes.items():
            one.result = tuple(new.get(node, node) for node in old.result)
            one.arguments = tuple(
                (name, new.get(value, value) if isinstance(value, Node) else value)
                for name, value in old.arguments
            )


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
        terms = tuple([_term(term, new) for term in gradient.terms])
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


def _term(term: Term, new: Mapping[Node, Node]) -> Term:
    """The term with new nodes; of a loop that became a part of the result of one that gives more,
    through that loop."""
    old, value = term.consumer, new.get(term.value, term.value)
    consumer = whole = new.get(old, old)
    if whole.primitive is old.primitive or term.argument >= len(old.inputs):
        return Term(consumer, term.argument, value)
    operand = new.get(old.inputs[term.argument], old.inputs[term.argument])
    while whole.primitive is not old.primitive and len(whole.inputs) == 1:
        whole = whole.inputs[0]
    if whole.primitive is not old.primitive or operand not in whole.inputs:
        return Term(consumer, term.argument, value)
    at = term.argument
    if at >= len(whole.inputs) or whole.inputs[at] is not operand:
        at = whole.inputs.index(operand)
    return Term(whole, at, value)


def resting_on(graph: Graph, new: Mapping[Node, Node]) -> Graph:
    """The same as `substituted`, of all nodes that inputs, outputs and names need then."""
    needing = roots(graph.inputs, graph.names, graph.outputs)
    return substituted(graph, new, tuple(topological([new.get(node, node) for node in needing])))


def ordered(graph: Graph) -> tuple[Node, ...]:
    """The inputs first, then all nodes that outputs and names need, inputs before users."""
    return tuple(topological(roots(graph.inputs, graph.names, graph.outputs)))


def roots(
    inputs: Iterable[Input], names: Mapping[str, Node], outputs: Iterable[tuple[str, Node]]
) -> list[Node]:
    """What the nodes of a graph with these are needed for."""
    return [*[item.node for item in inputs], *names.values(), *[node for _, node in outputs]]
