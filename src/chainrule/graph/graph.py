"""A `Graph` is a program: named inputs, named outputs, and nodes in topological order."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass, field, replace
from chainrule.errors import NameLookupError
from chainrule.graph.cached import cached_property
from chainrule.graph.frozen import Frozen
from chainrule.graph.node import Node, structural_hash
from chainrule.graph.parts import Condition, Gradient, Input, ValueGuard
from chainrule.graph.sizes import sizes
from chainrule.graph.uses import uses
from chainrule.tracebacks import entry

if TYPE_CHECKING:
    from chainrule.execute import CompiledGraph, Run
    from chainrule.explain.cost.cost import Cost
    from chainrule.explain.drawing.drawing import Drawing
    from chainrule.explain.equations import Equations
    from chainrule.explain.equations.equations import Phase
    from chainrule.explain.memory.fits import Fit
    from chainrule.explain.memory.lying import Layout
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.explain.nonfinite import Diagnosis
    from chainrule.explain.reading.symbols import Indices
    from chainrule.explain.zeros import Zeros
    from chainrule.graph.structure import Structure

FilePath = str | os.PathLike[str]
MOST_BOUND = 16  # graphs at other sizes that are remembered


@dataclass(frozen=True, eq=False)
class Graph(Frozen):
    """Named inputs, named outputs, nodes in topological order; a value, never changed.

    `names` maps every name to its node (a node may have several; the first one is shown).
    `assigned` lists, for each name bound more than once in the source, all names it got.
    `structures` says how arguments that are containers are made of inputs, `result` how the
    outputs make the container that the function returned.
    """

    _called = "a graph"

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

    @entry
    def __getitem__(self, name: str) -> Node:
        """The node called `name` (of several assignments, the first)."""
        if name not in self.names:
            raise self.unknown_name(name)
        return self.names[name]

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
        from chainrule.graph.unknown import unknown_name  # if refused

        return unknown_name(self, name)

    def input(self, name: str) -> Input:
        """The input called `name`."""
        for item in self.inputs:
            if item.name == name:
                return item
        raise self.unknown_name(name)

    def replace(self, **changes: Any) -> Graph:
        """A copy with some fields replaced."""
        return replace(self, **changes)

    @entry
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
            for old in list(self._bound)[: 1 - MOST_BOUND]:
                self._bound.pop(old, None)  # another thread may have done so
            self._bound[key] = found
        return found

    def _by_name(self, asked: str, given: Any, named: Mapping[str, Any]) -> dict[str, Any]:
        if given is not None and not isinstance(given, Mapping):
            from chainrule.graph.by_name import not_by_name  # if refused

            raise not_by_name(self, asked, given)
        return {**(given or {}), **named}

    @entry
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
        "reference" (one NumPy call a node), "native" (compiled code; see `compile`) or "xla" (JAX).
        An input that is itself called `keep` or `executor` goes into the mapping `arguments`.
        """
        given = self._by_name("run", arguments, named)
        return uses.run(self, given, keep=keep, executor=executor)

    @entry
    def compile(
        self,
        keep: str | tuple[str, ...] | list[str] = "outputs",
        *,
        executor: str | None = None,
        strict: bool = False,
        placement_seconds: float = 0.0,
        memory: int | str | None = None,
    ) -> CompiledGraph:
        """The graph as a function that is planned and compiled once for each set of sizes.

        `f = graph.compile()`, then `f(x=..., W1=...)` gives what the traced function returned, and
        `f.run(...)` a `Run` of the values that `keep` says.  See `chainrule.execute.CompiledGraph`.

        Intermediate values lie in one block of memory.  Where quick offsets leave gaps in it,
        better ones are searched for `placement_seconds`, once for each set of sizes.

        With `memory` (`"500 MiB"`, or an integer) a run needs at most so many bytes, counted as in
        `memory().needed_nbytes`: where it would need more, values are computed again, with the same
        bits (of `xla`, within its rounding), so that their bytes are free meanwhile.
        MemoryLimitError, before anything is allocated, where no way was found that needs so little.
        """
        options: Any = {"executor": executor, "strict": strict, "memory": memory}
        return uses.compile(self, keep, placement_seconds=placement_seconds, **options)

    @entry
    def memory(
        self,
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        keep: str | tuple[str, ...] | list[str] = "outputs",
        predict: str | tuple[str, ...] | list[str] | None = None,
        executor: str | None = None,
        layout: Layout | None = None,
        placement_seconds: float = 0.0,
        memory: int | str | None = None,
        **named: int,
    ) -> MemoryReport:
        """The bytes that running the graph takes, before anything runs.

        `report = graph.memory(n=256)`, then `print(report)`, `report.training.peak_nbytes`,
        `report.prediction.peak_nbytes`, `report.why("h")`.  Training is the whole graph, if it has
        a backward pass; prediction is what the values in `predict` need (default: the objective,
        or all that `keep` says).  `keep` says which values outlive the run, and `executor` who runs
        it, with `placement_seconds` and within `memory` (as for `compile`).  Arguments are in C
        order, or lie as `layout` says, "F" or {"x": x}: compiled code has them copied.  Sizes not
        given are taken as 256, and the report says so; one that is called as one of these keywords
        goes into the mapping `sizes`.  Raises SizeError as `bind` does, NameLookupError for unknown
        names (InputError in `layout`).
        """
        given = self._by_name("memory", sizes, named)
        options: Any = {"keep": keep, "predict": predict, "executor": executor, "layout": layout}
        options |= {"placement_seconds": placement_seconds, "memory": memory}
        return uses.memory(self, given, **options)

    @entry
    def fits(
        self,
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        nbytes: int | str | None = None,
        keep: str | tuple[str, ...] | list[str] = "outputs",
        executor: str | None = None,
        layout: Layout | None = None,
        **named: int,
    ) -> Fit:
        """Whether a run at these sizes fits in `nbytes`: `graph.fits(n=256, nbytes="8GiB")`.

        True or False, with the numbers and, as text, the reason.  `nbytes` is an integer or text
        with a unit (KiB, GiB, GB); None stands for what is free here.  The rest is as for `memory`.
        """
        keywords: Any = {"keep": keep, "executor": executor, "layout": layout, **named}
        return uses.fits(self.memory(sizes, **keywords), nbytes)

    @entry
    def cost(self, sizes: Mapping[str, int] | None = None, /, **named: int) -> Cost:
        """The floating-point operations of a run and the bytes it moves, before anything runs.

        `cost = graph.cost(n=256)`, then `print(cost)`, `cost.flops`, `cost.phases["backward"]`.
        Sizes not given stay letters: the numbers are then polynomials in them.  Raises SizeError
        as `bind` does.
        """
        return uses.cost(self, self._by_name("cost", sizes, named))

    @entry
    def draw(
        self,
        *,
        phase: str = "both",
        detail: str = "names",
        expand: Collection[str] = (),
        fold: str | Collection[str] = "auto",
        shapes: bool = False,
        nbytes: bool = False,
        indices: Indices = "subscript",
        symbols: Mapping[str, str] | None = None,
        theme: str = "auto",
        width: float | None = 900.0,
    ) -> Drawing:
        """The graph as a picture: squares are variables, circles operators (docs/drawing.md).

        `graph.draw().save("graph.svg")`: see `chainrule.explain.drawing.draw` for the options.
        """
        options: Any = {"phase": phase, "detail": detail, "expand": expand, "fold": fold}
        options |= {"shapes": shapes, "nbytes": nbytes, "indices": indices, "symbols": symbols}
        return uses.draw(self, theme=theme, width=width, **options)

    @entry
    def equations(
        self,
        names: str | Iterable[str] | None = None,
        *,
        phase: Phase = "both",
        indices: Indices = "subscript",
        symbols: Mapping[str, str] | None = None,
        shapes: bool = True,
    ) -> Equations:
        """Every named value (or those in `names`) as a textbook writes it, numbered.

        `print(graph.equations())`: see `chainrule.explain.equations.equations` for the options.
        """
        return uses.equations(
            self, names, phase=phase, indices=indices, symbols=symbols, shapes=shapes
        )

    @entry
    def python(
        self, *, name: str | None = None, delete: bool = False, comments: bool = True
    ) -> str:
        """The graph as the source of a NumPy function that stands alone, with the same names.

        Running it gives what the reference executor gives, bit for bit.  `name` is the function's
        (default: the graph's), `delete` adds a `del` where a value is needed no more, `comments`
        the lines of the user's source.
        """
        return uses.python(self, name=name, delete=delete, comments=comments)

    @entry
    def nonfinite(
        self,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        of: str | Iterable[str] | None = None,
        **named: Any,
    ) -> Diagnosis | None:
        """The first NaN or inf that spoils a result: `chainrule.explain.nonfinite.nonfinite`."""
        return uses.nonfinite(self, {**(arguments or {}), **named}, of)

    @entry
    def zeros(
        self,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        of: str | Iterable[str] | None = None,
        **named: Any,
    ) -> Zeros:
        """Why elements of gradients are 0, and dead units: see `chainrule.explain.zeros.zeros`."""
        return uses.zeros(self, {**(arguments or {}), **named}, of)

    @entry
    def to_onnx(
        self,
        path: FilePath | None = None,
        *,
        opset: int = 18,
        parameters: Mapping[str, Any] | None = None,
    ) -> bytes:
        """The graph as an ONNX model: its bytes, written to a file where there is a path.

        Inputs, outputs and values keep their names, named sizes become dynamic dimensions.
        `parameters` are inputs whose values go into the file; then the model takes the others.
        `opset` is 18 to 28.  UnsupportedError names all operations that ONNX lacks; InputError and
        NameLookupError for parameters that do not fit.  Needs the package onnx (docs/onnx.md).
        """
        return uses.to_onnx(self, path, opset=opset, parameters=parameters)

    @entry
    def to_stablehlo(
        self, path: FilePath | None = None, *, parameters: Mapping[str, Any] | None = None
    ) -> bytes:
        """The graph at given sizes as a program of JAX: see `chainrule.exchange.to_stablehlo`."""
        return uses.to_stablehlo(self, path, parameters=parameters)

    def text(self, *, origins: bool = False) -> str:
        """The text form (docs/text-form.md); `origins` adds file and line of each node."""
        from chainrule.graph.text import text

        return text(self, origins=origins)

    def __str__(self) -> str:
        return self.text()

    def __rich__(self) -> Any:
        return uses.rich_graph(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {**self.draw()._repr_mimebundle_(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return (
            f"<Graph {self.name}: {len(self.inputs)} inputs, {len(self.nodes)} nodes, "
            f"outputs {', '.join(name for name, _ in self.outputs)}>"
        )
