"""What ranks have when a step begins: the state, parts of the batch, and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.devices.instructions import Clear, Key, Program
from chainrule.devices.splitting import Split
from chainrule.execute.executors import executor_of
from chainrule.execute.native.runtime.recycled import kind_of
from chainrule.graph.types import ArrayType
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.state import State


def numbers_of(step: MicroBatchedStep, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The numbers of the optimizer: those that are given, and defaults."""
    return {
        item.name: np.asarray(given.get(item.name, item.default), item.type.dtype)
        for item in step.updating.graph.inputs
        if item.default is not None
    }


def given_to_ranks(
    step: MicroBatchedStep,
    split: Split,
    state: State,
    parts: Sequence[Mapping[str, Any]],
    numbers: Mapping[str, np.ndarray],
) -> dict[Key, np.ndarray]:
    """What ranks are given: the state, data, and numbers of the optimizer."""
    found, memory, carried = {}, state.memory, set(step.whole.carried)
    for name, number in split.names.items():
        if name in memory:
            part = 0 if name in carried else None  # the first part reads it
            found[Key(number, part)] = memory[name]
        elif name in numbers:
            found[Key(number, None)] = numbers[name]
    for item in step.accumulating.graph.inputs:
        if item.name in memory:
            continue
        if item.name in parts[0]:
            number = split.names[item.name]
            for index, part in enumerate(parts):
                array = np.asarray(part[item.name], item.type.dtype)
                found[Key(number, index)] = array
                found.setdefault(Key(number, None), array)
        elif item.default is not None:
            found[Key(split.names[item.name], None)] = np.asarray(item.default, item.type.dtype)
    return found


def _empty(type_: ArrayType, *, recycled: bool) -> np.ndarray:
    shape = tuple(map(int, type_.shape))
    return kind_of(shape, type_.dtype).empty()[0] if recycled else np.empty(shape, type_.dtype)


def at_first(
    step: MicroBatchedStep,
    split: Split,
    program: Program,
    state: State,
    given: Mapping[Key, np.ndarray],
) -> dict[Key, np.ndarray]:
    """What a rank has at first: of what is given what it reads, or its part, and arrays for its
    sums, which its program sets to 0."""
    found = {key: given[key] for key in program.given if key in given}
    for name in split.lying.cuts:
        key = Key(split.names[name], None)
        if key in found and name not in state.elsewhere:  # all ranks are threads
            where = split.lying.part(name, found[key].shape, program.rank)
            found[key] = np.ascontiguousarray(found[key][where])
    recycled = executor_of(step.whole.executor).traits.one_block
    for one in program.instructions:
        if isinstance(one, Clear):
            types = [(key, split.values[key.value][1]) for key in one.keys]
            found |= {key: _empty(type_, recycled=recycled) for key, type_ in types}
    return found
