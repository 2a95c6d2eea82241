"""Assembles the step, the state and the constants of a trainer from its arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass, replace
from chainrule.errors import InputError
from chainrule.execute.casting import in_own_precision
from chainrule.execute.executors import executor_with
from chainrule.execute.leaves import taken_apart
from chainrule.graph.graph import Graph
from chainrule.graph.sizes.sizes import Size, size
from chainrule.train.loop.rows import refuse_unknown
from chainrule.train.optimizers.optimizer import Optimizer
from chainrule.train.optimizers.optimizers import no_optimizer
from chainrule.train.step.counting import Accuracy, checked_accuracy, counting
from chainrule.train.step.job import ALONE, Job, SplitsSteps, SplitStep, Step
from chainrule.train.step.making import step_of
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep
from chainrule.train.step.switch import forms_of, types_given


@dataclass(frozen=True, eq=False)
class Assembled:
    """`step` is what is taken, `whole` the same on a batch at once, `parts` in micro-batches if it
    is taken so, by the processes of `job`; `correct` is the array of the state that counts rows
    that are classified right, if it has one, and `plain` the step without that."""

    step: Step
    whole: TrainingStep
    parts: MicroBatchedStep | None
    job: Job
    state: State
    constants: Mapping[str, Any]
    accuracy: Accuracy | None
    correct: str | None
    plain: TrainingStep

    @property
    def row_size(self) -> int | Size | None:
        """The size that counts rows, where labels or the parts of a batch tell."""
        if self.accuracy is not None:
            return self.whole.graph[self.accuracy[1]].type.shape[0]
        return None if self.parts is None else size(self.parts.size)

    def arrays_of(
        self, state: State, names: Collection[str] | None = None, to: int | None = None
    ) -> Mapping[str, np.ndarray]:
        """As `SplitStep.arrays_of`: the arrays of the state itself where there is one process."""
        if isinstance(self.step, SplitStep):
            return self.step.arrays_of(state, names, to)
        return state.arrays if names is None else {name: state.arrays[name] for name in names}


def assembled(
    objective: Callable[..., Any] | Graph | Step,
    parameters: Mapping[str, Any],
    optimizer: Optimizer | None,
    wrt: Any,
    of: str | None,
    own_state: str | Iterable[str],
    accuracy: Accuracy | None,
    micro_batches: int,
    executor: str | None,
    memory: int | str | None,
    is_split: bool = False,
) -> Assembled:
    """The parts of a training; see `Trainer`.  One that is split later counts no rows."""
    if not isinstance(parameters, Mapping) or not parameters:
        got = "none" if isinstance(parameters, Mapping) else type(parameters).__name__
        raise InputError(
            f"parameters must be arrays by name, got {got}",
            hint='{"W1": W1, "W2": W2}: what training begins with; a container goes by the '
            'argument that takes it: {"params": params}',
        )
    step = _step(objective, parameters, optimizer, wrt, of, own_state, executor, memory)
    count = counted("micro_batches", micro_batches)
    parts, correct = parts_of(step), None
    plain = whole = whole_of(step)
    if accuracy is not None:
        accuracy = checked_accuracy(whole.differentiated, accuracy)
    if parts is not None:
        if count > 1:
            raise InputError(
                f"micro_batches={count} with a step that is taken in {parts.count} parts already",
                hint="one of the two",
            )
    elif is_split:
        pass
    elif count > 1:
        step = parts = whole.micro_batched(count)
    elif accuracy is not None:
        step, correct = counting(whole, accuracy)
        whole = step
    own, constants = _split(whole, parameters)
    job = step.job if isinstance(step, SplitStep) else ALONE
    state = whole.init(own)
    return Assembled(step, whole, parts, job, state, constants, accuracy, correct, plain)


def split_over(
    made: Assembled, devices: Any, batch: int | Mapping[str, int], micro_batches: int
) -> Assembled:
    """The training with its step split over devices, or so many of this machine's, for a batch of
    these sizes or rows."""
    is_count = hasattr(devices, "__index__")
    if not is_count and not isinstance(devices, SplitsSteps):
        raise InputError(
            f"devices={devices!r:.60} are no devices",
            hint="devices=4, or cr.Devices.cpu(4), for which a plan is searched; to say one "
            "yourself, give the trainer a split step: cr.Trainer(cr.parallel(step, "
            "micro_batches=8, stages=2), parameters, data=data)",
        )
    if made.parts is not None:
        raise InputError(
            "devices= was given beside a step that is taken in parts or split already",
            hint="leave devices out, or give the objective, or a training step",
        )
    asked = {"micro_batches": micro_batches} if micro_batches > 1 else {}
    if is_count:
        way_in = import_module("chainrule.devices.parallelise")  # which rests on this room
        split = way_in.parallel(made.whole, devices, batch=batch, **asked)
    else:
        split = devices.parallel(made.whole, batch=batch, **asked)
    return replace(made, step=split, parts=split.parts, job=split.job)


def whole_of(step: Step) -> TrainingStep:
    """The step on a batch at once."""
    if isinstance(step, SplitStep):
        return step.parts.whole
    return step.whole if isinstance(step, MicroBatchedStep) else step


def parts_of(step: Step) -> MicroBatchedStep | None:
    """The step in micro-batches, if it is taken so."""
    if isinstance(step, SplitStep):
        return step.parts
    return step if isinstance(step, MicroBatchedStep) else None


def _step(
    objective: Callable[..., Any] | Graph | Step,
    parameters: Mapping[str, Any],
    optimizer: Optimizer | None,
    wrt: Any,
    of: str | None,
    state: str | Iterable[str],
    executor: str | None,
    memory: int | str | None,
) -> Step:
    if isinstance(objective, (TrainingStep, MicroBatchedStep, SplitStep)):
        given = {"optimizer": optimizer, "wrt": wrt, "of": of, "executor": executor}
        given |= {"memory": memory, "state": state or None}
        for name, value in given.items():
            if value is not None:
                raise InputError(
                    f"{name}= was given beside a training step, which has its own",
                    hint=f"leave {name} out: cr.training_step(..., {name}=...) takes it; or give "
                    "the objective in place of the step",
                )
        return objective
    if optimizer is None:
        raise InputError(
            "the optimizer is missing",
            hint="cr.Trainer(objective, parameters, cr.adam(1e-3), data), or cr.sgd(0.1)",
        )
    if not isinstance(optimizer, Optimizer):
        raise no_optimizer(optimizer)
    is_graph = isinstance(objective, Graph)
    forms = forms_of(objective, {} if is_graph else types_given(objective, parameters))
    graph = forms.training
    refuse_unknown(graph, parameters, "the parameters", graph.arguments)
    state = (state,) if isinstance(state, str) else tuple(state)
    if wrt is None:
        wrt = tuple([name for name in parameters if name not in state])
    elif not wrt:
        raise InputError(
            f"wrt={wrt!r}: nothing would be trained",
            hint=f"wrt={next(iter(parameters))!r}, or none for all parameters",
        )
    executor = executor_with(executor, memory=memory)
    return step_of(forms, wrt, optimizer, of, state, executor)


def _split(
    step: TrainingStep, parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What lives in the state, and the arrays of what does not; containers stay whole where all of
    their parts live there."""
    refuse_unknown(step.graph, parameters, "the parameters", step.graph.arguments)
    taken_apart(step.graph, parameters)  # nothing is given twice
    trained, own, constants = set(step.weights), {}, {}
    for root, value in parameters.items():
        leaves, _ = taken_apart(step.graph, {root: value})
        if set(leaves) <= trained:
            own[root] = value
            continue
        for name, leaf in leaves.items():
            if name in trained:
                own[name] = leaf
            else:
                # a copy, which nobody else changes
                constants[name] = leaf.copy() if isinstance(leaf, np.ndarray) else leaf
    return own, in_own_precision(step.graph, constants)


def counted(name: str, value: Any, least: int = 1) -> int:
    """The value as an integer; InputError where it is none of at least `least`."""
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if count < least or isinstance(value, bool):
        raise InputError(f"{name}={value!r}: an integer of at least {least}", hint=f"{name}=100")
    return count
