"""Adds the derivatives of a scalar by what several terms of a gradient reach: ∂s/∂W = λ W."""

from __future__ import annotations

from collections.abc import Iterator

from chainrule.explain.equations.naming import Names
from chainrule.explain.reading.statements import Contribution, Statement
from chainrule.graph.body import bodies_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient
from chainrule.graph.rebuild import resting_on
from chainrule.transforms.backward import gradient_name
from chainrule.transforms.simplify import simplify
from chainrule.transforms.vjp import pull, seed_one


def with_local_derivatives(graph: Graph) -> tuple[Graph, frozenset[str]]:
    """The graph, with a further gradient for each scalar in a chain rule of several terms; and the
    names of these gradients.

    Where ∂J/∂W is prod(∂J/∂z, ∂z/∂W) + prod(∂J/∂s, ∂s/∂W), and s is a number, ∂s/∂W has the shape
    of W, and textbooks write it on a line of its own.  It is that of s as its statement computes
    it.  The nodes of the graph stay as they are.
    """
    several = [one for one in graph.gradients if len(one.terms) > 1 and one.wrt.ndim]
    if not several:
        return graph, frozenset()
    found: dict[Statement, list[Node]] = {}
    names = Names(graph)
    for gradient in several:
        for statement in _scalars(names, gradient):
            found.setdefault(statement, []).append(gradient.wrt)
    called, gradients = dict(graph.names), list(graph.gradients)
    for statement, variables in found.items():
        seeds = {statement.value: seed_one(statement.value)}
        cotangents, terms = pull([*variables, *statement.nodes], seeds, variables)
        for node, value in reversed(cotangents.items()):
            gradients.append(Gradient(statement.name, node, value, terms.get(node, ())))
        for one in variables:
            called[gradient_name(statement.name, graph.name_of[one])] = cotangents[one]
    added = frozenset(called) - graph.names.keys()
    if not added:
        return graph, added
    more = resting_on(graph.replace(names=called, gradients=tuple(gradients)), {})
    return simplify(more, frozen=graph.nodes), added


def _scalars(names: Names, gradient: Gradient) -> Iterator[Statement]:
    """The statements of numbers, not of the objective itself, that a gradient comes back through;
    none where it comes through one statement only."""
    graph, variable = names.graph, names.graph.name_of.get(gradient.wrt)
    if variable is None or names.order(gradient) > 1:
        return
    contributions = names.before(gradient).contributions(gradient)
    for one in contributions if len(contributions) > 1 else ():
        name = gradient_name(one.consumer.name, variable)
        if name not in graph.names and _is_scalar(names, gradient, one):
            yield one.consumer


def _is_scalar(names: Names, gradient: Gradient, one: Contribution) -> bool:
    consumer = one.consumer
    return (
        not consumer.value.ndim
        and (gradient.of, consumer.value) in names.gradient_names
        and not any(names.graph.names.get(of.of) is consumer.value for of in names.graph.gradients)
        and not any(any(bodies_of(node)) for node in consumer.nodes)
    )
