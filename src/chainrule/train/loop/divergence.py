"""Goes back to the state before an objective became NaN or infinite, and finds the cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.data import Minibatches
from chainrule.errors import NonFiniteError
from chainrule.execute.leaves import leaves_of
from chainrule.execute.run import run_graph
from chainrule.explain.nonfinite import Diagnosis, nonfinite_step
from chainrule.graph.dtypes import dtype_kind
from chainrule.train.loop.feed import after
from chainrule.train.loop.position import Position
from chainrule.train.step.job import ALONE, Job, agreed, first
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep
from chainrule.transforms.forward_only import prediction_graph

if TYPE_CHECKING:
    from chainrule.train.loop.assembly import Assembled
    from chainrule.train.loop.loop import Loop


class Snapshot:
    """A copy of a state and of a position, in memory that is used again: of a rank, its share.

    `was_finite` says whether all numbers of the state were.
    """

    was_finite = False

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._elsewhere: dict[str, np.ndarray] = {}
        self.shares: object = None
        self._steps = 0
        self._position = Position()

    def take(self, state: State, position: Position, job: Job) -> None:
        """Copy both."""
        own = state.parts
        if not self._arrays or self.shares is not state.shares:
            self._arrays = {name: np.empty_like(one) for name, one in own.items()}
            self._elsewhere = dict(state.elsewhere)
            self.shares = state.shares
        for name, array in self._arrays.items():
            np.copyto(array, own[name])
        self._steps, self._position = state.steps, position.copy()
        self.was_finite = is_finite(state, job)

    def put_back(self, state: State) -> Position:
        """Give the state the copied arrays and steps again; returns the position."""
        with state.updating:
            if self.shares is not state.shares:
                state.hold(self._arrays, self._elsewhere, self.shares)
            state.put(list(self._arrays.items()))
            state.steps_taken = self._steps
        return self._position.copy()


def is_finite(state: State, job: Job = ALONE) -> bool:
    """Whether all numbers of a state are finite, on all ranks."""
    arrays = state.parts.values()
    own = all(bool(np.isfinite(array).all()) for array in arrays if dtype_kind(array.dtype) == "f")
    return not agreed(job, "looks whether its state is finite", not own)


def diverged(loop: Loop, value: float, number: int, batch: Mapping[str, Any]) -> NonFiniteError:
    """The error for a step, the one after `number` steps, that gave `value` for the objective.

    The loop is then where it was before the step that was the first to spoil something.
    """
    what = f"training diverged: the objective is {value} in step {number + 1}"
    bad = _rewound(loop, number)
    if bad < number:
        what += f", after step {bad + 1} left a state that is not finite"
        batch = _next(loop)
    return _error(loop, what, batch)


def refuse_spoiled(loop: Loop) -> None:
    """NonFiniteError if the state was finite when the snapshot was taken, and is not now.

    The loop is then where it was before the step that spoiled it.
    """
    if loop.snapshot.was_finite and not is_finite(loop.state, loop.made.job):
        number = loop.state.steps
        bad = _rewound(loop, number)
        what = f"training diverged: step {bad + 1} left a state that is not finite"
        raise _error(loop, what, _next(loop) if bad < number else None)


def refuse_nonfinite(loop: Loop, batch: Mapping[str, Any]) -> None:
    """NonFiniteError if the step that comes next makes anything that is not finite."""
    if _lines(loop, batch)[0]:
        raise _error(loop, f"step {loop.state.steps + 1} is not finite", batch)


def _rewound(loop: Loop, number: int) -> int:
    """Go back to before the first bad step of `number`, or to after all; how many there were then.

    The steps since the snapshot are taken again, which are the same steps again: the first one that
    makes the objective, or a state that was finite, not finite is the bad one.
    """
    loop.position = loop.snapshot.put_back(loop.state)
    was_finite, bad = loop.snapshot.was_finite, number
    for value in loop.again(number):
        if not math.isfinite(value) or (was_finite and not is_finite(loop.state, loop.made.job)):
            bad = loop.state.steps - 1
            break
    loop.position = loop.snapshot.put_back(loop.state)
    for _ in loop.again(bad):
        pass
    return bad


def _next(loop: Loop) -> Mapping[str, Any]:
    """What the step that comes next is given."""
    batches = after(loop.feed.batches(loop.position.epoch + 1), loop.position.batch)
    return loop.feed.complete(next(batches), loop.state.steps)


def _diagnosed(
    made: Assembled, arrays: Mapping[str, np.ndarray], batch: Mapping[str, Any]
) -> Diagnosis | None:
    """What makes a step on this batch not finite, part by part where it is taken in parts."""
    if made.parts is None:
        return nonfinite_step(made.whole, arrays, batch)
    for part in _of_parts(made.parts, leaves_of(made.whole.graph, batch)):
        found = nonfinite_step(made.whole, arrays, part)
        if found is not None:
            return found
        arrays = {**arrays, **_carried_on(made.whole, arrays, part)}
    return None


def _carried_on(
    step: TrainingStep, arrays: Mapping[str, np.ndarray], part: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """What a part of a batch leaves for the next one of the state that the objective carries."""
    following = {one.name: one.next_name for one in step.persistent if one.is_carried}
    if not following:
        return {}
    graph = prediction_graph(step.graph, list(following.values()))
    known = {item.name for item in graph.inputs}
    given = {name: one for name, one in {**part, **arrays}.items() if name in known}
    run = run_graph(graph, given, keep="outputs", flat=True)
    return {name: run[then] for name, then in following.items()}


def _of_parts(step: MicroBatchedStep, leaves: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    name, axis = next(iter(step.split.items()))
    rows = step.part_of(np.shape(leaves[name])[axis])
    for start in range(0, rows * step.count, rows):
        places = range(start, start + rows)
        own = {n: np.take(leaves[n], places, axis=axis) for n, axis in step.split.items()}
        yield {**leaves, **own}


def _error(loop: Loop, what: str, batch: Mapping[str, Any] | None) -> NonFiniteError:
    """The error before a step on this batch, which is replayed; None where that is not known."""
    position = loop.position
    lines = [f"{what} (epoch {position.epoch + 1}, batch {position.batch + 1})"]
    told, found = ([], None) if batch is None else _lines(loop, batch)
    lines += told
    if not told:
        lines.append(
            "the reference executor computes that step without NaN and inf: either they "
            "come of other rounding, or the data of an epoch were not the same again"
        )
    error = NonFiniteError(
        "\n  ".join(lines),
        hint=f"the state is as it was after step {loop.state.steps}, before the bad one: "
        "trainer.state",
    )
    error.diagnosis = found
    return error


def _lines(loop: Loop, batch: Mapping[str, Any]) -> tuple[list[str], Diagnosis | None]:
    """What is not finite in the step on this batch, in words; the first rank looks for it, and
    has the diagnosis."""
    made, found = loop.made, None
    arrays = made.arrays_of(loop.state, to=0)

    def look() -> list[str]:
        nonlocal found
        found = _diagnosed(made, arrays, batch)
        return [] if found is None else [*str(found).split("\n"), *_row(loop, found)]

    return first(made.job, "looks for what is not finite", look, math.inf), found


def _row(loop: Loop, found: Diagnosis) -> list[str]:
    """Which row of the data it is, where one is bad."""
    batches = loop.feed.batches(loop.position.epoch + 1)
    if found.value not in loop.feed.arguments or not isinstance(batches, Minibatches):
        return []
    rows, index = batches.rows(loop.position.batch), found.indices[0]
    if loop.made.parts is not None or not index:
        return []
    return [f"  row {index[0]} of the batch is row {rows[index[0]]} of the data"]
