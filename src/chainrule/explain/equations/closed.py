"""Gradients of composites in closed form, as their textbooks write them: P ⊙ (g − ∑ g ⊙ P)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from chainrule.explain.equations.formula import Unit
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.node import ArrayValue, Node
from chainrule.graph.origin import Origin
from chainrule.graph.types import type_of
from chainrule.graph.words import composite_of
from chainrule.primitives.arithmetic import divide, multiply
from chainrule.primitives.sources import constant_of, full, uniform
from chainrule.tracing import new_trace


def closed_form(unit: Unit, variable: Node, upstream: Node | None) -> list[Node]:
    """New nodes, in topological order, of which the last is the gradient by `variable`.

    They are made of the gradient of the unit's result (`upstream`; None is the number 1), of the
    result and of the arguments.  No nodes where the composite has no closed form for this call.
    """
    by = [name for name, value in unit.call.items() if value is variable]
    write = unit.gradients.get(by[0]) if len(by) == 1 else None
    if write is None:
        return []
    first = uniform(1, unit.result.dtype, unit.result.shape) if upstream is None else upstream
    with new_trace() as program:
        program.site = Origin()  # nothing takes a name
        call = {key: _traced(value, program) for key, value in unit.call.items()}
        found: Any = write(Traced(first, program), Traced(unit.result, program), call)
        if found is None:
            return []
        if found.shape != variable.shape:
            found = np.broadcast_to(found, variable.shape)
    given = {first, unit.result, *unit.variables}
    made = computed(found.node, given)
    return computed(_without_ones(made), given)


def _call_of(node: Node, new: Mapping[Node, Node]) -> tuple:
    """The call of a composite that a node is in: equal for calls with equal arguments."""
    scope = composite_of(node)
    if scope is None:
        return ()
    given = ((key, new.get(v, v) if isinstance(v, Node) else repr(v)) for key, v in scope.arguments)
    return scope.name, *given


class Shared:
    """Nodes that closed forms made, each once: what several of them read is one node."""

    def __init__(self) -> None:
        self._known: dict[tuple, Node] = {}

    def nodes(self, made: list[Node]) -> list[Node]:
        """The same with nodes that were made before, in topological order."""
        new: dict[Node, Node] = {}
        for node in made:
            inputs = tuple([new.get(parent, parent) for parent in node.inputs])
            key = node.primitive, inputs, node.params, node.type, _call_of(node, new)
            if key not in self._known:
                same = inputs == node.inputs
                self._known[key] = node if same else node.with_inputs(inputs)
            new[node] = self._known[key]
        return list(dict.fromkeys(new.values()))


def _traced(value: object, program: Trace) -> object:
    if isinstance(value, np.ndarray):
        value = constant_of(ArrayValue(value), type_of(value))
    return Traced(value, program) if isinstance(value, Node) else value


def _without_ones(made: list[Node]) -> Node:
    """The last node without products with the number 1, and divisions by it."""
    new: dict[Node, Node] = {}
    for node in made:
        inputs = tuple([new.get(parent, parent) for parent in node.inputs])
        factors = [one for one in inputs if not _is_one(one)]
        if node.primitive is multiply and len(factors) == 1:
            new[node] = factors[0]
        elif node.primitive is divide and _is_one(inputs[1]):
            new[node] = inputs[0]
        elif inputs != node.inputs:
            new[node] = node.with_inputs(inputs)
    return new.get(made[-1], made[-1])


def _is_one(node: Node) -> bool:
    return node.primitive is full and node.param("value") == 1


def computed(node: Node, given: Collection[Node]) -> list[Node]:
    """The nodes between those that are given and this one, in topological order."""
    done: set[Node] = set(given)
    order: list[Node] = []
    stack = [(node, False)]
    while stack:
        one, is_after = stack.pop()
        if is_after:
            order.append(one)
        elif one not in done:
            done.add(one)
            stack.append((one, True))
            stack += [(parent, False) for parent in reversed(one.inputs)]
    return order
