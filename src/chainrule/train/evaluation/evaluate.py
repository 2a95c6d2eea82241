"""`evaluate`: the objective and the accuracy over many rows, by forward propagation alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.execute.casting import in_own_precision
from chainrule.execute.executors import executor_named
from chainrule.execute.leaves import leaves_of
from chainrule.graph.graph import Graph
from chainrule.random import key
from chainrule.random.keys import checked
from chainrule.tracebacks import entry
from chainrule.train.evaluation.forward import Forward
from chainrule.train.evaluation.measures import Measures, confused
from chainrule.train.loop.rows import count_rows, row_arguments
from chainrule.train.step.carried import objective_of
from chainrule.train.step.counting import Accuracy, checked_accuracy
from chainrule.train.step.job import ALONE, Job
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep
from chainrule.train.step.switch import evaluated, types_given

BATCH_SIZE = 256  # rows at a time, where nothing is said


@entry
def evaluate(
    objective: Callable[..., Any] | Graph | TrainingStep,
    parameters: Mapping[str, Any] | State,
    data: Any,
    *,
    accuracy: Accuracy | None = None,
    of: str | None = None,
    batch_size: int = BATCH_SIZE,
    key: Any = None,
    executor: str | None = None,
) -> Measures:
    """Computes the objective over all rows of `data`, and with `accuracy` how they are classified.

    `data` are arrays by the names of the inputs, cut into batches of `batch_size` rows, or an
    iterable of batches: dicts, or tuples in the order of the arguments (a DataLoader).
    `accuracy=("o", "y")` names class scores [n, classes] and labels [n].
    `parameters` are what the objective needs beside, or the state of a training.

    The graph is that of forward propagation alone, in which `cr.dropout` is the identity; an
    argument `training` of the objective that is a bool is False.  What else is random is drawn with
    `key` (default: `cr.random.key(0)`).  `of` names the objective where the function returns
    several values, other than what follows its state.  Warns (BatchStatisticsWarning) where it
    normalises by the statistics of each batch.

    InputError for names that the objective does not have, and for no rows; IndexOutOfRangeError
    for labels that are no class; and what a run raises.
    """
    graph, name = forward_of(objective, of, parameters)
    names = (name,) if accuracy is None else (name, *checked_accuracy(graph, accuracy))
    arrays = arrays_given(graph, parameters)
    forward = Forward.of(graph, names, arrays, checked_key(key), executor_named(executor))
    return measured(forward, data, batch_size)


def measured(
    forward: Forward,
    data: Any,
    batch_size: int,
    check: Callable[[], None] = lambda: None,
    job: Job = ALONE,
) -> Measures:
    """The measures of a `Forward` whose values are the objective, or that, scores and labels.

    `check` is called after every batch, and may raise to leave.  The processes of a `job` share the
    batches, and have the measures of all: with the same bits as one of them alone.
    """
    own: list[tuple[float, int]] = []
    confusion: Any = None
    named = forward.names[2:]
    size = forward.graph[named[0]].type.shape[0] if named else None
    arguments = row_arguments(forward.source, forward.arrays, size)
    for number, batch in enumerate(forward.batches(data, batch_size)):
        turn = number % job.count
        if turn != job.rank:
            if turn == job.count - 1:
                check()
            continue
        objective, *classes = forward.run(batch, number)
        if objective.ndim:
            raise InputError(
                f"{forward.names[0]} is no objective but {forward.graph[forward.names[0]].type}",
                where=forward.graph[forward.names[0]].origin.describe(),
                hint="an objective is one number: J = np.mean(...)",
            )
        rows = count_rows(batch, arguments)
        own.append((float(objective), rows))
        if classes:
            scores, labels = classes
            found = confused(scores, labels, (forward.names[1], forward.names[2]))
            confusion = found if confusion is None else confusion + found
        if turn == job.count - 1:
            check()
    total, count = 0.0, 0
    if job.count > 1:
        own, confusion = _of_all(job, own, confusion)
    for value, rows in own:
        total += value * rows
        count += rows
    accuracy = None if confusion is None else float(np.trace(confusion) / confusion.sum())
    return Measures(total / count, accuracy, confusion, count)


def _of_all(
    job: Job, own: list[tuple[float, int]], confusion: np.ndarray | None
) -> tuple[list[tuple[float, int]], np.ndarray | None]:
    """What all processes have computed of their batches, in the order of batches, and added up."""
    told = job.exchange("evaluates", [own, None if confusion is None else confusion.tolist()])
    rounds = zip_longest(*[one for one, _ in told])
    found = [np.array(other, np.int64) for _, other in told if other is not None]
    return [one for turn in rounds for one in turn if one], np.sum(found, 0) if found else None


def forward_of(
    objective: Callable[..., Any] | Graph | Any,
    of: str | None,
    parameters: Mapping[str, Any] | State,
) -> tuple[Graph, str]:
    """The graph of an objective, and the name of its value."""
    if isinstance(objective, TrainingStep):
        return objective.evaluation, of or objective.objective
    graph = graph_of(objective, parameters)
    of = of or objective_of(graph)
    if of is None:
        names = [name for name, _ in graph.outputs]
        raise InputError(
            f"{graph.name} has {len(names)} outputs: {', '.join(names)}",
            hint=f"say which one is the objective: of={names[0]!r}" if names else "return one",
        )
    return graph, of


def arrays_given(graph: Graph, parameters: Mapping[str, Any] | State) -> dict[str, Any]:
    """The arrays by the names of inputs; of a state those that the optimizer does not own."""
    if isinstance(parameters, State):
        return parameters.copies(parameters.weight_names)
    return in_own_precision(graph, leaves_of(graph, parameters))


def graph_of(
    objective: Callable[..., Any] | Graph | TrainingStep,
    parameters: Mapping[str, Any] | State,
) -> Graph:
    """The graph of an objective to be evaluated, traced if it is a function: arguments whose types
    it does not say have those of `parameters`."""
    if isinstance(objective, TrainingStep):
        return objective.evaluation
    if isinstance(objective, Graph):
        return objective
    if not callable(objective):
        raise InputError(
            "an objective is a function, a graph or a training step, "
            f"got {type(objective).__name__}",
            hint="cr.evaluate(objective, parameters, data), with a function of arrays",
        )
    given = parameters.weights if isinstance(parameters, State) else parameters
    return evaluated(objective, types_given(objective, given))


def checked_key(given: Any) -> np.ndarray:
    """The key; that of the seed 0 where none is given."""
    return key(0) if given is None else checked(given, None)
