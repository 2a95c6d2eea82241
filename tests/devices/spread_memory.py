"""Programs of `spread_program.py` on devices with little memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tensor_models import error

import chainrule as cr
from chainrule import float64
from chainrule.errors import MemoryLimitError


def deep(x: float64["n 32"], Ws):
    h = x
    for W in Ws:
        h = np.tanh(h @ W)
    J = np.mean(h**2)
    return J


DEEP = [np.random.default_rng(i).normal(size=(32, 32)) / 6 for i in range(12)]
NARROW = (
    {"micro_batches": 4, "replicas": 4, "ways": 2},  # the passes are in no loop
    {"micro_batches": 8, "replicas": 2},  # they are
)


def needed(split: cr.ParallelStep) -> int:
    """The bytes of each device, as XLA counts them."""
    found = split.memory(n=2048).compiled
    results = found["results"] - found["in place of arguments"]
    return found["arguments"] + results + found["scratch"]


def narrow() -> None:
    """A program obeys the memory of its devices, by XLA's count, with the same bits."""
    step = cr.training_step(deep, "Ws", cr.sgd(0.1), executor="xla", Ws=DEEP)
    x = np.random.default_rng(0).normal(size=(2048, 32))
    for options in NARROW:
        free = cr.parallel(step, **options)
        state = free.init(Ws=DEEP)
        objectives = [free(state, x=x) for _ in range(2)]
        whole, least = needed(free), 0
        for share in (0.7, 0.1):
            memory = int(share * whole)
            count = free.ranks
            tight = replace(free, devices=cr.Devices.cpu(count, memory=memory), _splits={})
            other = tight.init(Ws=DEEP)
            try:
                found = [tight(other, x=x) for _ in range(2)]
            except MemoryLimitError as told:
                assert share == 0.1 and memory < told.needed_nbytes < 0.7 * whole
                assert f"a run of deep on each of {count} devices needs at least" in str(told)
                assert f"devices with {told.needed_nbytes} bytes each" in str(told)
                assert other.steps == 0
                least = told.needed_nbytes
            else:
                assert share == 0.7 and needed(tight) <= memory < whole
                assert found == objectives
                assert error(other, state) == 0
        devices = cr.Devices.cpu(count, memory=least)
        asked = cr.parallel(step, devices, batch=2048, shard_optimizer=False, **options)
        assert needed(asked) == least, "what the refusal says is enough is enough"
    try:
        cr.parallel(step, cr.Devices.cpu(2, memory=least // 2), batch=2048, **options)
    except MemoryLimitError as told:
        assert "as XLA compiles it" in str(told)
    else:
        raise AssertionError("no plan fits")
    found = cr.parallel(step, cr.Devices.cpu(8, memory=whole), batch=2048)
    assert needed(found) <= whole


def limited() -> None:
    """Devices with too little memory for the program as it is have one that computes again."""
    step = cr.training_step(deep, "Ws", cr.sgd(0.1), executor="xla", Ws=DEEP)
    x = np.random.default_rng(0).normal(size=(2048, 32))
    options = {"micro_batches": 8, "replicas": 2}
    free = cr.parallel(step, **options)
    memory = int(0.7 * needed(free))
    devices = cr.Devices.cpu(2, memory=memory)
    split = cr.parallel(step, devices, batch=2048, shard_optimizer=False, ways=1, **options)
    assert needed(split) <= memory
    state, other = split.init(Ws=DEEP), free.init(Ws=DEEP)
    assert split(state, x=x) == free(other, x=x)
    assert error(state, other) == 0
