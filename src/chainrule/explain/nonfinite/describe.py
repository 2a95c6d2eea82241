"""Makes a `Diagnosis` from a fault and the trail of the replay: names, passes, the cause."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chainrule.dataclass import dataclass, field
from chainrule.explain.nonfinite.case import Case, Cause
from chainrule.explain.nonfinite.causes import cause_of
from chainrule.explain.nonfinite.diagnosis import (
    IN_PROGRAM,
    Diagnosis,
    Element,
    Forward,
    Operand,
    Poisoned,
)
from chainrule.explain.nonfinite.elements import element, shown_by
from chainrule.explain.nonfinite.fault import Fault
from chainrule.explain.nonfinite.phrases import Names, composite, computed, number, phrase
from chainrule.explain.nonfinite.trail import Trail
from chainrule.explain.reading.statements import FORWARD, Direction, Pass, Reading, read
from chainrule.graph.body import holds_bodies
from chainrule.graph.cached import cached_property
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.graph.words import printable
from chainrule.primitives.logic import where
from chainrule.primitives.sources import full, size_value

ORDINALS = ("", "", "second ", "third ")


@dataclass(frozen=True)
class Replay:
    """What was replayed: the graph as it was given, at its sizes, and the arrays.

    `during` says what: "the run", "the step"; `held` are the names of the arrays of its state,
    `around` those of values in other graphs, which origins know.
    """

    traced: Graph
    graph: Graph
    inputs: Mapping[Node, np.ndarray]
    during: str
    held: frozenset[str]
    around: Names = field(default_factory=dict)

    @cached_property
    def names(self) -> Names:
        """Of the nodes of both graphs: origins know those that were traced."""
        return {**self.around, **self.traced.name_of, **self.graph.name_of}

    @cached_property
    def replayed(self) -> Mapping[Node, Node]:
        """For each traced node the one that was replayed, its sizes bound."""
        return dict(zip(self.traced.nodes, self.graph.nodes, strict=True))

    @cached_property
    def reading(self) -> Reading:
        """The graph as statements."""
        return read(self.graph)

    @cached_property
    def parameters(self) -> tuple[Node, ...]:
        """The inputs with respect to which there are gradients."""
        trained = {one.wrt for one in self.graph.gradients}
        return tuple(item.node for item in self.graph.inputs if item.node in trained)

    def during_pass(self, node: Node) -> Pass:
        """The pass in which a computed value comes about."""
        statement = self.reading.statement_of.get(node)
        if statement is not None:
            return statement.during
        return Pass(1, Direction.BACKWARD) if node.origin.transform else FORWARD

    def part_of(self, node: Node) -> str:
        """The name of the value for which an unnamed one is computed first; "" if it has one."""
        statement = self.reading.statement_of.get(node)
        return "" if node in self.names or statement is None else printable(statement.name)


def diagnosis(fault: Fault, trail: Trail, replay: Replay) -> Diagnosis:
    """What a person is told of the fault."""
    node, names = fault.node, replay.names
    given = not node.inputs
    cause = _given_cause(node, replay) if given else _computed_cause(fault, trail, replay)
    bad = trail.bad[node]
    return Diagnosis(
        graph=printable(replay.graph.name),
        value=_value(node, names),
        part_of=replay.part_of(node),
        expression=composite(node, names) or computed(node, names) if node.inputs else "",
        became=number(fault.values[0]),
        phase=_phase(node, replay),
        forward=_forward(trail, replay),
        place=node.origin.short(),
        where=node.origin.describe(),
        because=cause.because if cause else "",
        hint=cause.hint if cause else "",
        count=bad.count,
        at_fault=fault.count,
        size=bad.size,
        elements=_elements(fault, names),
        inputs=_operands(fault, names),
        poisoned=tuple(
            Poisoned(printable(names[one]), trail.bad[one].count, trail.bad[one].size)
            for one in trail.after(node)
            if one in names
        ),
    )


def _phase(node: Node, replay: Replay) -> str:
    if node in replay.inputs:
        return f"before {replay.during} began"
    return words_of(replay.during_pass(node)) if node.inputs else IN_PROGRAM


def words_of(one: Pass) -> str:
    """`the forward pass`, `the second backward pass`, `the update`."""
    if one.direction is Direction.UPDATE:
        return "the update"
    if one.direction is Direction.BACKWARD:
        known = one.order < len(ORDINALS)
        return f"the {ORDINALS[one.order]}backward pass" if known else f"backward pass {one.order}"
    return f"the {one.direction} pass"


def _value(node: Node, names: Names) -> str:
    """The name, or how it is computed and in which composite."""
    if node in names or not node.inputs:
        return phrase(node, names)
    inside, expression = composite(node, names), computed(node, names)
    if not inside:
        return expression
    of = "the derivative of " if node.origin.transform else ""
    return f"{expression} in {of}{inside}"


def _elements(fault: Fault, names: Names) -> tuple[Element, ...]:
    """The bad elements, with those of the operands that are no numbers of the program."""
    read = [(i, one) for i, one in enumerate(fault.node.inputs) if _is_read(one, names)]
    found = []
    for index, became, operands in zip(fault.indices, fault.values, fault.operands, strict=True):
        shown = [element(one, *operands[place], names) for place, one in read]
        found.append(Element(index, became, tuple(dict.fromkeys(shown))))
    return tuple(found)


def _operands(fault: Fault, names: Names) -> tuple[Operand, ...]:
    found: dict[str, Operand] = {}
    for node, statistics in zip(fault.node.inputs, fault.statistics, strict=True):
        if _is_read(node, names):
            base = shown_by(node, names)[-1]
            whole = base if int(np.prod(base.shape)) == statistics.count else node
            text, type_ = phrase(node, names), array_type(node.dtype, whole.shape)
            found.setdefault(text, Operand(text, str(type_), statistics))
    return tuple(found.values())


def _is_read(node: Node, names: Names) -> bool:
    """Whether an operand is more than a number that the expression shows."""
    base = shown_by(node, names)[-1]
    return dtype_kind(base.dtype) == "f" and (
        base in names or base.primitive not in (full, size_value)
    )


def _forward(trail: Trail, replay: Replay) -> Forward:
    bad = [one for one in trail.bad if one.inputs and replay.during_pass(one) == FORWARD]
    if not bad:
        return Forward.FINITE
    results = {node for _, node in replay.graph.outputs}
    return Forward.NOT_FINITE if any(one in results for one in bad) else Forward.RECOVERED


def _given_cause(node: Node, replay: Replay) -> Cause:
    names = replay.names
    if node not in replay.inputs:
        return Cause("", "look at what the program writes there, or closes over")
    if names[node] in replay.held:
        older = f"the fault is older than {replay.during}: replay the one before, from a state that"
        return Cause("", f"{older}\nwas finite, with its batch")
    return Cause(
        "", f"look at where it comes from: np.argwhere(~np.isfinite({phrase(node, names)}))"
    )


def _computed_cause(fault: Fault, trail: Trail, replay: Replay) -> Cause | None:
    if holds_bodies(fault.node):
        return None
    derived = _derived(fault.node)
    return cause_of(
        Case(
            fault=fault,
            names=replay.names,
            derived=derived,
            derived_was_bad=_in_replay(derived, replay) in trail.bad,
            left_out=_is_left_out(derived, trail, replay),
            updates=replay.during_pass(fault.node).direction is Direction.UPDATE,
            parameters=tuple(
                (phrase(one, replay.names), _largest(replay.inputs[one]))
                for one in replay.parameters
            ),
        )
    )


def _derived(node: Node) -> Node | None:
    """The operation as a part of whose derivative a transform made the node."""
    return None if node.origin.transform in ("update", "accumulation") else node.origin.node


def _in_replay(node: Node | None, replay: Replay) -> Node | None:
    """The node that an origin knows, as it was replayed."""
    return None if node is None else replay.replayed.get(node)


def _is_left_out(derived: Node | None, trail: Trail, replay: Replay) -> bool:
    """Whether the operation itself was not finite, and np.where chose the other side."""
    node = _in_replay(derived, replay)
    if node is None or node not in trail.bad:
        return False
    chain = {node, *trail.after(node)}
    return any(
        one.primitive is where and one not in trail.bad and chain.intersection(one.inputs)
        for one in replay.graph.nodes
    )


def _largest(array: np.ndarray) -> float:
    return max(abs(float(array.max(initial=0))), abs(float(array.min(initial=0))))
