"""Makes a program of a graph for each set of sizes that calls bring, and remembers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from chainrule.errors import MemoryLimitError
from chainrule.execute.arguments import bound_to, sizes_from, swapped_nbytes
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport

REMEMBERED = 8  # sets of sizes of one graph (the last batch may be short)


Made = TypeVar("Made", bound=Callable[[Mapping[Node, Any]], Any])


class Prepared(Generic[Made]):
    """A graph ready to be called with arguments by name.

    `make` gives what is called with the inputs of a concrete graph: a program, a bound step.  It is
    remembered in `made`, so that the next call with these sizes finds it.  `report` gives the
    memory at some sizes, for the text of a refusal.
    """

    def __init__(
        self,
        graph: Graph,
        make: Callable[[Graph], Made],
        report: Callable[..., MemoryReport],
        made: dict[Graph, Made] | None = None,
    ) -> None:
        self.graph, self.make, self.report = graph, make, report
        self.made: dict[Graph, Made] = {} if made is None else made
        self._known: dict[Any, tuple[Made, list[tuple[str, Node]], dict[Node, np.ndarray]]] = {}

    def checked(self, given: Mapping[str, Any]) -> tuple[Made, Any]:
        """What was made for these arguments, and what it gives.

        Arguments are inputs, by their own names, and looked at before anything runs.  Raises
        InputError, SizeError, and MemoryLimitError with what the memory is for.
        """
        return self._taken(*bound_to(self.graph, given), given)

    def of(self, concrete: Graph) -> Made:
        """What is made for the graph at some sizes: now, if it is not remembered."""
        made = self.made.get(concrete)
        if made is None:
            made = without_collector(self.make)(concrete)
            _remember(self.made, concrete, made)
        return made

    def _taken(
        self, concrete: Graph, inputs: Mapping[Node, np.ndarray], given: Mapping[str, Any]
    ) -> tuple[Made, Any]:
        is_new = concrete not in self.made
        try:
            made = self.of(concrete)
            refuse = getattr(made, "refuse_copies", None)  # of what has a budget
            if refuse is not None:
                nodes = {item.name: item.node for item in concrete.inputs}
                refuse(swapped_nbytes({nodes[x]: one for x, one in given.items() if x in nodes}))
            return made, made(inputs)
        except MemoryLimitError as error:
            from chainrule.execute.refusal import explain_refusal  # loaded where one is explained

            if is_new:
                self.made.pop(concrete, None)
            shown = {item.name: inputs[item.node] for item in concrete.inputs}
            explain_refusal(error, self.report, sizes_from(self.graph, shown), shown)

    def __call__(self, given: Mapping[str, Any]) -> tuple[Made, Any]:
        """As `checked`, for less: arrays of types that a call has brought before are not looked
        at again."""
        types = None if self.graph.guards else _types(given)
        found = self._known.get(types) if types is not None else None
        if found is not None:
            made, nodes, defaults = found
            try:
                return made, made({**defaults, **{node: given[name] for name, node in nodes}})
            except MemoryLimitError:
                pass  # raised again, with reasons
        concrete, inputs = bound_to(self.graph, given)
        made, values = self._taken(concrete, inputs, given)
        if types is not None and found is None and not _cast(concrete, inputs, given):
            nodes = [(item.name, item.node) for item in concrete.inputs if item.name in given]
            others = {x.node: inputs[x.node] for x in concrete.inputs if x.name not in given}
            _remember(self._known, types, (made, nodes, others))
        return made, values


def _types(given: Mapping[str, Any]) -> Any:
    """What arguments have in common for which the same is made; None where one is no array."""
    if not all(type(array) is np.ndarray for array in given.values()):
        return None
    return tuple((name, array.dtype, array.shape) for name, array in given.items())


def _cast(concrete: Graph, inputs: Mapping[Node, Any], given: Mapping[str, Any]) -> bool:
    """Whether the program was called with other arrays than those given."""
    own = [(inputs[one.node], given[one.name]) for one in concrete.inputs if one.name in given]
    return any(array.dtype != one.dtype for array, one in own)


def _remember(known: dict[Any, Any], key: Any, value: Any) -> None:
    """Add to what is known; the oldest are forgotten.  Several threads may do so at once."""
    for old in list(known)[: max(len(known) + 1 - REMEMBERED, 0)]:
        known.pop(old, None)
    known[key] = value
