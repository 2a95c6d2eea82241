"""`training_step` makes a training step of an objective: gradients, state, and the update."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.execute.executors import executor_with
from chainrule.graph.dtypes import as_dtype, is_bfloat16
from chainrule.graph.graph import Graph
from chainrule.tracebacks import entry
from chainrule.tracing import refuse_unknown_types
from chainrule.train.optimizers.optimizer import Optimizer
from chainrule.train.optimizers.optimizers import no_optimizer
from chainrule.train.step.carried import carried
from chainrule.train.step.step import TrainingStep
from chainrule.train.step.switch import Forms, forms_of
from chainrule.train.step.update import with_update
from chainrule.transforms.backward import Wrt, backward, wrt_names
from chainrule.transforms.mistakes.second_decay import warn_of_second_decay
from chainrule.transforms.mistakes.widening import warn_of_widening
from chainrule.transforms.saved import saved_in

OPTIONS = ("wrt", "optimizer", "of", "state", "executor", "placement_seconds", "memory", "saved")


@entry
def training_step(
    objective: Callable[..., Any] | Graph,
    wrt: Wrt,
    optimizer: Optimizer,
    *,
    of: str | None = None,
    state: str | Iterable[str] = (),
    executor: str | None = None,
    placement_seconds: float = 0.0,
    memory: int | str | None = None,
    saved: Any = None,
    **types: Any,
) -> TrainingStep:
    """Makes a training step that minimises `objective` by updating the inputs `wrt`.

    `objective` is a function (traced; further keywords are types or examples for `trace`) or a
    graph; `wrt` names its parameters, or containers of them; `of` says which output is the
    objective where there are several (the others stay as named values).  `executor` is "native"
    (compiled; the default where native code can be made) or "reference"; `placement_seconds` and
    `memory`, which a step takes at most, as for `Graph.compile`.

    `state` names arguments that live from step to step without a gradient, such as running
    statistics: the objective returns `J, {"running_mean": ..., "running_var": ...}`, with what
    follows each of them, of the same dtype and shape.

    With `saved="bfloat16"`, what the backward pass reads of the forward pass is kept in bfloat16:
    fewer bytes for gradients with a relative error of about 2**-8; the objective stays what it is.

    If the function has an argument `training` that is a bool, it is True in the step, and False
    where the step is evaluated.

    Raises NotDifferentiableError for a parameter that is not floating-point, NameLookupError for
    an unknown one, InputError where what is returned does not fit `state`, and what `trace` and
    `backward` raise.  Warns (UserWarning) where the objective penalises parameters that the
    optimizer decays as well, and (PrecisionWarning) where a constant of NumPy's makes it float64
    while the parameters are float32.
    """
    if not isinstance(objective, Graph):
        refuse_unknown_types(objective, types, OPTIONS, "training_step")
    executor = executor_with(executor, placement_seconds, memory)
    if not isinstance(optimizer, Optimizer):
        raise no_optimizer(optimizer)
    dtype = None if saved is None else _saved_dtype(saved)
    return step_of(forms_of(objective, types), wrt, optimizer, of, state, executor, dtype)


def step_of(
    forms: Forms,
    wrt: Wrt,
    optimizer: Optimizer,
    of: str | None,
    state: str | Iterable[str],
    executor: str,
    saved: np.dtype | None = None,
) -> TrainingStep:
    """The step of an objective that is traced; see `training_step`."""
    made = carried(forms.training, state, of)
    forward, of = made.graph, made.objective
    parameters = _parameters(forward, wrt)
    for name in parameters:
        if name in made.following:
            raise InputError(
                f"{name} is trained (wrt=), and state of {forward.name} that is not",
                hint="one of the two: leave it out of wrt=, or out of state=",
            )
    combined = backward(forward, wrt=parameters, of=of)
    name = of or forward.outputs[0][0]
    if saved is not None:
        combined = saved_in(combined, name, saved)
    decay = dict(optimizer.scalars).get("weight_decay")
    warn_of_second_decay(forward, name, parameters, optimizer.name, decay)
    warn_of_widening(forward, name, parameters)
    update = with_update(combined, name, parameters, optimizer, made.following)
    return TrainingStep(
        graph=update.graph,
        differentiated=combined,
        switched=forms.evaluation,
        objective=name,
        parameters=parameters,
        optimizer=optimizer,
        executor=executor,
        persistent=update.persistent,
        scalars=update.scalars,
        saved=saved,
    )


def _saved_dtype(saved: Any) -> np.dtype:
    """The dtype that `saved=` names."""
    try:
        dtype = as_dtype(saved)
    except TypeError:
        dtype = None
    if dtype is None or not is_bfloat16(dtype):
        raise InputError(
            f"saved={saved!r}: values are saved as they are, or in bfloat16",
            hint='saved="bfloat16", or leave it out',
        )
    return dtype


def _parameters(graph: Graph, wrt: Wrt) -> tuple[str, ...]:
    """The inputs that `wrt` means, each one array."""
    names = wrt_names(graph, wrt)
    inputs = {item.name for item in graph.inputs}
    for name in names:
        if name not in inputs:
            raise InputError(
                f"{name} is computed by {graph.name}: only an input can be a parameter",
                where=graph[name].origin.describe(),
                hint=f"wrt= names inputs: {_float_inputs(graph)}",
            )
    if not names:
        raise InputError(
            "wrt names no parameter: there is nothing to train",
            hint=f"wrt= names inputs: {_float_inputs(graph)}",
        )
    return tuple(names)


def _float_inputs(graph: Graph) -> str:
    return ", ".join(item.name for item in graph.inputs if item.type.is_float)
