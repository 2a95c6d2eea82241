"""A `Graph` is a program: named inputs, named outputs, and nodes in topological order."""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from chainrule.errors import InputError, NameLookupError
from chainrule.graph import sizes
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node, structural_hash
from chainrule.graph.origin import UNKNOWN, Origin
from chainrule.graph.sizes import Size
from chainrule.graph.types import ArrayType

if TYPE_CHECKING:
    from chainrule.explain.memory.fits import Fit
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.graph.structure import Structure
    from chainrule.run import CompiledGraph, Run


_BINDING = threading.Lock()


def _begin_anew() -> None:
    """After a fork: a thread that is not in this process may have held the lock."""
    global _BINDING
    _BINDING = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@dataclass(frozen=True, eq=False)
class Input:
    """A named input of a graph; `default` is the value used when none is given (scalars)."""

    name: str
    node: Node
    default: Any = None

    @property
    def type(self) -> ArrayType:
        """The type a value must have."""
        return self.node.type


@dataclass(frozen=True)
class Condition:
    """What tracing could not prove about the sizes: `expression` must be 0 (`zero`) or >= 0.

    `text` says it in words, `origin` is the line that relies on it.
    """

    expression: int | Size
    zero: bool
    text: str
    origin: Origin = field(default=UNKNOWN, compare=False)


@dataclass(frozen=True)
class ValueGuard:
    """A scalar input whose value the program used as a Python number while it was traced."""

    name: str
    value: Any
    origin: Origin = field(default=UNKNOWN, compare=False)


@dataclass(frozen=True, eq=False)
class Term:
    """One term of the chain rule: what the `argument`-th input of `consumer` contributes."""

    consumer: Node
    argument: int
    value: Node


