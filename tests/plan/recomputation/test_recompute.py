"""Sequences stay within the budget, count as promised, and wrong numbers are told."""

from itertools import count
from time import monotonic

import pytest
from executors import needs_native
from recomputed_chains import chain

from chainrule.errors import InputError, MemoryLimitError
from chainrule.machine_code import kernel
from chainrule.plan import recompute
from chainrule.plan.recomputation import recompute as recomputing
from chainrule.plan.recomputation import search
from chainrule.plan.recomputation.problem import problem
from chainrule.plan.recomputation.sequence import fault, lives, measured, without_useless

# A chain of three with its backward pass: 3 reads 1 and 2, 4 reads 0, 1 and 3.
CHAIN = {
    "nbytes": [4, 4, 4, 4, 4],
    "cost": [1, 2, 3, 4, 5],
    "reads": [(0, 1), (1, 2), (1, 3), (2, 3), (0, 4), (1, 4), (3, 4)],
    "order": [0, 1, 2, 3, 4],
}


def asked(**changed):
    return {**CHAIN, "budget_nbytes": 16, **changed}


def test_bytes_are_those_of_live_values_and_the_output():
    one = problem(**asked())
    assert lives(one, one.order) == [4, 4, 3, 4, 4]
    assert measured(one, one.order).usage == (4, 8, 12, 16, 16)
    again = (0, 1, 2, 3, 0, 1, 4)
    assert fault(one, again) is None
    assert measured(one, again).usage == (4, 8, 8, 12, 8, 12, 16)


def test_workspace_counts_only_while_its_node_executes():
    one = problem(**asked(workspace=[0, 0, 100, 0, 0]))
    assert measured(one, one.order).usage == (4, 8, 112, 16, 16)


def test_executions_that_nobody_needs_go():
    one = problem(**asked())
    assert without_useless(one, (0, 0, 1, 2, 3, 2, 4)) == (0, 1, 2, 3, 4)


def test_a_large_budget_costs_nothing():
    found = recompute(**asked())
    assert (found.sequence, found.cost, found.peak_nbytes) == ((0, 1, 2, 3, 4), 15, 16)
    assert found.proved_optimal and found.gap == found.extra == 0
    assert str(found) == (
        "5 executions, 0 of them again, cost 15 (0.00 % extra; proved optimal), "
        "16 of 16 bytes: each node once, in the given order"
    )


def test_a_budget_below_what_a_node_needs_is_refused():
    with pytest.raises(MemoryLimitError) as error:
        recompute(**asked(budget_nbytes=15))
    assert str(error.value) == (
        "no sequence fits into 15 bytes: node 4 needs 16 with what it reads\n"
        "  try: a budget of 16 bytes, for which a sequence is known"
    )
    assert (error.value.needed_nbytes, error.value.free_nbytes) == (16, 15)
    assert recompute(**asked(budget_nbytes=16)).peak_nbytes == 16


def test_a_budget_below_what_is_kept_is_refused():
    with pytest.raises(MemoryLimitError, match="the values that are kept have 20") as error:
        recompute(**asked(budget_nbytes=19, kept=range(5)))
    assert error.value.needed_nbytes == 20


def test_a_budget_that_is_hard_to_meet_is_refused_with_what_is_known():
    crossed = {
        "nbytes": [5, 5, 1, 1, 1, 1],
        "cost": [1] * 6,
        "reads": [(0, 2), (1, 3), (0, 4), (3, 4), (1, 5), (2, 5)],
        "order": [0, 1, 2, 3, 4, 5],
        "once": range(6),
    }
    with pytest.raises(MemoryLimitError) as error:
        recompute(**crossed, budget_nbytes=8, effort=500)
    known = error.value.needed_nbytes
    assert str(error.value) == (
        "no sequence within 8 bytes was found, and none can be below 7\n"
        f"  try: a budget of {known} bytes, for which a sequence is known; or more seconds, and "
        "more effort"
    )
    assert recompute(**crossed, budget_nbytes=known, effort=500).peak_nbytes <= known


def test_the_same_call_gives_the_same_answer():
    numbers = chain(
        [3, 5, 2, 4, 6, 1], [2] * 6, [5, 2, 4, 3, 6, 1], [4] * 6, [(True, True)] * 6, 24
    )
    numbers["workspace"] = [1] * 12
    numbers["kept"] = [5, 11]  # no chain
    first, second = (recompute(**numbers, effort=500) for _ in range(2))
    assert first == second and first.cost > first.plain_cost
    assert recompute(**numbers, effort=500, seed=1).peak_nbytes <= 24


