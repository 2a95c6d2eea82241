"""Follows what is not finite back through the turns of a loop or a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.control.turns import carried, parts, turns
from chainrule.explain.nonfinite.births import is_finite
from chainrule.explain.nonfinite.flow import sizes_of
from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.run.reference import evaluate

if TYPE_CHECKING:
    from chainrule.explain.nonfinite.trail import Trail

MOST = 256  # turns with something bad that are remembered: what comes later is told value by value


@dataclass(frozen=True)
class Within:
    """Where in a loop or a choice a fault is: the turn, by its number, and what in its body."""

    turn: int
    node: Node
    fault: np.ndarray | Within


@dataclass(frozen=True)
class OneTurn:
    """A turn whose outputs are not finite: its number, the row of what it slices and stacks."""

    number: int
    row: int
    body: Body
    trail: Trail


@dataclass(frozen=True)
class TurnTrails:
    """The turns with outputs that are not finite, in their order; `cut` where there are more."""

    turns: tuple[OneTurn, ...]
    cut: bool

    def towards(self, node: Node, mask: np.ndarray) -> tuple[dict[int, np.ndarray], Within | None]:
        """From where these elements of the result came: elements of the operands, by place, and
        the first fault in a turn."""
        constants, carries = carried(node)
        steered = len(node.inputs) - len(self.turns[0].body.graph.inputs) if self.turns else 0
        places = range(steered, len(node.inputs))  # of the operands that the body takes
        finals, stacks = parts(node, mask)
        after = [np.ones_like(one) for one in finals] if self.cut else finals
        found = {place: np.zeros(sizes_of(node.inputs[place]), bool) for place in places}
        within, later = None, None
        for turn in reversed(self.turns):
            if later is not None and later.number != turn.number + 1:
                after = [np.zeros_like(one) for one in finals]
            graph = turn.body.graph
            wanted: dict[Node, np.ndarray] = {}
            rows = [one[turn.row] for one in stacks]
            for (_, output), one in zip(graph.outputs, [*after, *rows], strict=True):
                wanted[output] = wanted[output] | one if output in wanted else one
            reached = turn.trail.towards_elements(wanted)
            for inner, fault in reached.faults.items():
                within = Within(turn.number, inner, fault)
                break
            asked = [reached.given.get(item.node) for item in graph.inputs]
            for number, one in enumerate(asked):
                if one is None:
                    continue
                if number < constants:
                    found[places[number]] |= one
                elif number >= constants + carries:
                    found[places[number]][turn.row] |= one
            before = asked[constants : constants + carries]
            after = [
                np.zeros_like(old) if one is None else one
                for one, old in zip(before, finals, strict=True)
            ]
            later = turn
        if later is not None and later.number == 0:
            for number, one in enumerate(after, constants):
                found[places[number]] |= one
        return found, within


def trails_of_turns(
    node: Node, operands: Sequence[np.ndarray], new_trail: type[Trail]
) -> TurnTrails:
    """The trails of a loop or a choice on these operands."""
    found: list[OneTurn] = []
    for number, turn in enumerate(turns(node, operands)):
        if all(is_finite(one) for one in turn.outputs):
            continue
        if len(found) == MOST:
            return TurnTrails(tuple(found), cut=True)
        trail = new_trail(of_body=True)
        graph = turn.body.graph
        evaluate(graph, given(turn.body, turn.inputs), dict(graph.outputs).values(), watch=trail)
        found.append(OneTurn(number, turn.row, turn.body, trail))
    return TurnTrails(tuple(found), cut=False)


def given(body: Body, inputs: Sequence[np.ndarray]) -> Mapping[Node, np.ndarray]:
    """The inputs of a body with their arrays."""
    pairs = zip(body.graph.inputs, inputs, strict=True)
    return {item.node: array for item, array in pairs}
