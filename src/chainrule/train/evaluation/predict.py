"""`predict`: one value of the graph for many rows, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from chainrule.errors import ShapeError
from chainrule.execute.executors import executor_named
from chainrule.graph.graph import Graph
from chainrule.graph.sizes.sizes import Size
from chainrule.tracebacks import entry
from chainrule.train.evaluation.evaluate import (
    BATCH_SIZE,
    arrays_given,
    checked_key,
    graph_of,
)
from chainrule.train.evaluation.forward import Forward
from chainrule.train.loop.rows import count_rows, roots_of, row_arguments
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep


@entry
def predict(
    objective: Callable[..., Any] | Graph | TrainingStep,
    parameters: Mapping[str, Any] | State,
    data: Any,
    output: str,
    *,
    batch_size: int = BATCH_SIZE,
    key: Any = None,
    executor: str | None = None,
) -> np.ndarray:
    """Computes the value called `output`, whose first axis counts rows, for all rows of `data`.

    `data` are arrays by the names of the inputs, cut into batches of `batch_size` rows, or an
    iterable of batches: dicts, or tuples in the order of the arguments (a DataLoader).
    Only what `output` needs has to be there (no labels), and only that is
    computed: forward propagation, in which `cr.dropout` is the identity, and an argument `training`
    of the objective that is a bool is False.  `parameters` may be the state of a training.  What
    else is random is drawn with `key` (default: `cr.random.key(0)`).  Warns
    (BatchStatisticsWarning) where `output` is normalised by the statistics of each batch.

    InputError for names that the objective does not have, for what is missing, and for no rows;
    NameLookupError for an unknown output, ShapeError for one without a row for each row of data.
    """
    graph = graph_of(objective, parameters)
    arrays = arrays_given(graph, parameters)
    forward = Forward.of(graph, (output,), arrays, checked_key(key), executor_named(executor))
    return predicted(forward, data, batch_size)


def predicted(forward: Forward, data: Any, batch_size: int) -> np.ndarray:
    """The one value of a `Forward` for all rows."""
    found: list[np.ndarray] = []
    shape = forward.graph[forward.names[0]].type.shape
    arguments = row_arguments(forward.source, forward.arrays, shape[0] if shape else None)
    has_rows = _has_rows(forward, arguments)
    for number, batch in enumerate(forward.batches(data, batch_size)):
        (value,) = forward.run(batch, number)
        rows = count_rows(batch, arguments)
        if not has_rows or value.ndim == 0 or len(value) != rows:
            output = forward.names[0]
            raise ShapeError(
                f"{output} has no row for each row of the data: it is {forward.graph[output].type}",
                where=forward.graph[output].origin.describe(),
                hint="predict a value whose first axis is that of the data, such as class scores",
            )
        found.append(value)
    return found[0] if len(found) == 1 else np.concatenate(found)


def _has_rows(forward: Forward, arguments: Collection[str]) -> bool:
    """Whether the value's first axis is that of the rows, as far as sizes with names tell."""
    roots = roots_of(forward.source)
    rows = {
        str(item.type.shape[0])
        for item in forward.graph.inputs
        if roots[item.name] in arguments and item.type.ndim and isinstance(item.type.shape[0], Size)
    }
    shape = forward.graph[forward.names[0]].type.shape
    return not rows or (len(shape) > 0 and str(shape[0]) in rows)