def test_the_clock_has_no_part_in_what_is_found(monkeypatch):
    n = 60
    sizes, costs = [3 + 7 * i % 11 for i in range(n)], [1 + 5 * i % 17 for i in range(n)]
    numbers = chain(sizes, sizes, costs, costs, [(True, True)] * n, 170)
    numbers["kept"] = [n - 1, 2 * n - 1]
    answers = []
    for tick in (0.0, 0.1, 0.5):
        ticks = count()
        for one in (recomputing, search):
            monkeypatch.setattr(one, "monotonic", lambda t=tick, c=ticks: t * next(c))
        answers.append(recompute(**numbers, effort=1_500, seconds=1_000))
    assert answers[0] == answers[1] == answers[2]
    assert answers[0].cost > answers[0].plain_cost


@needs_native
def test_python_gives_the_answer_of_machine_code(monkeypatch):
    numbers = chain([3, 5, 2, 4, 6], [2] * 5, [5, 2, 4, 3, 6], [4] * 5, [(True, True)] * 5, 19)
    numbers["kept"] = [4, 9]
    native = recompute(**numbers, effort=300)
    monkeypatch.setattr(kernel, "native_refusal", lambda: "not here")
    assert recompute(**numbers, effort=300) == native
    assert native.cost > native.plain_cost


@pytest.mark.parametrize("seconds", [0, 0.3])
def test_time_ends_the_search(seconds):
    """A greedy walk is made in any case."""
    n = 400
    numbers = chain([3] * n, [2] * n, [5] * n, [4] * n, [(True, True)] * n, 600)
    numbers["kept"] = [n - 1, 2 * n - 1]
    recompute(**numbers, effort=1, seconds=1)  # compiles
    begun = monotonic()
    found = recompute(**numbers, effort=10**9, seconds=seconds)
    assert monotonic() - begun < seconds + 5
    assert found.peak_nbytes <= 600


@pytest.mark.parametrize("factor", [1, 1 << 20, 1 << 50])
def test_large_bytes_are_counted_exactly(factor):
    numbers = chain([3, 5, 2, 4], [2] * 4, [5, 2, 4, 3], [4] * 4, [(True, True)] * 4, 16)
    numbers["kept"] = [3, 7]
    small = recompute(**numbers, effort=2_000)
    numbers["nbytes"] = [factor * one + (factor > 1) for one in numbers["nbytes"]]
    numbers["budget_nbytes"] = factor * 16 + 8 * (factor > 1)
    large = recompute(**numbers, effort=2_000)
    assert large.peak_nbytes <= numbers["budget_nbytes"]
    assert large.cost == small.cost


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"cost": [1, 2]}, "nbytes has 5 numbers and cost has 2"),
        ({"workspace": [1]}, "nbytes has 5 numbers and workspace has 1"),
        ({"nbytes": [4, 4, -1, 4, 4]}, "nbytes of node 2 is -1"),
        ({"cost": [1, 2, 3.5, 4, 5]}, "cost has 3.5, which is no integer"),
        ({"nbytes": [1 << 62, 4, 4, 4, 4]}, "nbytes has 4,611,686,018,427,387,920 in all"),
        ({"reads": [(0, 5)]}, "reads has node 5, and nbytes has 5 numbers"),
        ({"reads": [(0, 1, 2)]}, "reads has (0, 1, 2)"),
        ({"reads": [(1, 1)]}, "node 1 reads itself"),
        ({"reads": [(0, 1), (1, 0)]}, "node 0 reads node 1, which comes after it in order"),
        ({"order": [0, 1, 2, 4, 3]}, "node 4 reads node 3, which comes after it in order"),
        ({"order": [0, 1, 2, 3]}, "order lacks node 4"),
        ({"order": [0, 1, 2, 3, 4, 4]}, "order has node 4 twice"),
        ({"budget_nbytes": -1}, "budget_nbytes is -1"),
        ({"budget_nbytes": 1.5}, "budget_nbytes has 1.5, which is no integer"),
        ({"before": [(2, 1)]}, "before has (2, 1), and node 2 does not come before node 1"),
        ({"once": [7]}, "once has node 7"),
        ({"kept": [-1]}, "kept has node -1"),
        ({"seconds": -1}, "seconds is -1"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"effort": -1}, "effort is -1"),
    ],
)
def test_wrong_numbers_are_told(changed, what):
    with pytest.raises(InputError) as error:
        recompute(**asked(**changed))
    assert error.value.what.startswith(what)
    assert error.value.hint


def test_an_empty_program_is_one():
    found = recompute([], [], [], [], 0)
    assert (found.sequence, found.cost, found.gap) == ((), 0, 0)
