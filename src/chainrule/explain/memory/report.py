"""`graph.memory(n=256)`: predicts the memory of training and prediction, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass, field
from chainrule.errors import InputError
from chainrule.execute.executors import executor_named, executor_with, in_memory
from chainrule.execute.forms import form_like
from chainrule.execute.run import Keep, kept_nodes
from chainrule.explain.memory.formulas import MemoryFormulas, formulas_of
from chainrule.explain.memory.html import page, section
from chainrule.explain.memory.largest import Largest, largest
from chainrule.explain.memory.lying import Layout, Lying, lying_of
from chainrule.explain.memory.overhead import (
    compiled_of,
    compiled_values_of,
    overhead_of,
    refuse_copies_of,
)
from chainrule.explain.memory.picture import picture
from chainrule.explain.memory.run_memory import RunMemory, run_memory_of
from chainrule.explain.memory.schema import data
from chainrule.explain.memory.table import ROWS, picture_title, runs, text
from chainrule.explain.memory.value import Value, value_of
from chainrule.explain.memory.why import sentence
from chainrule.explain.writing import write_svg
from chainrule.graph.bind import check_sizes, named_nodes, with_sizes
from chainrule.graph.cached import cached_property
from chainrule.graph.collector import without_collector
from chainrule.graph.frozen import NotPickled
from chainrule.graph.graph import Graph
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.node import Node
from chainrule.graph.uses import uses
from chainrule.tracebacks import entry
from chainrule.transforms.forward_only import predicting_graph
from chainrule.transforms.mistakes.batch_statistics import warn_of_batch_statistics
from chainrule.transforms.widen import widen

if TYPE_CHECKING:
    from chainrule.explain.cost.measured_runs import Measure, Run
    from chainrule.explain.memory.tradeoff import Tradeoff
    from chainrule.plan.speeds import Speeds
    from chainrule.train.step.step import TrainingStep

REFERENCE_SIZE = 256  # of a named size that was not given


@dataclass(frozen=True, eq=False)
class MemoryReport(NotPickled, ShownByText):
    """What a graph needs at `sizes`, run by `executor` with `keep`.

    `training` is the whole graph, an update included; None for a graph without a backward pass.
    `prediction` is what `predict` needs.  `assumed` are the sizes that nobody gave: a reference, at
    which the order is chosen.  `concrete` is the graph at these sizes, `predicting` the graph of
    prediction, without dropout; `lying` says how arguments lie that are not in C order.
    """

    _called = "a report of memory"
    _instead = "json.dumps(report.json()) holds its numbers, str(report) its text"

    graph: Graph
    concrete: Graph
    predicting: Graph
    sizes: Mapping[str, int]
    assumed: tuple[str, ...]
    executor: str
    keep: Keep
    predict: tuple[str, ...]
    lying: Mapping[str, Lying]
    training: RunMemory | None
    prediction: RunMemory
    again: Callable[[str, Mapping[str, int]], MemoryReport] = field(repr=False)
    step: TrainingStep | None = field(default=None, repr=False)

    @entry
    def at(self, **sizes: int) -> MemoryReport:
        """The report at other sizes, planned anew; those not given are as they are here."""
        return self.again(self.executor, {**self.sizes, **sizes})

    @entry
    def tradeoff(self, *, speeds: Speeds | None = None, measure: Measure = False) -> Tradeoff:
        """Bytes against predicted time, from the bytes of this report to the least.

        `speeds` and `measure` as for `TrainingStep.tradeoff`.
        """
        from chainrule.explain.memory.tradeoff import tradeoff_of

        return tradeoff_of(self, speeds, measure)

    def nanoseconds(self, speeds: Speeds | None = None) -> float:
        """About how long the main run takes, on a machine with these speeds; 0 where the executor
        does not say."""
        return self.main.nanoseconds(speeds)

    def run(self, measure: Measure = True) -> Run:
        """The main run as `measured_runs.timed` takes it."""
        from chainrule.explain.cost.measured_runs import run_of_report

        return run_of_report(self, measure)

    @property
    def needed_nbytes(self) -> int:
        """What the main run allocates when most is, and what it takes outside arrays."""
        return self.main.peak_nbytes + self.overhead_nbytes

    @cached_property
    def formulas(self) -> MemoryFormulas:
        """The peaks and their parts as formulas in the named sizes, for the order of this report.

        In logical bytes; a plan made at other sizes may choose another order, and need less.
        InputError where, within a budget, loops keep as many states as these sizes leave room for.
        """
        reference = {name: self.sizes[name] for name in self.graph.sizes}
        training = None
        if self.training is not None:
            training = formulas_of(
                self.training,
                named_nodes(form_like(self.graph, self.concrete, reference), self.concrete),
                reference,
            )
        concrete = self.prediction.graph
        named = named_nodes(form_like(self.predicting, concrete, reference), concrete)
        prediction = formulas_of(self.prediction, named, reference)
        return MemoryFormulas(self.graph.name, reference, training, prediction)

    @entry
    def largest(self, name: str, nbytes: int | str) -> Largest:
        """The largest size called `name` that fits in `nbytes`: `report.largest("n", "8GiB")`.

        Found by the formula and settled by real plans around it; the other sizes are those of the
        report.  MemoryLimitError if none fits.
        """
        return largest(self, name, nbytes)

    @property
    def main(self) -> RunMemory:
        """Training if there is a backward pass, else prediction."""
        return self.prediction if self.training is None else self.training

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Every named value of the main run, in the order of the graph."""
        run = self.main
        place = {node: number for number, node in enumerate(run.graph.nodes)}
        named = sorted(run.graph.name_of.items(), key=lambda pair: place[pair[0]])
        return {name: value_of(run, name, node) for node, name in named}

    def why(self, name: str) -> str:
        """Why a value is in memory, and from when to when, in one sentence.

        For a container a sentence for each array that it contains, a line each.
        """
        graph = self.main.graph
        parts = graph.structures[name].leaf_names if name in graph.structures else (name,)
        for part in parts:
            if part not in graph.names:
                raise graph.unknown_name(part)
        return "\n".join(sentence(self.main, graph[part], part) for part in parts)

    @cached_property
    def overhead(self) -> Mapping[str, int]:
        """Estimated bytes that the main run takes outside arrays, by what they are.

        Compiled code, thread stacks, buffers of BLAS and NumPy.  No other number includes them.
        """
        return overhead_of(self.main)

    @property
    def compiled(self) -> Mapping[str, int]:
        """The bytes of the main run as the compiler of `xla` says; empty for others.  Compiles."""
        return compiled_of(self.main)

    @property
    def compiled_values(self) -> Mapping[str, int]:
        """What lies in scratch memory when that is fullest, by name, the most first, as far as the
        compiler of `xla` tells; empty for others.  Compiles."""
        return compiled_values_of(self.main)

    @property
    def overhead_nbytes(self) -> int:
        """The sum of `overhead`."""
        return sum(self.overhead.values())

    @entry
    def table(self, rows: int | None = ROWS) -> str:
        """The report as plain text, with the `rows` largest values; None for all."""
        return text(self, rows)

    @entry
    def html(self, rows: int | None = ROWS) -> str:
        """The report as an HTML document that loads nothing from elsewhere."""
        return page(self, rows)

    def json(self) -> dict[str, Any]:
        """The report as dicts and lists that `json.dumps` takes: docs/memory.md has the schema."""
        return data(self)

    @entry
    def timeline_svg(self, run: str | None = None) -> str:
        """A picture of the bytes in use by instruction: "training", or "prediction".

        The default is training where there is a backward pass.  InputError for another run.
        """
        found = runs(self)
        name = next(iter(found)) if run is None else run
        if name not in found:
            raise InputError(
                f"the report of {self.graph.name} has no run {name!r}",
                hint=f"one of: {', '.join(map(repr, found))}",
            )
        return picture(found[name], picture_title(self, name))

    @entry
    def save_timeline(self, path: str | Path, run: str | None = None) -> None:
        """Write `timeline_svg` to a file whose name ends in .svg, else InputError; atomically."""
        write_svg(Path(path), self.timeline_svg(run), "timeline")

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return section(self)

    def __rich__(self) -> Any:
        from chainrule.explain.memory.rich_table import rich_text

        return rich_text(self)


