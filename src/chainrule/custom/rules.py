"""Runs derivative rules that are written with NumPy on the nodes of a transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from chainrule.dataclass import dataclass
from chainrule.frontend.trace import Trace, call_traced
from chainrule.frontend.traced import Traced
from chainrule.graph.node import Node, topological
from chainrule.graph.origin import UNKNOWN
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.primitive import Joint
from chainrule.primitives.sources import constant, input_
from chainrule.tracing import new_trace
from chainrule.transforms.batch import batch_nodes

Nodes = Sequence[Node | None]


class Rules(Protocol):
    """Both modes for one node, of which `out` is the value and `inputs` the operands.

    `tangent` has the result's tangent from the inputs' (None for zero); `cotangents` has a
    cotangent or None for each input.  Compared and hashed by what they compute.
    """

    def tangent(self, dxs: Nodes, out: Node, inputs: Sequence[Node]) -> Node | None: ...

    def cotangents(
        self, g: Node, out: Node, active: tuple[int, ...], inputs: Sequence[Node]
    ) -> Nodes: ...


def joint(parameter: str, steers: tuple[int, ...] = ()) -> Joint:
    """The derivative of nodes that have their `Rules` as a static parameter."""
    return Joint(
        lambda dxs, out, *inputs: out.param(parameter).tangent(dxs, out, inputs),
        lambda g, out, active, *inputs: out.param(parameter).cotangents(g, out, active, inputs),
        steers,
    )


def called(trace: Trace, rule: Callable[..., Any], *args: Any) -> Any:
    """What the user's rule returns; its own calls are no scopes of the program."""
    return call_traced(trace, rule, args, {})


def rule_trace() -> Trace:
    """A trace in which one rule runs: its nodes become part of the graph of its operands."""
    return new_trace()


def shown(trace: Trace, node: Node) -> Traced:
    """The node as an array that a rule can compute with."""
    return Traced(node, trace)


def unplaced(results: Nodes, given: Sequence[Node]) -> None:
    """Take the origins off what a rule has built from `given`: the transform that called the rule
    stamps it with its own, as it does what the rules of primitives build."""
    seen = set(given)
    pending = [node for node in results if node is not None]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.primitive is not constant:
            object.__setattr__(node, "origin", UNKNOWN)
        pending.extend(node.inputs)


@dataclass(frozen=True)
class BatchedRules:
    """The rules for a whole batch: those for one example, of which all inputs have a first axis
    more."""

    one: Rules

    def __str__(self) -> str:
        return f"batched {self.one}"

    def __repr__(self) -> str:
        return f"batched {self.one!r}"

    def tangent(self, dxs: Nodes, out: Node, inputs: Sequence[Node]) -> Node | None:
        """As `Rules`."""
        live = [i for i, dx in enumerate(dxs) if dx is not None]
        moves = [dx for dx in dxs if dx is not None]

        def rule(nodes: list[Node]) -> Nodes:
            found: list[Node | None] = [None] * len(dxs)
            for place, i in enumerate(live):
                found[i] = nodes[place]
            operands = nodes[len(live) + 1 :]
            return [self.one.tangent(found, nodes[len(live)], operands)]

        return _for_a_batch(rule, [*moves, out, *inputs])[0]

    def cotangents(
        self, g: Node, out: Node, active: tuple[int, ...], inputs: Sequence[Node]
    ) -> Nodes:
        """As `Rules`."""

        def rule(nodes: list[Node]) -> Nodes:
            return self.one.cotangents(nodes[0], nodes[1], active, nodes[2:])

        return _for_a_batch(rule, [g, out, *inputs])


def _for_a_batch(rule: Callable[[list[Node]], Nodes], values: Sequence[Node]) -> list[Node | None]:
    """What `rule` gives for each example of `values`, which all have a first axis more."""
    size = values[0].type.shape[0]
    ones: list[Node] = [
        input_(index=index, type=node.type.with_shape(node.type.shape[1:]))
        for index, node in enumerate(values)
    ]
    found = rule(ones)
    nodes = topological(node for node in found if node is not None)
    new = batch_nodes(nodes, dict(zip(ones, values, strict=True)), size)
    made: list[Node | None] = []
    for node in found:
        whole = None if node is None else new.get(node)
        made.append(add_batch_axis(node, size) if node is not None and whole is None else whole)
    unplaced(made, values)
    return made


def reaches(results: Nodes, nodes: Sequence[Node]) -> bool:
    """Whether any result is computed from one of the nodes."""
    wanted = set(nodes)
    return any(node in wanted for node in topological(n for n in results if n is not None))
