"""From when to when each value is in memory, and what needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chainrule.explain.memory.report import MemoryReport
from chainrule.explain.memory.value import value_of
from chainrule.explain.memory.why import Timing, sentence
from chainrule.explain.report.plain import text
from chainrule.graph.node import Node

NOTHING: Mapping[str, Any] = {
    "kept_because": "",
    "why": "",
    "stored": None,
    "view_of": "",
    "made_at": None,
    "last_needed_at": None,
}


class Needs:
    """What a memory report says of one value after another; nothing where there is no report."""

    def __init__(self, report: MemoryReport | None) -> None:
        self.run = None if report is None else report.main

    def data(self, name: str, node: Node, timing: Timing) -> Mapping[str, Any]:
        """The parts of a value that are about memory; `timing` counts the steps of the page."""
        run = self.run
        if run is None:
            return NOTHING
        value = value_of(run, name, node)
        return {
            "kept_because": text(value.kept_because),
            "why": text(sentence(run, node, name, timing)),
            "stored": value.stored,
            "view_of": text(value.view_of),
            "made_at": value.made_at,
            "last_needed_at": value.last_needed_at,
        }
