"""`graph.cost(n=256)`: operations and bytes moved, by value, by phase and in total."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from html import escape
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.errors import SizeError
from chainrule.execute.forms import quick_forms
from chainrule.explain.cost import table
from chainrule.explain.cost.counts import Phase, carried, is_view, moved_nbytes, phase_of
from chainrule.explain.cost.schema import data
from chainrule.explain.memory.polynomials import Polynomial
from chainrule.graph.bind import check_sizes
from chainrule.graph.cached import cached_property
from chainrule.graph.frozen import NotPickled
from chainrule.graph.graph import Graph
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.tracebacks import entry


@dataclass(frozen=True)
class Count:
    """Floating-point operations, and bytes read and written: integers, or polynomials in sizes."""

    flops: Polynomial
    nbytes: Polynomial

    @property
    def intensity(self) -> float:
        """Operations for each byte that is moved.  SizeError while sizes are not known."""
        for one in (self.flops, self.nbytes):
            if not isinstance(one, int):
                names = ", ".join(sorted(sizes.names(one)))
                raise SizeError(
                    f"operations for each byte depend on {names}",
                    hint="give the sizes: graph.cost(n=256)",
                )
        assert isinstance(self.flops, int) and isinstance(self.nbytes, int)
        return self.flops / self.nbytes if self.nbytes else 0.0


@dataclass(frozen=True)
class NodeCost(Count):
    """One node: its name (of the graph's text where it has none of its own), operation and phase.

    `value` is the named value that it is computed for, itself or what follows; "" for none.
    """

    name: str
    operation: str
    type: str
    phase: Phase
    value: str
    is_view: bool


@dataclass(frozen=True)
class ValueCost(Count):
    """A named value, with all the unnamed steps on the way to it; `steps` counts both."""

    name: str
    type: str
    phase: Phase
    steps: int


@dataclass(frozen=True, eq=False, repr=False)
class Cost(NotPickled, ShownByText):
    """What a graph takes at `sizes`, of which some or all may be open: then `flops` and `nbytes`
    are polynomials in `names`.

    Bytes moved are those that each node reads and writes when it runs alone, views none: compiled
    code, which computes several nodes together, moves fewer.
    """

    _called = "a report of cost"
    _instead = "json.dumps(report.json()) holds its numbers, str(report) its text"

    graph: Graph
    sizes: Mapping[str, int]
    names: tuple[str, ...]
    nodes: tuple[NodeCost, ...]
    _again: Callable[[Mapping[str, int]], Cost]

    @cached_property
    def phases(self) -> Mapping[str, Count]:
        """Each phase that there is: forward, tangent, backward, update."""
        found: dict[str, Count] = {}
        for phase in Phase:
            own = [one for one in self.nodes if one.phase is phase]
            if own:
                found[str(phase)] = _sum(own)
        return found

    @cached_property
    def total(self) -> Count:
        """All phases."""
        return _sum(self.nodes)

    @property
    def flops(self) -> Polynomial:
        """Floating-point operations of a run."""
        return self.total.flops

    @property
    def nbytes(self) -> Polynomial:
        """Bytes that a run reads and writes, every node by itself."""
        return self.total.nbytes

    @property
    def intensity(self) -> float:
        """Operations for each byte that is moved.  SizeError while sizes are not known."""
        return self.total.intensity

    @cached_property
    def values(self) -> Mapping[str, ValueCost]:
        """Every named value that takes something, in the order of the graph."""
        steps: dict[str, list[NodeCost]] = {}
        for one in self.nodes:
            if one.value and not one.is_view and one.operation not in ("input", "constant"):
                steps.setdefault(one.value, []).append(one)
        own = {one.name: one for one in self.nodes}
        found = {}
        for name in (one.name for one in self.nodes if one.name in steps):
            total, node = _sum(steps[name]), own[name]
            found[name] = ValueCost(
                total.flops, total.nbytes, name, node.type, node.phase, len(steps[name])
            )
        return found

    @entry
    def at(self, **sizes: int) -> Cost:
        """The cost with these sizes, beside those that are given already."""
        return self._again({**self.sizes, **sizes})

    @entry
    def table(self, rows: int | None = table.ROWS) -> str:
        """The cost as plain text, with the `rows` values of most operations; None for all."""
        return table.text(self, rows)

    def json(self) -> dict[str, Any]:
        """The cost as dicts and lists that `json.dumps` takes; polynomials are text."""
        return data(self)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        flops, nbytes = (table.number(self, one) for one in (self.flops, self.nbytes))
        return f"<Cost of {self.graph.name}: {flops} operations, {nbytes} bytes moved>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.table())}</pre>"

    def __rich__(self) -> Any:
        from chainrule.explain.cost.rich_table import rich_text

        return rich_text(self)


def _sum(parts: Iterable[Count]) -> Count:
    flops: Polynomial = 0
    nbytes: Polynomial = 0
    for one in parts:
        flops, nbytes = flops + one.flops, nbytes + one.nbytes
    return Count(flops, nbytes)


def cost_of_graph(graph: Graph, given: Mapping[str, int]) -> Cost:
    """The cost of a graph, of the form in which it runs; see `Graph.cost`."""
    check_sizes(graph, given)
    bound = next(quick_forms(graph.bound(given) if given else graph, given))
    values = carried(bound)
    names = _shown_names(bound)
    nodes = tuple(
        NodeCost(
            flops=node.primitive.flops(node),
            nbytes=moved_nbytes(node),
            name=names[node],
            operation=node.primitive.name,
            type=str(node.type),
            phase=phase_of(node),
            value=names[value] if (value := values[node]) is not None else "",
            is_view=is_view(node),
        )
        for node in bound.nodes
    )
    return Cost(bound, dict(given), bound.sizes, nodes, partial(cost_of_graph, graph))


def _shown_names(graph: Graph) -> dict[Node, str]:
    """Names of the program, and for nodes without one those of the graph's text: `%7`."""
    from chainrule.graph.words import names_of

    return dict(names_of(graph))


__all__ = ["Cost", "Count", "NodeCost", "ValueCost", "cost_of_graph"]
