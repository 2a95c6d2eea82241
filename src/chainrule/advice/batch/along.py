"""`cr.noise_along`: the noise of gradients at chosen steps of a training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chainrule.advice.noise.noise import GradientNoise, gradient_noise
from chainrule.data.minibatches import minibatches
from chainrule.data.rows import rows_of
from chainrule.errors import InputError
from chainrule.random import key as key_of
from chainrule.tracebacks import entry
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.random_inputs import Keys, key_inputs
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep

MOST_ROWS = 512  # whose noise is looked at, unless somebody asks for more


@entry
def noise_along(
    step: TrainingStep | MicroBatchedStep,
    state: State,
    data: Mapping[str, Any],
    at: Iterable[int] = (0,),
    *,
    batch: int = 32,
    rows: int | None = None,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[GradientNoise, ...]:
    """The noise after chosen numbers of steps: `cr.noise_along(step, state, data, (0, 100, 1000))`.

    `data` maps inputs of the step to arrays whose rows are examples.  Training goes on from a copy
    of the state, with `batch` rows a step; the noise is that of `rows` examples (512, or all),
    which are drawn anew each time.  The same `seed` gives the same.
    """
    whole = step.whole if isinstance(step, MicroBatchedStep) else step
    given = dict(data)
    count = rows_of(given).count
    wanted = sorted({_number(one) for one in at})
    batch = min(batch, count)
    looked_at = min(rows or MOST_ROWS, count)
    now = state.copy()
    names = key_inputs(whole.differentiated, [*given, *whole.weights])
    keys = Keys(names, key_of(seed + 1))
    found = []
    done = 0
    batches = _batches(given, batch, seed)
    for place in wanted:
        while done < place:
            step(now, {**next(batches), **keys.at(done)})
            done += 1
        chosen = minibatches(given, looked_at, key_of(seed), epoch=2**31 + done)[0]
        some = gradient_noise(step, now, {**chosen, **keys.at(done)}, confidence=confidence)
        found.append(some)
    return tuple(found)


def _batches(data: Mapping[str, Any], size: int, seed: int) -> Iterator[Mapping[str, Any]]:
    """Batches of one epoch after the other."""
    epoch = 0
    while True:
        yield from minibatches(data, size, key_of(seed), epoch=epoch, drop_last=True, prefetch=0)
        epoch += 1


def _number(step: Any) -> int:
    if not hasattr(step, "__index__") or isinstance(step, bool) or step < 0:
        raise InputError(
            f"{step!r} is no number of steps", hint="at=(0, 100): before the first, after 100"
        )
    return int(step)
