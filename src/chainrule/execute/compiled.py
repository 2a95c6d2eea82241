"""A `CompiledGraph` is a graph with an executor and with what to keep, ready to be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chainrule.errors import InputError
from chainrule.execute.executors import call_of, executor_with, in_memory, prepare, refuse_strict
from chainrule.execute.leaves import leaves_of
from chainrule.execute.run import Keep, Run, kept_nodes, prepared
from chainrule.graph.frozen import Frozen
from chainrule.graph.graph import Graph
from chainrule.tracebacks import entry


class CompiledGraph(Frozen):
    """What `graph.compile(keep=)` gives: `f(x=..., W1=...)`, or `f.run(...)` for named values.

    A graph whose sizes are integers is compiled at once, one with named sizes for each set of
    sizes when it is first called.  `executor=None` is the default executor; `strict=True` refuses
    operations without a native kernel (they would run by their reference evaluation between
    native parts), with UnsupportedError.  `placement_seconds` and `memory` as for
    `Graph.compile`.
    """

    _called = "a compiled graph"

    @entry
    def __init__(
        self,
        graph: Graph,
        keep: Keep = "outputs",
        *,
        executor: str | None = None,
        strict: bool,
        placement_seconds: float = 0.0,
        memory: int | str | None = None,
    ) -> None:
        self.graph, self.keep = graph, keep
        self.executor, self.strict = executor_with(executor, placement_seconds, memory), strict
        kept_nodes(graph, keep)  # an unknown name is refused now
        refuse_strict(self.executor, strict)
        self._prepared = prepared(graph, keep, self.executor, strict=strict)
        if not graph.sizes:
            call_of(self._prepared.of(graph))  # compiled now

    @entry
    def run(self, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Run:
        """The values that `keep` says, by name; arguments as for `Graph.run`."""
        if arguments is not None and not isinstance(arguments, Mapping):
            raise InputError(
                f"a compiled graph takes its arguments by name, got {type(arguments).__name__}",
                hint="f(" + ", ".join(f"{name}=..." for name in self.graph.arguments) + ")",
            )
        given = leaves_of(self.graph, {**(arguments or {}), **named})
        program, values = self._prepared(given)
        return Run(program.graph, values, self.keep)

    @entry
    def __call__(self, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """What the traced function returned, in its containers."""
        return self.run(arguments, **named).outputs

    @entry
    def plan(self, **sizes: int) -> Any:
        """How its executor runs the graph at these sizes: `print(f.plan(n=256))`."""
        graph = self.graph.bind(**sizes)
        graph = in_memory(self.executor, graph, lambda form: (kept_nodes(form, self.keep), {}))
        return prepare(self.executor, graph, kept_nodes(graph, self.keep)).plan

    def __repr__(self) -> str:
        return f"<CompiledGraph {self.graph.name}: {self.executor}, keep={self.keep!r}>"
