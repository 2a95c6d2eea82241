"""The values of unnamed nodes from those of a run, as far as they can be computed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from chainrule.errors import ChainruleError
from chainrule.execute.reference import apply
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.sources import input_

WORK = 3  # as many evaluations as there are nodes in the graph, so often


class Again:
    """Computes nodes from the values that a run kept, one small stretch at a time.

    Nothing is remembered from one call to the next, so that no more memory is taken than a
    stretch needs; a graph in which this would take too long has `is_spent`.
    """

    def __init__(self, graph: Graph, values: Mapping[Node, np.ndarray], work: int = WORK) -> None:
        self.values, self.names = values, (graph.name_of,)
        self.nodes = frozenset(graph.nodes)
        self.left = work * len(graph.nodes)
        self.is_spent = False

    def compute(self, wanted: Sequence[Node]) -> list[np.ndarray | None]:
        """The values of some nodes; None for one that needs what the run did not keep."""
        found: dict[Node, np.ndarray | None] = {}
        for node in wanted:
            if not self._follow(node, found):
                return [None] * len(wanted)
        return [self._known(node, found) for node in wanted]

    def _known(self, node: Node, found: Mapping[Node, np.ndarray | None]) -> np.ndarray | None:
        return self.values[node] if node in self.values else found[node]

    def _follow(self, wanted: Node, found: dict[Node, np.ndarray | None]) -> bool:
        """Compute a node and what it needs; whether there was enough work left for it."""
        stack = [(wanted, False)]
        while stack:
            node, is_ready = stack.pop()
            if node in self.values or node in found:
                continue
            if not is_ready:
                stack.append((node, True))
                stack.extend((parent, False) for parent in node.inputs)
                continue
            if self.left <= 0:
                self.is_spent = True
                return False
            self.left -= 1
            found[node] = self._apply(node, [self._known(one, found) for one in node.inputs])
        return True

    def _apply(self, node: Node, operands: list[np.ndarray | None]) -> np.ndarray | None:
        given = [one for one in operands if one is not None]
        if len(given) < len(operands) or node.primitive is input_ or node not in self.nodes:
            return None
        try:
            with np.errstate(all="ignore"):
                return apply(node, given, self.names)
        except ChainruleError:
            return None


class NotComputedError(KeyError):
    """A value that the run did not keep, and that takes too long to compute again."""


class Computed(Mapping[Node, np.ndarray]):
    """The values of a run; those without a name are computed again, and kept until `forget`."""

    def __init__(self, graph: Graph, values: Mapping[Node, np.ndarray], work: int) -> None:
        self.again, self.found = Again(graph, values, work), dict(values)
        self.kept = values

    def __getitem__(self, node: Node) -> np.ndarray:
        if node not in self.found:
            [made] = self.again.compute([node])
            if made is None:
                raise NotComputedError(node)
            self.found[node] = made
        return self.found[node]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def forget(self) -> None:
        """Keep what the run kept, and no more."""
        self.found = dict(self.kept)
