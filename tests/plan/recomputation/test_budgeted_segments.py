"""Sequences by segments are valid, keep to the budget, and need the root of a chain's length."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from test_ladder import chain, random_program

from chainrule.plan.recomputation.problem import MOST_NBYTES
from chainrule.plan.recomputation.segments import segmented, segments
from chainrule.plan.recomputation.sequence import fault, measured


def test_segments_of_a_chain_need_the_root_of_its_length() -> None:
    asked = replace(chain(100), budget_nbytes=MOST_NBYTES)
    walks = [segmented(asked, cuts) for cuts in segments(asked)]
    found = [measured(asked, walk) for walk in walks if walk is not None]
    assert len(found) == len(walks) > 4
    assert min(one.peak_nbytes for one in found) <= 2.4 * 100**0.5 * 100
    for walk, one in zip(walks, found, strict=True):
        assert walk is not None and fault(asked, walk) is None
        assert max(Counter(walk).values()) == 2 and one.cost < 1.5 * asked.plain_cost


def test_within_a_budget_less_of_a_segment_stays() -> None:
    asked = chain(100)
    cuts = list(segments(asked))[3]
    free = segmented(replace(asked, budget_nbytes=MOST_NBYTES), cuts)
    assert free is not None
    budget = measured(asked, free).peak_nbytes * 3 // 4
    walk = segmented(replace(asked, budget_nbytes=budget), cuts)
    assert walk is not None and fault(asked, walk) is None
    assert measured(asked, walk).peak_nbytes <= budget


@pytest.mark.parametrize("seed", range(5))
def test_segments_of_random_programs_are_valid(seed: int) -> None:
    asked = random_program(seed)
    for nbytes in (MOST_NBYTES, measured(asked, asked.order).peak_nbytes * 4 // 5):
        within = replace(asked, budget_nbytes=nbytes)
        for cuts in segments(within):
            walk = segmented(within, cuts)
            if walk is not None:
                assert fault(asked, walk) is None
                assert measured(asked, walk).peak_nbytes <= nbytes
