"""Chains get Revolve's schedules if all nodes are alike, and else what Rotor's programme finds."""

from math import comb

import pytest
from exhaustive import least_cost
from hypothesis import event, given, settings
from hypothesis import strategies as st
from recomputed_chains import chain

from chainrule.plan import recompute
from chainrule.plan.recomputation import chains as chains_module
from chainrule.plan.recomputation.chains import ChainSchedules, best_of_chain, chain_of
from chainrule.plan.recomputation.problem import problem
from chainrule.plan.recomputation.sequence import fault, measured

NEVER = 10**6


@st.composite
def chains(draw, most=4):
    k = draw(st.integers(1, most))
    sizes = st.lists(st.integers(0, 4), min_size=k, max_size=k)
    reads = draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=k, max_size=k))
    rest = draw(sizes), draw(sizes), draw(sizes), draw(sizes)
    numbers = chain(*rest, reads, 1 << 30, draw(st.booleans()) or k < 2)
    plain = problem(**numbers)
    highest = max(plain.least_nbytes, measured(plain, plain.order).peak_nbytes)
    numbers["budget_nbytes"] = draw(st.integers(plain.least_nbytes, highest))
    return numbers


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(chains())
def test_the_best_of_a_chain_is_valid_and_hardly_ever_beaten(numbers):
    one = problem(**numbers)
    assert chain_of(one) is not None
    found = best_of_chain(one)
    least = least_cost(one)
    if found is None:
        event("no persistent schedule fits")
        return
    assert fault(one, found) is None
    seen = measured(one, found)
    assert seen.peak_nbytes <= one.budget_nbytes
    assert least is not None and seen.cost >= least
    event("least" if seen.cost == least else "one that is not persistent is cheaper")


@settings(max_examples=25, deadline=None)
@given(chains(most=6), st.lists(st.integers(0, 60), min_size=1, max_size=6))
def test_one_programme_serves_many_budgets(numbers, less):
    shared, budget = ChainSchedules(), numbers["budget_nbytes"]
    for fewer in sorted([0, *less]):
        one = problem(**{**numbers, "budget_nbytes": max(budget - fewer, 0)})
        alone, found = best_of_chain(one), shared.best(one)
        assert (alone is None) == (found is None)
        if found is not None:
            assert fault(one, found) is None
            seen, wanted = measured(one, found), measured(one, alone)
            assert (seen.cost, seen.peak_nbytes <= one.budget_nbytes) == (wanted.cost, True)


def test_a_programme_is_made_anew_for_half_the_memory(monkeypatch):
    made, budgets = [], (400, 390, 201, 200, 190)
    one = chain([50] * 9, [10] * 9, [3] * 9, [4] * 9, [(True, True)] * 9, 0)
    programme = chains_module._Programming
    monkeypatch.setattr(
        chains_module, "_Programming", lambda *given: made.append(1) or programme(*given)
    )
    shared = ChainSchedules()
    counts = []
    for budget in budgets:
        shared.best(problem(**{**one, "budget_nbytes": budget}))
        counts.append(len(made))
    assert counts == [1, 1, 1, 2, 2]


def forward_steps(steps, checkpoints):
    """The forward executions of Revolve for a chain of steps, with as many checkpoints, the
    initial state's included (Griewank and Walther, Proposition 1)."""
    r = 0
    while comb(checkpoints + r, checkpoints) < steps:
        r += 1
    return r * steps - comb(checkpoints + r, checkpoints + 1)


@pytest.mark.sweep(7)
@pytest.mark.parametrize("steps", [1, 2, 5, 10, 24, 40])
@pytest.mark.parametrize("checkpoints", [1, 2, 3, 5, 10])
def test_equal_nodes_get_the_binomial_schedule(steps, checkpoints):
    """F0 is the initial state, which cannot well be computed again; Bi reads the state before it.

    While a step runs forward, the states before and behind it are there beside the checkpoints:
    two more values, of which the first may be a checkpoint, so the cost lies between Revolve's
    with this many checkpoints and with one more.
    """
    k = steps + 1
    costs = [NEVER, *[1] * steps]
    reads = [(True, False)] * k
    one = problem(**chain([1] * k, [0] * k, costs, [0] * k, reads, checkpoints + 2, False))
    found = best_of_chain(one)
    assert fault(one, found) is None and found.count(0) == 1
    # Fn runs here, too; in Revolve it is a part of the step back.
    forward = measured(one, found).cost - NEVER - 1
    assert forward_steps(steps, checkpoints + 1) <= forward <= forward_steps(steps, checkpoints)


@pytest.mark.slow
def test_an_answer_for_a_chain_is_as_good_as_its_programme():
    numbers = chain([5] * 30, [1] * 30, [3] * 30, [4] * 30, [(True, True)] * 30, 40)
    one = problem(**numbers)
    answer = recompute(**numbers, effort=10)
    assert answer.cost <= measured(one, best_of_chain(one)).cost


def test_what_is_no_chain_is_none():
    numbers = chain([1] * 3, [1] * 3, [1] * 3, [1] * 3, [(True, True)] * 3, 10)
    assert chain_of(problem(**numbers)) is not None
    for changed in (
        {"reads": [*numbers["reads"], (0, 3)]},
        {"reads": [pair for pair in numbers["reads"] if pair != (0, 1)]},
        {"kept": [2, 5]},
        {"once": [1]},
    ):
        assert best_of_chain(problem(**{**numbers, **changed})) is None
