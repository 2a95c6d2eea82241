"""On small graphs a split is the best of all splits, tried one by one."""

import pytest
from enumerated import graphs, idle_graphs, least_load, least_load_of_chain
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.errors import MemoryLimitError
from chainrule.plan import split
from chainrule.plan.partition import anywhere, search


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


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(graphs(most=5))
def test_a_contiguous_split_is_the_best_of_all(graph):
    check(graph)


@pytest.mark.exhaustive
@settings(max_examples=1000, deadline=None)
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


@settings(max_examples=15, deadline=None)
@given(graphs(most=5))
def test_a_split_without_order_is_the_best_of_all(graph):
    check_anywhere(graph)


@pytest.mark.exhaustive
@settings(max_examples=300, deadline=None)
@given(graphs(most=7))
def test_larger_splits_without_order_are_the_best_of_all(graph):
    check_anywhere(graph)


@settings(max_examples=25, deadline=None)
@given(idle_graphs())
def test_merging_nodes_without_time_loses_no_split(graph):
    check(graph)


@pytest.mark.exhaustive
@settings(max_examples=1000, deadline=None)
@given(idle_graphs())
def test_merging_nodes_without_time_loses_no_split_of_many(graph):
    check(graph)


@settings(max_examples=15, deadline=None)
@given(idle_graphs())
def test_merging_nodes_without_time_loses_no_split_without_order(graph):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anywhere, "MOVES", 2_000)
        check_anywhere(graph)


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(2, 25), st.integers(1, 7))
def test_chains_are_split_as_by_a_plain_programme(data, size, devices):
    times = st.lists(st.integers(0, 9), min_size=size, max_size=size)
    seconds, moves = data.draw(times), data.draw(times)
    edges = [(v, v + 1) for v in range(size - 1)]
    found = split(seconds, [0] * size, edges, moves, devices, 0)
    assert found.proved_optimal
    assert found.load == least_load_of_chain(seconds, moves, devices)


@settings(max_examples=30, deadline=None)
@given(graphs(most=6))
def test_more_devices_are_never_worse(graph):
    if not isinstance(graph["memory_nbytes"], int):
        graph["memory_nbytes"] = min(graph["memory_nbytes"])
    before = answer(graph)
    after = answer({**graph, "devices": graph["devices"] + 1})
    if before is not None:
        assert after is not None
        assert after.load <= before.load * (1 + 1e-12)


@settings(max_examples=30, deadline=None)
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


def test_a_host_that_takes_parts_in_no_time_leaves_no_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was 2e-300 seconds, above a load of 0."""
    monkeypatch.setattr(search, "MOST_TESTS", 1)
    found = answer(
        {
            "seconds": [0, 1, 0, 1],
            "nbytes": [0] * 4,
            "edges": [],
            "transfer_seconds": [0] * 4,
            "devices": 1,
            "memory_nbytes": 3,
            "backward": [],
            "together": [(0,)],
            "hosts": 1,
            "host_seconds": [0, 0, 1, 0],
        }
    )
    assert found is not None and found.lower_bound == 0
