"""Why a value of a page is 0, and which of its units are dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from chainrule.explain.nonfinite.inside import names_within
from chainrule.explain.nonfinite.phrases import DEEPEST
from chainrule.explain.report.plain import text
from chainrule.explain.report.subject import Subject
from chainrule.explain.report.terms import Computed, NotComputedError
from chainrule.explain.zeros.frames import Frames
from chainrule.explain.zeros.text import of_units, of_value
from chainrule.explain.zeros.units import dead_units
from chainrule.explain.zeros.walk import Walker
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

MOST = 500  # values that are explained
VISITS = 8_000  # of nodes in turns of loops: about two seconds
WORK = 10  # as many evaluations as there are nodes in the graph, so often


def _with_origins(names: Mapping[Node, str], graph: Graph) -> Mapping[Node, str]:
    """The names, and those of what derivatives were made of, where the graph has a copy of it."""
    made = Counter((node.origin, node.primitive) for node in graph.nodes)
    known = {
        key: name
        for node, name in names.items()
        if made[key := (node.origin, node.primitive)] == 1 and not node.origin.transform
    }
    found = dict(names)
    level = {one.origin.node for one in graph.nodes if one.origin.node is not None}
    for _ in range(DEEPEST):
        new = {one for one in level if one not in found}
        found |= {one: known[key] for one in new if (key := (one.origin, one.primitive)) in known}
        level = {parent for one in new for parent in one.inputs}
    return found


class WhyZero:
    """Explains zeros of values one after another; says nothing where there are no arrays."""

    def __init__(self, subject: Subject, graph: Graph) -> None:
        self.values, self.asked = subject.values, 0
        self.walker: Walker | None = None
        self.computed: Computed | None = None
        self.unexplained = 0
        self.dead: Mapping[str, str] = {}
        if self.values is not None:
            names = _with_origins({**names_within(subject.graph), **names_within(graph)}, graph)
            self.computed = Computed(graph, self.values, WORK)
            self.walker = Walker(graph, names, self.computed, Frames(VISITS))
            found = dead_units(subject.graph, graph, self.values)
            self.dead = {one.name: of_units(one) for one in found}

    def data(self, name: str, node: Node, is_gradient: bool) -> dict[str, Any]:
        """`zeros`: lines that say why elements are 0; `dead`: which units are."""
        lines = list(self._lines(name, node)) if is_gradient else []
        return {"zeros": list(map(text, lines)), "dead": text(self.dead.get(name, ""))}

    def _lines(self, name: str, node: Node) -> Iterator[str]:
        if self.walker is None or self.computed is None or node not in self.computed.kept:
            return
        if not (self.computed[node] == 0).any():
            return
        self.asked += 1
        try:
            if self.asked > MOST:
                raise NotComputedError
            yield from (line.strip() for line in of_value(self.walker.explained(name, node)))
        except NotComputedError:
            self.unexplained += 1
        finally:
            self.computed.forget()

    def notes(self) -> Iterator[str]:
        """What is not there, and why."""
        if self.unexplained:
            noun = "gradient" if self.unexplained == 1 else "gradients"
            yield (
                f"Why elements of {self.unexplained:,} {noun} are 0 was not looked for: it takes "
                "too long."
            )