@dataclass(frozen=True, eq=False)
class Gradient:
    """The cotangent `value` of `wrt`, the derivative of the output called `of`: its terms' sum."""

    of: str
    wrt: Node
    value: Node
    terms: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class Graph:
    """Named inputs, named outputs, nodes in topological order; a value, never changed.

    `names` maps every name to its node (a node may have several; the first one is shown).
    `assigned` lists, for each name bound more than once in the source, all names it got.
    `structures` says how arguments that are containers are made of inputs, `result` how the
    outputs make the container that the function returned.
    """

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[tuple[str, Node], ...]
    nodes: tuple[Node, ...]
    names: Mapping[str, Node]
    assigned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    guards: tuple[ValueGuard, ...] = ()
    gradients: tuple[Gradient, ...] = ()
    unreached: tuple[str, ...] = ()
    structures: Mapping[str, Structure] = field(default_factory=dict)
    result: Structure | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", MappingProxyType(dict(self.names)))
        object.__setattr__(self, "assigned", MappingProxyType(dict(self.assigned)))
        object.__setattr__(self, "structures", MappingProxyType(dict(self.structures)))

    @cached_property
    def name_of(self) -> Mapping[Node, str]:
        """The first name of each named node."""
        names: dict[Node, str] = {}
        for name, node in self.names.items():
            names.setdefault(node, name)
        return MappingProxyType(names)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The names under which `run` takes its arguments, containers whole."""
        parts = {part for one in self.structures.values() for part in one.leaf_names}
        alone = [item.name for item in self.inputs if item.name not in parts]
        return tuple(dict.fromkeys((*self.structures, *alone)))

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The named sizes that the inputs mention, in order of appearance."""
        found: dict[str, None] = {}
        for item in self.inputs:
            for axis in item.node.type.shape:
                for name in sorted(sizes.names(axis)):
                    found.setdefault(name)
        return tuple(found)

    @cached_property
    def structural_hash(self) -> str:
        """SHA-256 of what is computed (64 hexadecimal digits): names, origins and the values of
        constants are left out."""
        places = {node: index for index, node in enumerate(self.nodes)}
        wiring = [places[node] for _, node in self.outputs]
        return structural_hash(self.nodes) + f":{wiring}"

    def __getitem__(self, name: str) -> Node:
        """The node called `name` (of several assignments, the first)."""
        node = self.names.get(name)
        if node is None:
            raise self.unknown_name(name)
        return node

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def all(self, name: str) -> tuple[Node, ...]:
        """Every node that the variable `name` stood for, in order of assignment."""
        if name not in self.names:
            raise self.unknown_name(name)
        return tuple(self.names[n] for n in self.assigned.get(name, (name,)) if n in self.names)

    def unknown_name(self, name: str) -> NameLookupError:
        """The error for a name that is not in this graph, with the nearest ones."""
        near = difflib.get_close_matches(str(name), list(self.names), n=3, cutoff=0.5)
        hint = f"one of: {', '.join(near or list(self.names)[:12])}"
        if "/" in str(name) and any(grad.of for grad in self.gradients):
            hint = (
                "ask for it where the gradient is made: "
                f"cr.backward(..., wrt=[..., {str(name).split('/d', 1)[-1].strip('()')!r}]).\n"
                + hint
            )
        stem = str(name).rpartition("_")[0]
        if stem in self.assigned:
            several = self.assigned[stem]
            hint = f"{stem} is assigned {len(several)} times: {', '.join(several)}\n" + hint
        return NameLookupError(f"the graph {self.name} has no value called {name!r}", hint=hint)

    def input(self, name: str) -> Input:
        """The input called `name`."""
        for item in self.inputs:
            if item.name == name:
                return item
        raise self.unknown_name(name)

    def replace(self, **changes: Any) -> Graph:
        """A copy with some fields replaced."""
        return replace(self, **changes)

    def bind(self, **values: int) -> Graph:
        """The graph with named sizes replaced by integers: `graph.bind(n=256)`.

        Sizes not given stay symbolic.  Raises SizeError for an unknown name, a value below 1, or
        a condition of the program that the values break (with the line that relies on it).
        """
        from chainrule.graph.bind import bind

        return bind(self, values)

    @cached_property
    def _bound(self) -> dict[tuple[tuple[str, int], ...], Graph]:
        return {}

    def bound(self, values: Mapping[str, int]) -> Graph:
        """As `bind`, from a mapping; the last few results are remembered."""
        key = tuple(sorted(values.items()))
        found = self._bound.get(key)
        if found is None:
            found = self.bind(**values)
            with _BINDING:
                while len(self._bound) >= 16:
                    self._bound.pop(next(iter(self._bound)))
                self._bound[key] = found
        return found

    def run(
        self,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        keep: str | tuple[str, ...] | list[str] = "named",
        executor: str | None = "reference",
        **named: Any,
    ) -> Run:
        """Evaluate the graph: `run = graph.run(x=..., W1=...)`, then `run["h"]`.

        Containers are given as they were traced.  `keep=` says which values outlive the run:
        "named" (default), "outputs", or a list of names (beside the outputs).  `executor` is
        "reference" (one NumPy call a node) or "native" (compiled code; see `compile`).  An input
        that is itself called `keep` or `executor` goes into the mapping `arguments`.
        """
        from chainrule.run import run_graph

        if arguments is not None and not isinstance(arguments, Mapping):
            raise InputError(
                f"graph.run takes its arguments by name, got {type(arguments).__name__}",
                hint="graph.run(" + ", ".join(f"{name}=..." for name in self.arguments) + ")",
            )
        return run_graph(self, {**(arguments or {}), **named}, keep=keep, executor=executor)

    def compile(
        self,
        keep: str | tuple[str, ...] | list[str] = "outputs",
        *,
        executor: str | None = None,
        strict: bool = False,
    ) -> CompiledGraph:
        """The graph as a function that is planned and compiled once for each set of sizes.

        `f = graph.compile()`, then `f(x=..., W1=...)` gives what the traced function returned, and
        `f.run(...)` a `Run` of the values that `keep` says.  See `chainrule.run.CompiledGraph`.
        """
        from chainrule.run import CompiledGraph

        return CompiledGraph(self, keep, executor=executor, strict=strict)

    def memory(
        self,
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        keep: str | tuple[str, ...] | list[str] = "outputs",
        predict: str | tuple[str, ...] | list[str] | None = None,
        executor: str | None = None,
        **named: int,
    ) -> MemoryReport:
        """The bytes that running the graph takes, before anything runs.

        `report = graph.memory(n=256)`, then `print(report)`, `report.training.peak_nbytes`,
        `report.prediction.peak_nbytes`, `report.why("h")`.  Training is the whole graph, if it has
        a backward pass; prediction is what the values in `predict` need (default: the objective,
        or all that `keep` says).  `keep` says which values outlive the run, and `executor` who runs
        it (default: as for `compile`).  Sizes not given are taken as 256, and the report says
        so; one that is called `keep`, `predict` or `executor` goes into the mapping `sizes`.

        Raises SizeError as `bind` does, NameLookupError for an unknown name in `keep` or `predict`.
        """
        from chainrule.explain.memory.report import memory_of_graph

        if sizes is not None and not isinstance(sizes, Mapping):
            raise InputError(
                f"graph.memory takes sizes by name, got {type(sizes).__name__}",
                hint="graph.memory(" + ", ".join(f"{name}=256" for name in self.sizes) + ")",
            )
        given = {**(sizes or {}), **named}
        return memory_of_graph(self, given, keep=keep, predict=predict, executor=executor)

    def fits(
        self,
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        nbytes: int | str | None = None,
        keep: str | tuple[str, ...] | list[str] = "outputs",
        executor: str | None = None,
        **named: int,
    ) -> Fit:
        """Whether a run at these sizes fits in `nbytes`: `graph.fits(n=256, nbytes="8GiB")`.

        True or False, with the numbers and, as text, the reason.  `nbytes` is an integer or text
        with a unit (KiB, MiB, GiB, KB, MB, GB); None stands for what is free on this machine.  The
        rest is as for `memory`.  SizeError where a size is not given.
        """
        from chainrule.explain.memory.fits import fit_of

        report = self.memory(sizes, keep=keep, predict=None, executor=executor, **named)
        return fit_of(report, nbytes)

    def text(self, *, origins: bool = False) -> str:
        """The text form (docs/text-form.md); `origins` adds file and line of each node."""
        from chainrule.graph.text import text

        return text(self, origins=origins)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return (
            f"<Graph {self.name}: {len(self.inputs)} inputs, {len(self.nodes)} nodes, "
            f"outputs {', '.join(name for name, _ in self.outputs)}>"
        )
