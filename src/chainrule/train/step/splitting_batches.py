"""Makes steps on parts of a batch: finds the size by which a batch can be split."""

from __future__ import annotations

import operator
from typing import Any

from chainrule.errors import InputError
from chainrule.graph.parts import Input
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.train.step.accumulation import accumulating, sums_of, updating
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.step import TrainingStep


def micro_batched(step: TrainingStep, count: int, size: str | None) -> MicroBatchedStep:
    """The step in `count` parts; see `TrainingStep.micro_batched`."""
    count = _count(count)
    size = _batch_size(step, size)
    sums = sums_of(step)
    return MicroBatchedStep(
        whole=step,
        accumulating=accumulating(step, sums),
        updating=updating(step, sums, count),
        count=count,
        size=size,
        split=_split(step, size),
    )


def _count(count: Any) -> int:
    if hasattr(count, "__index__") and not isinstance(count, bool) and count >= 1:
        return operator.index(count)
    raise InputError(
        f"the number of parts of a batch is an integer of at least 1, got {count!r}",
        hint="step.micro_batched(4)",
    )


def _batch_size(step: TrainingStep, asked: str | None) -> str:
    """The named size of the batch: the one that inputs have, and no parameter."""
    own = {name for item in _batch(step) for name in _sizes(item)}
    of_parameters = {name for one in step.weights for name in _sizes(step.graph.input(one))}
    found = [name for name in step.graph.sizes if name in own - of_parameters]
    if asked is not None and asked in found:
        return asked
    if asked is None and len(found) == 1:
        return found[0]
    if asked is not None:
        what = f"the batch of {step.graph.name} cannot be split by the size {asked!r}"
    elif found:
        what = f"the batch of {step.graph.name} has several sizes: {', '.join(found)}"
    else:
        what = f"the batch of {step.graph.name} has no named size by which it could be split"
    hint = 'trace the objective with a size for the rows: x: float32["n 784"]'
    if found:
        hint = f"size={found[0]!r}" + (f"; it may be one of: {', '.join(found)}" * (len(found) > 1))
    raise InputError(what, where=step.differentiated[step.objective].origin.describe(), hint=hint)


def _split(step: TrainingStep, size: str) -> dict[str, int]:
    """Which inputs have an axis of this size, and which axis that is."""
    found: dict[str, int] = {}
    for item in _batch(step):
        if size not in _sizes(item):
            continue
        axes = [axis for axis, one in enumerate(item.type.shape) if str(one) == size]
        others = [one for one in item.type.shape if isinstance(one, Size) and str(one) != size]
        if len(axes) != 1 or any(size in sizes.names(one) for one in others):
            raise InputError(
                f"{item.name}: {item.type} cannot be split by {size}",
                where=item.node.origin.describe(),
                hint=f"a batch is split along the one axis of each input that is {size} long",
            )
        found[item.name] = axes[0]
    return found


def _batch(step: TrainingStep) -> list[Input]:
    """The inputs that a step is given: all but those that its state has."""
    return [item for item in step.differentiated.inputs if item.name not in step.weights]


def _sizes(item: Input) -> set[str]:
    return {name for one in item.type.shape if isinstance(one, Size) for name in sizes.names(one)}
