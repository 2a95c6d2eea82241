"""What moves count on the way is what the plain count says, in Python and in machine code."""

import numpy as np
from executors import needs_native
from exhaustive import as_problem, programs
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.plan.recomputation.anneal import KERNEL
from chainrule.plan.recomputation.sequence import fault, lives, measured
from chainrule.plan.recomputation.slots import slots_of


def after(one, moves, seed, run, is_new=1):
    """The slots after some moves at a high temperature."""
    s = slots_of(one, 4 * one.size + 64)
    s.laid[: one.size] = one.order
    s.laid_length, s.best_excess = one.size, 1 << 60
    s.random = np.array([seed + 1, 2, 3, 4])
    s.temperature, s.weight, s.swing = 5.0, 0.1, 1.01
    s.moves, s.is_new = moves, is_new
    run(s)
    return s


@settings(max_examples=25, deadline=None)
@given(programs(most=6), st.integers(0, 300), st.integers(0, 1000))
def test_moves_count_bytes_and_costs_as_the_referee_does(found, moves, seed):
    one = as_problem(found)
    s = after(one, moves, seed, KERNEL.in_python)
    places = [t for t in range(s.slots) if s.node_at[t] >= 0]
    sequence = [int(s.node_at[t]) for t in places]
    assert fault(one, sequence) is None
    seen = measured(one, sequence)
    assert s.total_cost == seen.cost
    assert [int(s.use[t]) for t in places] == list(seen.usage)
    assert s.excess == sum(max(0, int(one_use) - s.budget) for one_use in s.use)
    for at, end in enumerate(lives(one, sequence)):
        last = s.slots - 1 if s.end_at[places[at]] == s.slots - 1 else places[end]
        assert s.end_at[places[at]] == last
    repeated = {v for v in sequence if sequence.count(v) > 1}
    assert set(s.repeated[: s.repeats].tolist()) == repeated


@needs_native
@settings(max_examples=15, deadline=None)
@given(programs(most=6), st.integers(0, 1000))
def test_machine_code_takes_the_decisions_of_python(found, seed):
    one = as_problem(found)
    python, native = (after(one, 400, seed, run) for run in (KERNEL.in_python, KERNEL.native))
    for name in ("node_at", "end_at", "use", "best", "random"):
        assert getattr(python, name).tolist() == getattr(native, name).tolist(), name
    for name in ("total_cost", "excess", "best_cost", "weight", "executions"):
        assert getattr(python, name) == getattr(native, name), name
