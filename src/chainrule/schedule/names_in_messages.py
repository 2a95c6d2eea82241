"""How the simulator's messages call instructions and values: by number, label and name."""

from __future__ import annotations

from typing import NoReturn

from chainrule.errors import ScheduleError
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.graph.words import names_of
from chainrule.schedule.records import Compute, Free, Schedule, View


class Wording:
    """The words for one schedule; unnamed values are called as in the graph's text form."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    @cached_property
    def _names(self) -> dict[Node, str]:
        return names_of(self.schedule.graph)

    def name(self, node: Node) -> str:
        """`h`, or `%3` where it has no name."""
        return self._names.get(node) or f"{node!r} of another graph"

    def typed(self, node: Node) -> str:
        """`h: float32[4, 3]`."""
        return f"{self.name(node)}: {node.type}"

    def moment(self, number: int) -> str:
        """`instruction 3 (relu)`; instructions are numbered from 0."""
        if number < 0:
            return "the beginning of the schedule"
        if number >= len(self.schedule.instructions):
            return "the end of the schedule"
        what = ""
        match self.schedule.instructions[number]:
            case Compute(label=label, nodes=nodes):
                what = label or ", ".join(map(self.name, nodes)) or "nothing"
            case View(node=node):
                what = f"view {self.name(node)}"
            case Free(node=node):
                what = f"free {self.name(node)}"
        return f"instruction {number} ({what})"

    def fault(self, number: int, node: Node | None, what: str) -> NoReturn:
        """Raise ScheduleError: what instruction `number` does wrong, to do with `node`."""
        raise ScheduleError(
            f"{self.moment(number)} {what}",
            where=node.origin.describe() if node is not None else "",
            hint="this is an error in a planner; please report it with the program",
        )
