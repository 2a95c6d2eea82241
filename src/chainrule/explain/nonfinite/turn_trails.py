"""Follows NaN and inf back through the iterations of a loop or the branch of a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from chainrule.control.replay import carried, parts, turns
from chainrule.dataclass import dataclass
from chainrule.execute.reference import evaluate
from chainrule.explain.nonfinite.births import is_finite
from chainrule.explain.nonfinite.flow import sizes_of
from chainrule.graph.body import Body
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.explain.nonfinite.trail import Reached, Trail

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

    def reached(self, outputs: Sequence[np.ndarray]) -> Reached:
        """From where these elements of the outputs came."""
        wanted: dict[Node, np.ndarray] = {}
        for (_, node), one in zip(self.body.graph.outputs, outputs, strict=False):
            wanted[node] = wanted[node] | one if node in wanted else one
        return self.trail.towards_elements(wanted)

    def first(self, reached: Reached) -> Within | None:
        """The first fault in the turn."""
        for node, fault in reached.faults.items():
            return Within(self.number, node, fault)
        return None

    def asked(self, reached: Reached) -> list[np.ndarray]:
        """The elements of each input of the body."""
        nodes = [item.node for item in self.body.graph.inputs]
        return [reached.given.get(one, np.zeros(sizes_of(one), bool)) for one in nodes]


@dataclass(frozen=True)
class TurnTrails:
    """The turns with outputs that are not finite, in their order; `cut` where there are more."""

    turns: tuple[OneTurn, ...]
    cut: bool

    def towards(self, node: Node, mask: np.ndarray) -> tuple[dict[int, np.ndarray], Within | None]:
        """From where these elements of the result came: elements of the operands, by place, and
        the first fault in a turn."""
        if self.turns and "states" in dict(node.params):
            return self._through_both_ways(node, mask)
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
            reached = turn.reached([*after, *(one[turn.row] for one in stacks)])
            within = turn.first(reached) or within
            masks = turn.asked(reached)
            for number, one in enumerate(masks):
                if number < constants:
                    found[places[number]] |= one
                elif number >= constants + carries:
                    found[places[number]][turn.row] |= one
            after = masks[constants : constants + carries]
            later = turn
        if later is not None and later.number == 0:
            for number, one in enumerate(after, constants):
                found[places[number]] |= one
        return found, within

    def _through_both_ways(
        self, node: Node, mask: np.ndarray
    ) -> tuple[dict[int, np.ndarray], Within | None]:
        """The same for the way back through a loop, whose turns follow those of the loop."""
        step = node.param("step")
        count = len(step.graph.inputs)
        constants, states = node.param("constants"), node.param("states")
        forth = tuple([one for one in self.turns if one.body is step])
        back = tuple([one for one in self.turns if one.body is not step])
        found = {place: np.zeros(sizes_of(one), bool) for place, one in enumerate(node.inputs)}
        within = None
        asked: dict[int, list[np.ndarray]] = {}  # by steps, what the way back needs of the loop
        after = parts(node, mask)[0]
        if self.cut:
            after = [np.ones_like(one) for one in after]
        for turn in reversed(back):
            reached = turn.reached(after)
            within = turn.first(reached) or within
            masks = turn.asked(reached)
            for place in range(constants):
                found[place] |= masks[place]
            asked[turn.row] = masks[constants:count]
            after = masks[count:]
        for place, one in enumerate(after if back else (), count):
            found[place] |= one
        after = None
        for turn in reversed(forth):
            ones = [np.ones(sizes_of(one), bool) for _, one in turn.body.graph.outputs]
            wanted = ones if self.cut else asked.get(turn.row + 1, [])
            if after is not None:
                wanted = [x | y for x, y in zip(wanted, after, strict=True)] if wanted else after
            reached = turn.reached(wanted)
            within = turn.first(reached) or within
            masks = turn.asked(reached)
            for place in range(constants):
                found[place] |= masks[place]
            after = masks[constants:]
        begun = asked.get(0, [])
        if forth and forth[0].row == 0 and after:
            begun = [*begun, *after]
        for number, one in enumerate(begun):
            found[constants + number % states] |= one
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
