"""Random chains of NumPy calls: values, gradients, executors, batches and views agree."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from executors import needs_native
from random_programs import draw_program, faults
from wide_programs import draw_inputs, draw_wide, faults_of


def found_in(seeds: range, most: int, deep: bool) -> dict[int, list[str]]:
    """The faults of the programs of these seeds."""
    found = {}
    for seed in seeds:
        random = np.random.default_rng(seed)
        program = draw_program(random, most)
        x = random.normal(size=program.shape)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of means of nothing
            found[seed] = faults(program, x, random, deep)
    return {seed: faults for seed, faults in found.items() if faults}


@needs_native
def test_a_few_random_programs_are_right_in_every_way() -> None:
    assert found_in(range(3), 2, deep=True) == {}


@needs_native
@pytest.mark.exhaustive
def test_many_random_programs_have_numpys_numbers_and_right_gradients() -> None:
    assert found_in(range(1000, 1040), 6, deep=False) == {}


def found_in_wide(seeds: range, most: int) -> dict[int, list[str]]:
    """The faults of the programs of several arrays of these seeds."""
    found = {}
    for seed in seeds:
        random = np.random.default_rng(seed)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inputs = draw_inputs(random)
            found[seed] = faults_of(draw_wide(random, inputs, most), inputs, random)
    return {seed: faults for seed, faults in found.items() if faults}


@needs_native
def test_a_few_programs_of_several_arrays_are_right_in_every_way() -> None:
    assert found_in_wide(range(4), 3) == {}


@needs_native
@pytest.mark.exhaustive
def test_many_programs_of_several_arrays_are_right_in_every_way() -> None:
    assert found_in_wide(range(1000, 1040), 6) == {}
