"""`Graph.run`: check the arguments against the graph, evaluate, and name the values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import InputError, NameLookupError
from chainrule.execute.executors import executor_named, in_memory, prepare, refuse_strict
from chainrule.execute.leaves import leaves_of
from chainrule.execute.prepared import Prepared
from chainrule.graph.frozen import NotPickled
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.uses import uses
from chainrule.tracebacks import entry

if TYPE_CHECKING:
    from chainrule.execute.executor import Program
    from chainrule.explain.memory.report import MemoryReport

OPTIONS = ("keep", "executor", "strict")  # of `Graph.run`
Keep = str | tuple[str, ...] | list[str]


class Run(NotPickled, Mapping[str, np.ndarray]):
    """The named values of one run: `run["h"]`, `run["dJ/dh"]`; iterating gives the names.

    `run.outputs` is what the function returned, in its containers.
    """

    _called = "a run"
    _instead = "np.savez(file, **run) keeps its arrays by name, and np.load(file) reads them"

    def __init__(self, graph: Graph, values: Mapping[Node, np.ndarray], keep: Keep) -> None:
        self.graph = graph
        self._keep = keep
        self._values = {n: values[node] for n, node in graph.names.items() if node in values}

    @entry
    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._values:
            return self._values[name]
        if name in self.graph.names:
            raise NameLookupError(
                f"the value {name!r} was computed and not kept: keep={self._keep!r}",
                hint=f"run with keep=[..., {name!r}] or keep='named'",
            )
        raise self.graph.unknown_name(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def gradient(self, name: str, of: str | None = None) -> np.ndarray:
        """The gradient with respect to `name`: `run.gradient("h")` is `run["dJ/dh"]`."""
        node = self.graph[name]
        found = [g for g in self.graph.gradients if g.wrt is node and of in (None, g.of)]
        if found:
            return self[self.graph.name_of[found[0].value]]
        raise NameLookupError(
            f"the gradient with respect to {name!r} was not computed",
            hint=f"ask for it where the gradient is made: cr.backward(..., wrt=[..., {name!r}])",
        )

    @property
    def outputs(self) -> Any:
        """What the traced function returned, with numbers in place of traced arrays."""
        leaves = distinct([self[name] for name, _ in self.graph.outputs])
        structure = self.graph.result
        return leaves if structure is None else structure.unflatten(leaves)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}: {v.dtype.name}{list(v.shape)}" for k, v in self._values.items())
        return f"<Run of {self.graph.name}: {shown}>"

    def __str__(self) -> str:
        return uses.text_of_run(self)

    def _repr_html_(self) -> str:
        return uses.html_of_run(self)

    def __rich__(self) -> Any:
        return uses.rich_run(self)


def distinct(arrays: Iterable[np.ndarray]) -> list[np.ndarray]:
    """The arrays, with copies for those that came before: who changes one result changes one."""
    found: list[np.ndarray] = []
    seen: set[int] = set()
    for array in arrays:
        found.append(array.copy() if id(array) in seen else array)
        seen.add(id(array))
    return found


def run_graph(
    graph: Graph,
    arguments: Mapping[str, Any],
    *,
    keep: Keep = "named",
    flat: bool = False,
    executor: str | None = "reference",
    strict: bool = False,
    report: Callable[..., MemoryReport] | None = None,
) -> Run:
    """Evaluate `graph` on the arguments, given by name (containers as they were traced).

    With `flat`, the arguments are the inputs, one by one, by their own names.  `keep` says which
    values outlive the run: "named", "outputs", or a list of names.  Arrays of another dtype are
    refused, except Python numbers, which take the input's dtype.  `strict` refuses nodes for which
    the executor has no kernel.  `report` gives the memory at some sizes, where it is not that of
    the graph itself, for the text of a refusal.  Raises InputError (name, expected, got), SizeError
    or MemoryLimitError before anything runs.
    """
    executor = executor_named(executor)
    refuse_strict(executor, strict)
    given = dict(arguments) if flat else leaves_of(graph, arguments, OPTIONS)
    ready = prepared(graph, keep, executor, strict=strict, report=report)
    program, values = ready.checked(given)
    return Run(program.graph, values, keep)


def prepared(
    graph: Graph,
    keep: Keep,
    executor: str,
    *,
    strict: bool = False,
    report: Callable[..., MemoryReport] | None = None,
) -> Prepared[Program]:
    """The graph ready to be called by name, for what `keep` says; the rest as for `run_graph`."""

    def make(concrete: Graph) -> Program:
        concrete = in_memory(executor, concrete, lambda form: (kept_nodes(form, keep), {}))
        kept = kept_nodes(concrete, keep)
        return prepare(executor, concrete, kept, traced=graph, strict=strict)

    return Prepared(graph, make, report or partial(graph.memory, keep=keep, executor=executor))


def kept_nodes(graph: Graph, keep: Keep) -> list[Node]:
    """The nodes that `keep` names; what it does not know is an error."""
    if keep == "named":
        return list(graph.names.values())
    outputs = [node for _, node in graph.outputs]
    if keep == "outputs":
        return outputs
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        shown = keep if isinstance(keep, str) else next(iter(graph.names), "h")
        raise InputError(
            f'keep={keep!r} is neither "named" nor "outputs" nor a list of names',
            hint=f"keep=[{shown!r}]",
        )
    return outputs + [graph[name] for name in keep]
