"""Computes what progress shows of a loop: numbers as it runs, and its plan before."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

from chainrule.data import Minibatches
from chainrule.errors import ChainruleError
from chainrule.execute.arguments import bound_to, sizes_from
from chainrule.train.loop.loop import Loop
from chainrule.train.loop.progress import Plan, Reading
from chainrule.train.step.job import SplitStep
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep


def reading_of(loop: Loop) -> Reading:
    """Where the loop is; another thread may ask while it goes on."""
    position, history = loop.position, loop.history.lines
    line = position.line
    last = history[-1] if history else {}
    accuracy = line.accuracy(loop.correct_rows)
    for name in ("accuracy", "validation_accuracy"):
        accuracy = last.get(name) if accuracy is None else accuracy
    return Reading(
        epoch=position.epoch + 1,
        steps=loop.state.steps,
        rows=position.before.rows + line.rows,
        objective=line.mean if line.rows else last.get("objective"),
        accuracy=accuracy,
    )


def plan_of(loop: Loop, epochs: int) -> Plan:
    """How many steps there are up to the end of so many epochs, and the bytes of a step."""
    position = loop.position
    batches = loop.feed.batches(position.epoch + 1)
    steps = None
    if isinstance(batches, Sized):
        left = (epochs - position.epoch) * len(batches) - position.batch
        steps = loop.state.steps + max(left, 0)
    nbytes = None
    if isinstance(batches, (Minibatches, list, tuple)) and len(batches):
        nbytes = _nbytes(loop, batches[0])
    return Plan(epochs, steps, nbytes)


def sizes_of(loop: Loop, batch: object) -> dict[str, int]:
    """The named sizes of a step on this batch; what a step raises where it does not fit."""
    return sizes_in(loop.made.whole, loop.state, loop.feed.complete(batch, loop.state.steps))


def sizes_in(whole: TrainingStep, state: State, given: Mapping[str, Any]) -> dict[str, int]:
    """The named sizes of a step on a batch with its constants and keys."""
    _, arrays = bound_to(whole.graph, whole.arguments(state.outlines, given))
    values = dict(zip((x.name for x in whole.graph.inputs), arrays.values(), strict=True))
    return sizes_from(whole.graph, values)


def _nbytes(loop: Loop, batch: object) -> int | None:
    """What a step on this batch allocates at most, with the snapshot of the state."""
    try:
        sizes = sizes_of(loop, batch)
    except ChainruleError:  # which the first step raises, and tells in which batch
        return None
    step = loop.made.step
    if isinstance(step, SplitStep):
        planned = step.planned_nbytes(sizes)
    elif isinstance(step, MicroBatchedStep):
        planned = step.memory(sizes).peak_nbytes
    else:
        planned = step.memory(sizes).main.peak_nbytes
    if loop.nonfinite == "auto":
        planned += sum(array.nbytes for array in loop.state.memory.values())
    return planned