@without_collector
def memory_of_graph(
    graph: Graph,
    sizes: Mapping[str, int],
    *,
    keep: Keep = "outputs",
    predict: str | Sequence[str] | None = None,
    executor: str | None = None,
    layout: Layout | None = None,
    placement_seconds: float = 0.0,
    memory: int | str | None = None,
) -> MemoryReport:
    """The report of a graph; see `Graph.memory`."""
    executor = executor_with(executor, placement_seconds, memory)
    report = _of_graph(graph, keep, predict, lying_of(graph, layout), executor, sizes)
    if predict is not None:
        warn_of_batch_statistics(report.predicting)
    refuse_copies_of(report.main, report.executor)
    return report


def _of_graph(
    graph: Graph,
    keep: Keep,
    predict: str | Sequence[str] | None,
    lying: Mapping[str, Lying],
    executor: str,
    sizes: Mapping[str, int],
) -> MemoryReport:
    check_sizes(graph, sizes)
    used, assumed = _all_sizes(graph, sizes)
    concrete = in_memory(executor, graph.bound(used), lambda one: (kept_nodes(one, keep), {}))
    outputs = {node for _, node in concrete.outputs}
    inputs = {item.node for item in concrete.inputs}
    parameters = {
        one.wrt for one in concrete.gradients if one.wrt in inputs and one.value in outputs
    }
    targets = tuple(dict.fromkeys(one.of for one in concrete.gradients))
    kept = kept_nodes(concrete, keep)
    training = None
    if targets:
        training = run_memory_of(
            concrete,
            kept,
            objectives=[concrete[name] for name in targets],
            parameters=parameters,
            executor=executor,
            lying=lying,
        )
    names = _predicted(predict, targets or tuple(name for name, _ in concrete.outputs))
    if targets or predict is not None:
        predicting = predicting_graph(graph, names)
        own = {item.name for item in concrete.inputs if item.node in parameters}
        prediction = _prediction(predicting, used, own, (), executor, lying)
    else:  # a run of the graph as it is
        predicting = graph
        prediction = run_memory_of(
            concrete, kept, objectives=kept, parameters=parameters, executor=executor, lying=lying
        )
    again = partial(_of_graph, graph, keep, predict, lying)
    return MemoryReport(
        graph,
        concrete,
        predicting,
        used,
        assumed,
        executor,
        keep,
        names,
        lying,
        training,
        prediction,
        again,
    )


