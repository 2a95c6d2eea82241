"""On small graphs a split is the best of all splits, tried one by one."""

import pytest
from enumerated import graphs, least_load
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.errors import MemoryLimitError
from chainrule.plan import split
from chainrule.plan.partition import search


def answer(graph, **options):
    try:
        return split(**graph, **options)
    except MemoryLimitError:
        return None


def check(graph):
    found, least = answer(graph), least_load(graph)
    if least is None or found is None:
        assert found is None and least is None
        return
    assert found.proved_optimal
    assert found.load == pytest.approx(least, rel=1e-12) == found.lower_bound


@settings(max_examples=150, deadline=None)
@given(graphs(most=5))
def test_a_contiguous_split_is_the_best_of_all(graph):
    check(graph)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(graphs(most=7))
def test_larger_contiguous_splits_are_the_best_of_all(graph):
    check(graph)


def check_anywhere(graph):
    found, least = answer(graph, contiguous=False), least_load(graph, contiguous=False)
    if least is None or found is None:
        assert found is None and least is None
        return
    assert found.lower_bound <= least * (1 + 1e-12)
    assert found.load == pytest.approx(least, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(graphs(most=5))
def test_a_split_without_order_is_the_best_of_all(graph):
    check_anywhere(graph)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(graphs(most=7))
def test_larger_splits_without_order_are_the_best_of_all(graph):
    check_anywhere(graph)


@settings(max_examples=60, deadline=None)
@given(graphs(most=6))
def test_more_devices_are_never_worse(graph):
    if not isinstance(graph["memory_nbytes"], int):
        graph["memory_nbytes"] = min(graph["memory_nbytes"])
    before = answer(graph)
    after = answer({**graph, "devices": graph["devices"] + 1})
    if before is not None:
        assert after is not None
        assert after.load <= before.load * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(graphs(most=5), st.integers(1, 6))
def test_where_sets_are_too_many_bounds_hold_and_the_answer_says_so(graph, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "MOST_TESTS", most)
        found = answer(graph)
    least = least_load(graph)
    if found is None:
        return  # "none was found" is no proof
    assert least is not None
    assert found.lower_bound <= least * (1 + 1e-12)
    assert found.load >= least * (1 - 1e-12)
    assert found.proved_optimal <= (found.load <= least * (1 + 1e-12))
