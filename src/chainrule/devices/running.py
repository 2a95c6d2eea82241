"""Takes a step on all ranks: as one program, as a rank of a job, or in threads of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.devices.given import at_first, given_to_ranks, numbers_of
from chainrule.devices.instructions import Key, Program
from chainrule.devices.job import launched
from chainrule.devices.one_program import Recording, is_one_program, take_together
from chainrule.devices.splitting import Split
from chainrule.devices.threads import run_in_threads
from chainrule.train.step.state import State

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep
    from chainrule.devices.reports.measuring import Clock


def taken(
    step: ParallelStep,
    state: State,
    given: Mapping[str, Any],
    clocks: Sequence[Clock] | None,
    recording: Recording | None = None,
) -> tuple[Any, Split]:
    """Takes a step for a caller who holds the state; gives the objective, and the split.

    What it takes is measured by `clocks`, one of each rank, or, of one program, by `recording`.
    """
    if is_one_program(step):
        objective, split = take_together(step, state, given, recording)
        if objective is not None:
            return objective, split
    parts = step.parts.split_batch(state, given)
    split = step.split_for(parts[0])
    numbers = numbers_of(step.parts, given)
    return _by_messages(step, split, state, parts, numbers, clocks), split


def _by_messages(
    step: ParallelStep,
    split: Split,
    state: State,
    parts: Sequence[Mapping[str, Any]],
    numbers: Mapping[str, np.ndarray],
    clocks: Sequence[Clock] | None,
) -> Any:
    """The objective, where each rank runs its own program."""

    @cache
    def given() -> dict[Key, np.ndarray]:  # once a rank of a job has its arrays
        return given_to_ranks(step.parts, split, state, parts, numbers)

    def first(program: Program) -> dict[Key, np.ndarray]:
        return at_first(step.parts, split, program, state, given())

    if launched() is not None:
        from chainrule.devices.mpi import join
        from chainrule.devices.processes import run_as_rank

        batch = [one[name] for one in parts for name in sorted(one.keys() - state.outlines)]
        arrays = [np.asarray(one) for one in batch]
        clock = None if clocks is None else clocks[step.rank]
        results = run_as_rank(join(), split, state, arrays, numbers, first, clock)
        ends = [(name, one) for name, one in split.ends.items() if name in state.memory]
        made = [(name, results[one]) for name, one in ends]
        state.put([(name, array) for name, array in made if array is not state.memory[name]])
        state.steps_taken += 1
        return results[split.ends[step.parts.whole.objective]][()]

    def then(rank: int, results: Mapping[Key, np.ndarray]) -> None:
        """Writes what this rank has of the arrays of the state, and has not updated in place;
        of what several ranks have alike, each writes some."""
        number = 0
        for name, key in split.replacing.items():
            made, array = results.get(key), state.memory.get(name)
            if made is None or array is None or made is array:  # which was updated in place
                continue
            writes = split.lying.writes(name, rank, number)
            if split.commits.taken:  # by the first replica alone
                writes = rank < step.stages
            if writes:
                array[split.lying.part(name, array.shape, rank)] = made
            number += 1
        if rank == 0:
            state.steps_taken += 1

    found = run_in_threads(split, first, then, clocks)
    key = Key(split.ends[step.parts.whole.objective], None)
    return next(one[key] for one in found if key in one)[()]