@without_collector
def memory_of_step(
    step: TrainingStep,
    sizes: Mapping[str, int],
    *,
    predict: str | Sequence[str] | None = None,
    executor: str | None = None,
    layout: Layout | None = None,
) -> MemoryReport:
    """The report of a training step with its optimizer; see `TrainingStep.memory`."""
    own = {part.name for part in step.persistent}
    given = [item.name for item in step.graph.inputs if item.name not in own]
    report = of_step(step, predict, lying_of(step.graph, layout, given), executor, sizes)
    if predict is not None:
        warn_of_batch_statistics(report.predicting)
    refuse_copies_of(report.main, report.executor)
    return report


def of_step(
    step: TrainingStep,
    predict: str | Sequence[str] | None,
    lying: Mapping[str, Lying],
    executor: str | None,
    sizes: Mapping[str, int],
) -> MemoryReport:
    """As `memory_of_step`, where the inputs with these names lie so."""
    executor = executor_named(executor or step.executor)
    check_sizes(step.graph, sizes)
    used, assumed = _all_sizes(step.graph, sizes)
    concrete = in_memory(executor, step.graph.bound(used), step.results)
    results, overwrites = step.results(concrete)
    persistent = _inputs(concrete, [part.name for part in step.persistent])
    parameters, carried = (_inputs(concrete, one) for one in (step.parameters, step.carried))
    training = run_memory_of(
        concrete,
        results,
        objectives=[concrete[step.objective]],
        parameters=parameters,
        state=persistent - parameters,
        carried=carried,
        overwrites=overwrites,
        executor=executor,
        lying=lying,
    )
    names = _predicted(predict, (step.objective,))
    known = all(name in step.evaluation for name in names)
    predicting = predicting_graph(step.evaluation if known else step.graph, names)
    prediction = _prediction(predicting, used, step.parameters, step.carried, executor, lying)
    again = partial(of_step, step, predict, lying)
    graphs, runs = (step.graph, concrete, predicting), (training, prediction)
    known = used, assumed, executor
    return MemoryReport(*graphs, *known, "outputs", names, lying, *runs, again, step)


def _prediction(
    predicting: Graph,
    sizes: Mapping[str, int],
    parameters: Collection[str],
    carried: Collection[str],
    executor: str,
    lying: Mapping[str, Lying],
) -> RunMemory:
    graph = with_sizes(predicting, sizes).replace(conditions=())
    graph = widen(graph)
    graph = uses.blocked(graph, [node for _, node in graph.outputs])
    results = list(dict.fromkeys(node for _, node in graph.outputs))
    own: Any = {"parameters": _inputs(graph, parameters), "carried": _inputs(graph, carried)}
    own |= {"executor": executor, "lying": lying}
    return run_memory_of(graph, results, objectives=results, **own)


def _inputs(graph: Graph, names: Collection[str]) -> set[Node]:
    return {item.node for item in graph.inputs if item.name in names}


def _predicted(asked: str | Sequence[str] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    return default if asked is None else (asked,) if isinstance(asked, str) else tuple(asked)


def _all_sizes(graph: Graph, given: Mapping[str, int]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Every named size, and those that were not given."""
    assumed = tuple(name for name in graph.sizes if name not in given)
    return {**given, **dict.fromkeys(assumed, REFERENCE_SIZE)}, assumed
