"""What a page is about: a graph, the sizes and arrays that are known of it, and its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.execute import Run, run_graph
from chainrule.execute.arguments import sizes_from
from chainrule.execute.executors import executor_named, memory_of
from chainrule.execute.leaves import leaves_of
from chainrule.execute.run import Keep
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport

State = Mapping[str, Any]
SHORTER = (
    "To need less memory, loops keep fewer states and compute the others again: the graph shows "
    "them so."
)
WALKED = "reference"  # whose order and memory the page of a graph shows, where none is named


@runtime_checkable
class Step(Protocol):
    """What a page needs of a training step, which belongs to a layer above."""

    graph: Graph
    executor: str
    parameters: tuple[str, ...]
    weights: tuple[str, ...]
    persistent: tuple[Any, ...]

    def init(self, parameters: Mapping[str, Any] | None = None, /, **named: Any) -> Any: ...

    def arguments(self, arrays: Mapping[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]: ...

    def memory(self, sizes: Mapping[str, int] | None = None, /, **options: Any) -> Any: ...


@runtime_checkable
class SplitStep(Protocol):
    """What a page needs of a step that is split over ranks."""

    parts: Any  # in micro-batches: its `whole` is the step that the page walks through

    def ranks_data(self, sizes: Mapping[str, int], /) -> dict[str, Any]:
        """The `ranks` of the page, for a batch of these sizes."""
        ...


@dataclass(frozen=True, eq=False)
class Subject:
    """`graph` is the program with its named sizes, `shown` the same at `sizes`, if all are known.

    `values` are the arrays of a run by the nodes of `shown`, None without a run.  `memory` is None
    where a size is not known; the graph of its main run is `shown`.  `parameters` and `state` are
    names of inputs.  `notes` say what is missing, and why.
    """

    graph: Graph
    shown: Graph
    sizes: Mapping[str, int]
    values: Mapping[Node, np.ndarray] | None
    memory: MemoryReport | None
    executor: str
    parameters: tuple[str, ...]
    state: tuple[str, ...]
    notes: tuple[str, ...]


def subject_of(
    what: Any,
    inputs: Mapping[str, Any] | None,
    *,
    state: State | None,
    sizes: Mapping[str, int] | None,
    executor: str | None,
    keep: Keep,
) -> Subject:
    """What the page about a graph, a training step or a run is about.

    Where inputs are given, runs the graph by the reference executor.  InputError for anything else
    and for arguments that do not go together; what a run raises.
    """
    if inputs is not None and not isinstance(inputs, Mapping):
        raise InputError(
            f"inputs= are arrays by name, got {type(inputs).__name__}",
            hint='inputs={"x": x, "W1": W1}',
        )
    if sizes is not None and not isinstance(sizes, Mapping):
        raise InputError(
            f"sizes= are integers by name, got {type(sizes).__name__}", hint='sizes={"n": 256}'
        )
    if isinstance(what, Run):
        _refuse_with_run({"inputs": inputs, "sizes": sizes, "state": state})
        return _about_run(what, executor_named(executor or WALKED), keep)
    if isinstance(what, Graph):
        if state is not None:
            raise InputError(
                f"state= is given, and {what.name} is a graph, which has none",
                hint="give all its inputs in inputs=, or the training step in place of the graph",
            )
        return _about_graph(what, inputs, sizes or {}, executor_named(executor or WALKED), keep)
    if isinstance(what, Step):
        return _about_step(
            what, inputs, state, sizes or {}, executor_named(executor or what.executor)
        )
    if isinstance(getattr(what, "whole", None), Step):
        raise InputError(
            "a step on parts of a batch runs several graphs, one after another; a page shows one",
            hint="report step.whole, the step on the whole batch, or step.accumulating, what is "
            "done for each part",
        )
    raise InputError(
        f"a report is about a graph, a training step or a run, got {type(what).__name__}",
        hint="cr.trace(function), cr.backward(...) or cr.training_step(...) makes one",
    )


def _refuse_with_run(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name}= is given with a run, whose values are there already",
                hint=f"report the run alone, or the graph with {name}=",
            )


def _about_run(run: Run, executor: str, keep: Keep) -> Subject:
    graph = run.graph
    missing = sum(name not in run for name in graph.names)
    notes = ()
    if missing:
        verb = "value was" if missing == 1 else "values were"
        notes = (f"{missing:,} {verb} not kept by the run: keep='named' keeps all.",)
    memory = graph.memory(keep=keep, executor=executor)
    return _subject(graph, run, {}, memory, executor, _parameters(graph), (), notes)


def _about_graph(
    graph: Graph,
    inputs: Mapping[str, Any] | None,
    sizes: Mapping[str, int],
    executor: str,
    keep: Keep,
) -> Subject:
    run = None
    if inputs is not None:
        run = run_graph(graph.bound(sizes), inputs, executor="reference")

    def memory(found: Mapping[str, int]) -> MemoryReport:
        return graph.memory(found, keep=keep, executor=executor)

    return _at_sizes(graph, run, sizes, memory, executor, _parameters(graph), ())


def _about_step(
    step: Step,
    inputs: Mapping[str, Any] | None,
    state: State | None,
    sizes: Mapping[str, int],
    executor: str,
) -> Subject:
    run = None
    if inputs is not None or state is not None:
        with getattr(state, "updating", nullcontext()):  # no step changes it meanwhile
            arguments = _arguments(step, inputs or {}, state)
            bound = step.graph.bound(sizes)
            run = run_graph(bound, arguments, flat=True, executor="reference")

    def memory(found: Mapping[str, int]) -> MemoryReport:
        return step.memory(found, executor=executor)

    kept = tuple(part.name for part in step.persistent if part.name not in step.parameters)
    return _at_sizes(step.graph, run, sizes, memory, executor, step.parameters, kept)


def _arguments(step: Step, inputs: Mapping[str, Any], state: State | None) -> dict[str, Any]:
    """Every input of the step by its own name.

    Without a state the parameters, and what the objective carries, are among the inputs, and what
    the optimizer keeps begins anew where it is not.
    """
    given = leaves_of(step.graph, inputs)
    if state is not None:
        return step.arguments(getattr(state, "arrays", state), given)
    defaults = {item.name for item in step.graph.inputs if item.default is not None}
    missing = [name for name in step.weights if name not in given and name not in defaults]
    if missing:
        several = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise InputError(
            f"the parameters of {step.graph.name} were not given: {several}",
            hint="give them in inputs=, or the state of the training as state=",
        )
    held = [part.name for part in step.persistent]
    begun = step.init({n: given.pop(n) for n in step.weights if n in given}).arrays
    arrays = {name: given.pop(name, begun[name]) for name in held}
    return step.arguments(arrays, given)


def _at_sizes(
    graph: Graph,
    run: Run | None,
    sizes: Mapping[str, int],
    memory: Callable[[Mapping[str, int]], MemoryReport],
    executor: str,
    parameters: tuple[str, ...],
    state: tuple[str, ...],
) -> Subject:
    """The subject at the sizes given and those that a run shows; without memory if some miss."""
    found = dict(sizes)
    if run is not None:
        bound = graph.bound(sizes)
        found |= sizes_from(bound, {item.name: run[item.name] for item in bound.inputs})
    missing = [name for name in graph.sizes if name not in found]
    if missing:
        example = ", ".join(f'"{name}": 256' for name in missing)
        what = f"size {missing[0]} is" if len(missing) == 1 else f"sizes {', '.join(missing)} are"
        note = (
            f"There is no memory view: the {what} not known. Give inputs, or sizes={{{example}}}."
        )
        bound = graph.bound(sizes)
        return Subject(graph, bound, found, None, None, executor, parameters, state, (note,))
    return _subject(graph, run, found, memory(found), executor, parameters, state, ())


def _subject(
    graph: Graph,
    run: Run | None,
    sizes: Mapping[str, int],
    memory: MemoryReport,
    executor: str,
    parameters: tuple[str, ...],
    state: tuple[str, ...],
    notes: tuple[str, ...],
) -> Subject:
    shown = memory.main.graph
    if [one.primitive for one in shown.nodes] != [one.primitive for one in graph.nodes]:
        graph = shown  # a form of it (`in_memory`)
        notes = notes if memory_of(executor) is None else (*notes, SHORTER)
    values = None if run is None else {shown.names[name]: run[name] for name in run}
    return Subject(graph, shown, sizes, values, memory, executor, parameters, state, notes)


def _parameters(graph: Graph) -> tuple[str, ...]:
    """The inputs whose gradients are computed under a name."""
    wrt = {one.wrt for one in graph.gradients if one.value in graph.name_of}
    return tuple(item.name for item in graph.inputs if item.node in wrt)
