"""What a loop computes in each of its iterations: statistics, and where they are few, elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from chainrule.control.replay import Turn, carried, turns
from chainrule.errors import ChainruleError
from chainrule.execute.reference import evaluate
from chainrule.explain.report.plain import known, number, text
from chainrule.explain.report.statistics import summary_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.sources import input_

MOST_SHOWN = 128  # iterations of one loop, evenly spread
MOST_VALUES = 40  # of one iteration
WORK = 100_000  # operations of all iterations of one loop
MOST_ELEMENTS = 512  # of one value in one iteration
ALL_ELEMENTS = 60_000  # of a page
STATISTICS = {"min": "least", "max": "greatest", "mean": "mean", "norm": "norm"}


class IterationsOf:
    """Replays loops on the values of a run; says nothing where there are none, or of choices."""

    def __init__(self, values: Mapping[Node, np.ndarray] | None) -> None:
        self.values = values
        self.is_spent = False
        self.elements_left = ALL_ELEMENTS

    def data(self, holder: Node | None) -> dict[str, Any] | None:
        """`at`: the iterations; `values`: their names, and for each iteration numbers, and the
        first `shown` elements, in four digits."""
        if self.values is None or holder is None or not _repeats(holder):
            return None
        try:
            found = list(self._rows(holder, [self.values[one] for one in holder.inputs]))
        except (KeyError, ChainruleError):
            return None
        if not found:
            return None
        found.sort(key=lambda one: one[0])
        names = [name for name in found[0][1] if all(name in one for _, one in found)]
        names = names[:MOST_VALUES]
        share = self.elements_left // max(len(found) * len(names), 1)
        most = min(share, MOST_ELEMENTS)
        values = [_data(name, [one[name] for _, one in found], most) for name in names]
        self.elements_left -= sum(one["shown"] for one in values) * len(found)
        return {"at": [row for row, _ in found], "values": values}

    def _rows(self, holder: Node, operands: list[np.ndarray]) -> Iterator[tuple[int, Any]]:
        """The iterations that are shown, with each named value."""
        length = dict(holder.params).get("length")
        stride = 1 if length is None else -(-length // MOST_SHOWN)
        body: Graph = holder.param("body").graph
        work = 0
        for turn in turns(holder, operands):
            work += len(turn.body.graph.nodes)
            if work > WORK:
                self.is_spent = True
                return
            if turn.body.graph is body and turn.row % (stride or 1) == 0:
                yield turn.row, _values(turn, *carried(holder))

    def notes(self) -> Iterator[str]:
        """What is not there, and why."""
        if self.is_spent:
            yield "Of a long loop, not all iterations have numbers: it takes too long."


def _repeats(holder: Node) -> bool:
    return any(name == "body" for name, _ in holder.params)


class _Seen:
    """What is remembered of an array."""

    def __init__(self, array: np.ndarray) -> None:
        self.summary, self.shape = summary_of(array), array.shape
        self.elements = array.ravel()[:MOST_ELEMENTS].tolist()


def _data(name: str, several: list[_Seen], most: int) -> dict[str, Any]:
    """One of the `values`; of its elements whole rows, `most` at most."""
    shape = several[0].shape
    size, across = math.prod(shape), shape[-1] if shape else 1
    shown = size if size <= most else most // across * across
    if any(one.shape != shape for one in several):
        shown = 0
    return {
        "name": text(name),
        "shape": list(shape),
        **{
            key: [known(getattr(one.summary, attribute)) for one in several]
            for key, attribute in STATISTICS.items()
        },
        "shown": shown,
        "elements": [list(map(_brief, one.elements[:shown])) for one in several],
    }


def _brief(value: complex) -> Any:
    """A number with as many digits as the page shows."""
    if isinstance(value, float):
        return number(float(f"{value:.4g}")) if math.isfinite(value) else number(value)
    return value if isinstance(value, (bool, int)) else str(value)


def _values(turn: Turn, constants: int, carries: int) -> dict[str, _Seen]:
    """What each value of an iteration is: the states before it, its slices, what it computes."""
    graph = turn.body.graph
    nodes = [item.node for item in graph.inputs]
    given = dict(zip(nodes, turn.inputs, strict=True))
    states = nodes[constants : constants + carries]
    names = {node: name for name, node in graph.names.items() if node not in nodes[:constants]}
    for state, (_, after) in zip(states, graph.outputs, strict=False):
        if after in names:
            names[after] = f"{graph.name_of[state]} after"
    names |= {state: f"{graph.name_of[state]} before" for state in states}
    made = [node for node in names if node.primitive is not input_]
    values = given | evaluate(graph, given, made)
    return {name: _Seen(np.asarray(values[node])) for node, name in names.items()}
