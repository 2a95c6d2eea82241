"""One test for all samples of a primitive, which says in which of them it failed."""

from __future__ import annotations

from collections.abc import Callable

from noting import noted

from chainrule.primitives.primitive import Primitive, Sample


def for_every_sample(
    primitive: Primitive,
    check: Callable[[Primitive, Sample], object],
    chosen: Callable[[Primitive, Sample], bool] = lambda primitive, sample: True,
) -> None:
    """Check the chosen samples; what fails has a note with the sample and its number."""
    for number, sample in enumerate(primitive.samples):
        if not chosen(primitive, sample):
            continue
        with noted(f"sample {number} of {primitive.name}: {sample}"):
            check(primitive, sample)
