"""From when to when each value is in memory, and what needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chainrule.explain.memory.report import MemoryReport
from chainrule.explain.memory.why import reason, sentence
from chainrule.explain.report.plain import text
from chainrule.graph.node import Node

NOTHING: Mapping[str, Any] = {
    "kept_because": "",
    "why": "",
    "stored": None,
    "made_at": None,
    "last_needed_at": None,
}


class Needs:
    """What a memory report says of one value after another; nothing where there is no report."""

    def __init__(self, report: MemoryReport | None) -> None:
        self.run = None if report is None else report.main

    def data(self, name: str, node: Node) -> Mapping[str, Any]:
        """The parts of a value that are about memory."""
        run = self.run
        if run is None:
            return NOTHING
        lives, made = run.lives_of.get(node, ()), run.made_at(node)
        return {
            "kept_because": text(reason(run, node)),
            "why": text(sentence(run, node, name)),
            "stored": bool(lives),
            "made_at": lives[0].first if lives and lives[0].first else made,
            "last_needed_at": lives[-1].last_read if lives else made,
        }
