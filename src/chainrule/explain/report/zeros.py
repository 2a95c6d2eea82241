"""Why a value of a page is 0, and which of its units are dead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from chainrule.explain.report.plain import text
from chainrule.explain.report.subject import Subject
from chainrule.explain.report.terms import Again
from chainrule.explain.zeros.find import Walker
from chainrule.explain.zeros.text import of_units, of_value
from chainrule.explain.zeros.units import dead_units
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

MOST = 500  # values that are explained
WORK = 10  # as many evaluations as there are nodes in the graph, so often


class WhyZero:
    """Explains zeros of values one after another; says nothing where there are no arrays."""

    def __init__(self, subject: Subject, graph: Graph) -> None:
        self.values, self.asked = subject.values, 0
        self.walker: Walker | None = None
        self.unexplained = 0
        self.dead: Mapping[str, str] = {}
        if self.values is not None:
            names = {**subject.graph.name_of, **graph.name_of}
            self.computed = _Computed(graph, self.values)
            self.walker = Walker(graph, names, self.computed)
            found = dead_units(subject.graph, graph, self.values)
            self.dead = {one.name: of_units(one) for one in found}

    def data(self, name: str, node: Node, is_gradient: bool) -> dict[str, Any]:
        """`zeros`: lines that say why elements are 0; `dead`: which units are."""
        lines = list(self._lines(name, node)) if is_gradient else []
        return {"zeros": list(map(text, lines)), "dead": text(self.dead.get(name, ""))}

    def _lines(self, name: str, node: Node) -> Iterator[str]:
        if self.walker is None or self.values is None or node not in self.values:
            return
        if not (self.values[node] == 0).any():
            return
        self.asked += 1
        try:
            if self.asked > MOST:
                raise _NotComputedError
            yield from (line.strip() for line in of_value(self.walker.explained(name, node)))
        except _NotComputedError:
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


class _NotComputedError(Exception):
    """A value that the run did not keep, and that takes too long to compute again."""


class _Computed(Mapping[Node, np.ndarray]):
    """The values of a run; those without a name are computed again, and kept until `forget`."""

    def __init__(self, graph: Graph, values: Mapping[Node, np.ndarray]) -> None:
        self.again, self.found = Again(graph, values, WORK), dict(values)
        self.kept = values

    def __getitem__(self, node: Node) -> np.ndarray:
        if node not in self.found:
            [made] = self.again.compute([node])
            if made is None:
                raise _NotComputedError
            self.found[node] = made
        return self.found[node]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def forget(self) -> None:
        """Keep what the run kept, and no more."""
        self.found = dict(self.kept)
