"""What ranks have when a step begins: the state, parts of the batch, and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.devices.instructions import Key, Program
from chainrule.devices.splitting import Split
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.state import State


def given_to_ranks(
    step: MicroBatchedStep,
    split: Split,
    state: State,
    parts: Sequence[Mapping[str, Any]],
    numbers: Mapping[str, np.ndarray],
) -> dict[Key, np.ndarray]:
    """What ranks are given: the state, data, and numbers of the optimizer."""
    found = {}
    for name, number in split.names.items():
        if name in state.memory:
            found[Key(number, None)] = state.memory[name]
        elif name in numbers:
            found[Key(number, None)] = numbers[name]
    for item in step.accumulating.graph.inputs:
        if item.name in state.memory:
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


def at_first(
    step: MicroBatchedStep,
    split: Split,
    program: Program,
    state: State,
    given: Mapping[Key, np.ndarray],
) -> dict[Key, np.ndarray]:
    """What a rank has at first: of what is given what it reads, or its part, and its sums at 0."""
    found = {key: given[key] for key in program.given if key in given}
    for name in split.lying.cuts:
        key = Key(split.names[name], None)
        if key in found and name not in state.elsewhere:  # all ranks are threads
            where = split.lying.part(name, found[key].shape, program.rank)
            found[key] = np.ascontiguousarray(found[key][where])
    for part in step.accumulating.persistent:
        key = Key(split.names[part.name], None)
        if key in program.given:
            _, type_ = split.values[key.value]
            found[key] = np.zeros(type_.shape, type_.dtype)
    return found
