"""Every primitive, with every one of its samples, passes every check."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from every_sample import for_every_sample
from noting import noted

from chainrule.primitives.arithmetic import tanh
from chainrule.primitives.primitive import Given, Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing import CHECKS, planted_fault

COMPUTED = [one for one in PRIMITIVES if not isinstance(one.kernel, Given)]
EVERY = pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda one: one.name)
EVERY_COMPUTED = pytest.mark.parametrize("primitive", COMPUTED, ids=lambda one: one.name)


def test_names_are_unique() -> None:
    names = [primitive.name for primitive in PRIMITIVES]
    assert len(set(names)) == len(names)


def first_smooth(primitive: Primitive) -> Sample:
    """The first sample that has derivatives, or the first."""
    return next((one for one in primitive.samples if one.smooth), primitive.samples[0])


def check_samples(primitive: Primitive, chosen: Callable[[Primitive, Sample], bool]) -> None:
    for check in CHECKS:
        with noted(f"check {check}"):
            for_every_sample(primitive, partial(CHECKS[check], seed=0), chosen)


@EVERY
def test_every_check_passes_on_a_sample(primitive: Primitive) -> None:
    check_samples(primitive, lambda one, sample: sample is first_smooth(one))


def others(primitive: Primitive) -> list[Sample]:
    return [one for one in primitive.samples if one is not first_smooth(primitive)]


@pytest.mark.slow
@pytest.mark.sweep(7)
@EVERY
def test_every_check_passes_on_another(primitive: Primitive) -> None:
    """On the last."""
    check_samples(primitive, lambda one, sample: sample in others(one)[-1:])


@pytest.mark.exhaustive
@EVERY
def test_every_check_passes_on_all_others(primitive: Primitive) -> None:
    check_samples(primitive, lambda one, sample: sample in others(one)[:-1])


def test_a_check_that_fails_says_in_which_sample() -> None:
    wrong = planted_fault(tanh, "scaled")
    samples = (replace(wrong.samples[0], smooth=False), *wrong.samples)
    with pytest.raises(AssertionError) as caught:
        check_samples(replace(wrong, samples=samples), lambda one, sample: True)
    sample, check = caught.value.__notes__[-2:]
    assert sample.startswith("in sample 1 of tanh: Sample(") and check == "in check derivatives"


def test_a_kernels_expression_reads_every_input() -> None:
    for primitive in PRIMITIVES:
        expression = getattr(primitive.kernel, "expression", None)
        if expression is not None:
            words = set(re.findall(r"[A-Za-z_]\w*", expression))
            assert set(primitive.inputs) <= words, primitive.name
