"""`zeros`: which elements of gradients are 0, why, and which units are dead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.execute.arguments import bound_to
from chainrule.execute.leaves import leaves_of
from chainrule.execute.reference import evaluate
from chainrule.execute.refusal import refuse_reference
from chainrule.explain.nonfinite import flow
from chainrule.explain.zeros.causes import Splitter, Why
from chainrule.explain.zeros.units import DeadUnits, dead_units
from chainrule.explain.zeros.words import because, is_unread
from chainrule.graph.graph import Graph
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.node import Node, topological
from chainrule.primitives.sources import constant, input_
from chainrule.transforms.backward import gradient_name

MOST_CAUSES = 8  # of one gradient; what is left is counted


@dataclass(frozen=True)
class Cause:
    """A reason for which `count` elements of the gradient are 0.

    `because` says it in words, `place` is `model.py:12` or "", `value` the name of the value at
    which the walk ended, "" where it has none.
    """

    why: Why
    because: str
    value: str
    place: str
    count: int


@dataclass(frozen=True)
class ZeroElements:
    """A value of which `count` of `size` elements are 0, and the causes, the largest first.

    The counts of the causes add up to `count`, less what `others` counts.
    """

    name: str
    count: int
    size: int
    causes: tuple[Cause, ...]
    others: int


@dataclass(frozen=True)
class Zeros(ShownByText):
    """What `zeros` found: `gradients` with an element that is 0, and values with dead units."""

    graph: str
    gradients: tuple[ZeroElements, ...]
    dead: tuple[DeadUnits, ...]

    def __str__(self) -> str:
        from chainrule.explain.zeros.text import text

        return text(self)

    def _repr_html_(self) -> str:
        from chainrule.explain.zeros.text import html

        return html(self)

    def __rich__(self) -> Any:
        from rich.text import Text

        return Text(str(self))


def zeros(
    graph: Graph, arguments: Mapping[str, Any], *, of: str | Iterable[str] | None = None
) -> Zeros:
    """Why elements of gradients are exactly 0 in a run, and which units are dead.

    `arguments` are those of `graph.run`.  From each gradient (or each value that `of` names) the
    walk goes back to the first factor that is 0: an operation that passes nothing back (a ReLU at
    a negative number), a forward value that is 0, an input, a constant.  A unit is dead where a
    value is 0 for the whole batch: along all axes of named sizes, or the first axis without these.
    A unit of the last axis (or a channel of images) that is 0 at every place counts as one.
    The graph runs on the reference executor, and all values that the gradients need are kept.
    Raises what `graph.run` raises, and KeyError for a name that the graph lacks.
    """
    concrete, inputs = bound_to(graph, leaves_of(graph, arguments))
    wanted = _wanted(concrete, of)
    named = [node for node in concrete.names.values() if not node.origin.transform]
    kept = topological([*wanted.values(), *named])
    refuse_reference(concrete, kept, inputs)
    values = evaluate(concrete, inputs, kept, graph)
    walker = Walker(concrete, {**graph.name_of, **concrete.name_of}, values)
    found = [walker.explained(name, node) for name, node in wanted.items()]
    return Zeros(
        graph.name,
        tuple(one for one in found if one.count),
        tuple(dead_units(graph, concrete, values)),
    )


def _wanted(graph: Graph, of: str | Iterable[str] | None) -> dict[str, Node]:
    if of is not None:
        return {name: graph[name] for name in ([of] if isinstance(of, str) else of)}
    made = {gradient_name(one.of, graph.name_of.get(one.wrt, "")): one for one in graph.gradients}
    return {name: one.value for name, one in made.items() if graph.names.get(name) is one.value}


class Walker:
    """Walks from zeros of a value to what makes them; `names` are also those that origins know."""

    def __init__(
        self, graph: Graph, names: Mapping[Node, str], values: Mapping[Node, np.ndarray]
    ) -> None:
        self.values, self.names = values, names
        self.order = {node: place for place, node in enumerate(graph.nodes)}
        self.splitter = Splitter(values, _given(graph))

    def explained(self, name: str, node: Node) -> ZeroElements:
        """The zeros of one value, by cause."""
        mask = self.values[node] == 0
        blamed: dict[Node, np.ndarray] = {node: mask} if mask.any() else {}
        ends: list[tuple[Node, Why, np.ndarray]] = []
        onward: dict[Node, list[tuple[Node, int, np.ndarray]]] = {}  # operand -> its readers
        while blamed:
            reader = max(blamed, key=self.order.__getitem__)  # all that read it are done
            for where, part in self.splitter.parts(reader, blamed.pop(reader)):
                if isinstance(where, Why):
                    ends.append((reader, where, part))
                    continue
                operand = reader.inputs[where]
                arrays = [self.values[one] for one in reader.inputs]
                zero = flow.back(reader, where, part, arrays[1:]) & (arrays[where] == 0)
                blamed[operand] = blamed.get(operand, False) | zero
                onward.setdefault(operand, []).append((reader, where, part))
        causes = self._counted(node, mask, ends, onward)
        shown = causes[:MOST_CAUSES]
        others = int(mask.sum()) - sum(one.count for one in shown)
        return ZeroElements(name, int(mask.sum()), mask.size, tuple(shown), others)

    def _counted(
        self,
        node: Node,
        mask: np.ndarray,
        ends: Sequence[tuple[Node, Why, np.ndarray]],
        onward: Mapping[Node, Sequence[tuple[Node, int, np.ndarray]]],
    ) -> list[Cause]:
        """The causes with the elements of `node` that each explains; none is counted twice."""
        found: list[Cause] = []
        left = mask
        reached = [(self._reached(node, end, part, onward), end, why) for end, why, part in ends]

        # What is read, too, and gives nothing says more than what is not read beside it.
        def rank(one: tuple[np.ndarray, Node, Why]) -> tuple[int, bool]:
            return -int(one[0].sum()), is_unread(one[1], one[2])

        for elements, end, why in sorted(reached, key=rank):
            count = int((elements & left).sum())
            left = left & ~elements
            if count:
                name, words = self.names.get(end, ""), because(end, why, self.names)
                found.append(Cause(why, words, name, _place(end), count))
        return sorted(found, key=lambda one: -one.count)

    def _reached(
        self,
        node: Node,
        end: Node,
        mask: np.ndarray,
        onward: Mapping[Node, Sequence[tuple[Node, int, np.ndarray]]],
    ) -> np.ndarray:
        """The elements of `node` that the walk came from, when it ended at these of `end`."""
        masks = {end: mask}
        while (first := min(masks, key=self.order.__getitem__)) is not node:
            above = masks.pop(first)
            for reader, place, part in onward[first]:
                arrays = [self.values[one] for one in reader.inputs]
                touched = flow.forward(reader, place, above, arrays) & part
                masks[reader] = masks.get(reader, False) | touched
        return masks[node]


def _given(graph: Graph) -> frozenset[Node]:
    """The nodes that depend on an input or on an array in the program."""
    found: set[Node] = set()
    for node in graph.nodes:
        is_source = node.primitive is input_ or node.primitive is constant
        if is_source or any(one in found for one in node.inputs):
            found.add(node)
    return frozenset(found)


def _place(node: Node) -> str:
    """The line of the user's that the value comes from."""
    return node.origin.short()
