"""On tiny programs: bounds are below the least cost there is, answers are valid, and reach it."""

from time import monotonic

import pytest
from exhaustive import as_problem, least_cost, programs
from hypothesis import event, given, settings
from hypothesis import strategies as st

from chainrule.errors import MemoryLimitError
from chainrule.plan import recompute
from chainrule.plan.recomputation.bounds import lower_bound
from chainrule.plan.recomputation.greedy import RULES, greedy
from chainrule.plan.recomputation.sequence import fault, measured

EFFORT = 20_000


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(programs())
def test_answers_reach_the_least_cost(found):
    one = as_problem(found)
    least = least_cost(one)
    event(f"least {'none' if least is None else least - one.plain_cost}")
    if least is None:
        with pytest.raises(MemoryLimitError):
            recompute(**found, effort=100)
        return
    answer = recompute(**found, effort=EFFORT)
    assert fault(one, answer.sequence) is None
    seen = measured(one, answer.sequence)
    assert (answer.cost, answer.peak_nbytes) == (seen.cost, seen.peak_nbytes)
    assert answer.peak_nbytes <= found["budget_nbytes"]
    assert answer.lower_bound <= least <= answer.cost
    assert answer.cost == least


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(programs(most=4))
def test_bounds_are_below_the_least_cost(found):
    one = as_problem(found)
    least = least_cost(one)
    bound = lower_bound(one, monotonic() + 60, 50_000)
    assert bound >= one.plain_cost
    if least is not None:
        event(f"bound {bound - one.plain_cost} of {least - one.plain_cost}")
        assert bound <= least


@settings(max_examples=40, deadline=None)
@given(programs(most=6), st.sampled_from(RULES))
def test_greedy_walks_are_valid_and_within_the_budget(found, rule):
    one = as_problem(found)
    walk = greedy(one, rule)
    if walk is not None:
        assert fault(one, walk) is None
        assert measured(one, walk).peak_nbytes <= one.budget_nbytes
