"""Sequences for budgets one below the other: valid, cheaper with more bytes, the same each time."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.plan.recomputation.ladder import ladder
from chainrule.plan.recomputation.problem import Problem, problem
from chainrule.plan.recomputation.sequence import fault, measured


def chain(length: int) -> Problem:
    """Forward propagation, and backward, which reads what forward propagation wrote."""
    count = 2 * length
    reads = [(v - 1, v) for v in range(1, count)]
    reads += [(v, count - 1 - v) for v in range(length - 1)]
    return problem([100] * count, [10] * count, reads, range(count), 0)


def random_program(seed: int) -> Problem:
    random = np.random.default_rng(seed)
    count = int(random.integers(5, 40))
    reads = {(int(random.integers(v)), v) for v in range(1, count) for _ in range(3)}
    nbytes, cost = (random.integers(0, 100, count).tolist() for _ in range(2))
    workspace = random.integers(0, 30, count).tolist()
    once = random.choice(count, count // 5, replace=False).tolist()
    return problem(nbytes, cost, reads, range(count), 0, workspace=workspace, once=once)


@pytest.mark.sweep(7)
@pytest.mark.parametrize("seed", range(20))
def test_sequences_are_valid_and_the_first_is_the_plain_one(seed: int) -> None:
    asked = random_program(seed)
    found = ladder(asked)
    assert found[0].sequence == asked.order
    for one in found:
        assert fault(asked, one.sequence) is None
        seen = measured(asked, one.sequence)
        assert (seen.cost, seen.peak_nbytes) == (one.cost, one.peak_nbytes)
    assert ladder(asked) == found


@pytest.mark.slow
def test_a_chain_needs_the_root_of_its_length() -> None:
    found = ladder(chain(24))
    assert found[0].peak_nbytes == 2500
    cheap = [one for one in found if one.peak_nbytes <= 2.2 * 24**0.5 * 100]
    assert min(one.cost for one in cheap) <= 1.5 * found[0].cost
    assert min(one.peak_nbytes for one in found) <= 700
