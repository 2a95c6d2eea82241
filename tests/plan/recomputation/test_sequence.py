"""What NumPy counts of a sequence is what loops over its positions count."""

from executors import needs_native
from exhaustive import as_problem, programs
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.plan.recomputation import sequence as counted
from chainrule.plan.recomputation.greedy import KERNEL, RULES, walk_of


def needed_until(one, sequence):
    """For each position, the last that needs what it makes."""
    until, made = list(range(len(sequence))), {}
    for at, node in enumerate(sequence):
        for u in one.inputs[node]:
            until[made[u]] = at
        made[node] = at
    for node in one.kept:
        until[made[node]] = len(sequence) - 1
    return until


def usage(one, sequence):
    """The bytes in use at each position."""
    until = needed_until(one, sequence)
    alive = [
        sum(
            one.nbytes[v]
            for v, begin, end in zip(sequence, range(at + 1), until, strict=False)
            if begin <= at <= end
        )
        for at in range(len(sequence))
    ]
    return tuple(n + one.workspace[v] for n, v in zip(alive, sequence, strict=True))


def less(one, sequence):
    """The sequence without one execution at a time whose value nobody needs."""
    until = needed_until(one, sequence)
    for at, node in enumerate(sequence):
        others = sequence[:at] + sequence[at + 1 :]
        idle = until[at] == at and not (node in one.kept and node not in sequence[at + 1 :])
        if idle and node in others:
            return less(one, others)
    return sequence


@settings(max_examples=30, deadline=None)
@given(programs(most=5), st.data())
def test_numpy_counts_as_loops_do(found, data):
    one = as_problem(found)
    nodes = st.integers(0, one.size - 1)
    sequence = list(one.order)
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(sequence)))
        change = data.draw(st.sampled_from(["add", "add", "add", "swap", "remove"]))
        if change == "add":
            sequence.insert(at, data.draw(nodes))
        elif change == "swap":
            sequence[at - 1 : at + 1] = reversed(sequence[at - 1 : at + 1])
        elif sequence:
            del sequence[at - 1]
    wrong = counted._fault(one, sequence)
    assert counted.fault(one, sequence) == wrong
    if wrong is None:
        seen = counted.measured(one, sequence)
        assert counted.lives(one, sequence) == needed_until(one, sequence)
        assert seen.usage == usage(one, sequence)
        assert (seen.cost, seen.peak_nbytes) == (
            sum(one.cost[v] for v in sequence),
            max(seen.usage, default=0),
        )
        rest = counted.without_useless(one, sequence)
        assert sorted(rest) == sorted(less(one, sequence))
        assert counted.fault(one, rest) is None
        assert counted.measured(one, rest).peak_nbytes <= seen.peak_nbytes


@needs_native
@settings(max_examples=30, deadline=None)
@given(programs(most=6), st.sampled_from(RULES))
def test_machine_code_walks_as_python_does(found, rule):
    one = as_problem(found)
    python, native = walk_of(one, rule), walk_of(one, rule)
    assert KERNEL.in_python(python) == KERNEL.native(native)
    for name in ("sequence", "resident", "next_read", "may_run", "pinned"):
        assert getattr(python, name).tolist() == getattr(native, name).tolist(), name
    assert (python.length, python.alive, python.looks) == (
        native.length,
        native.alive,
        native.looks,
    )
