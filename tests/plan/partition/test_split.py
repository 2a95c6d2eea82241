"""What `split` refuses, says and leaves as it was."""

import pytest

from chainrule.errors import InputError, MemoryLimitError
from chainrule.machine_code import kernel
from chainrule.plan import split

CHAIN = {
    "seconds": [1, 2, 3, 4],
    "nbytes": [10, 20, 30, 40],
    "edges": [(0, 1), (1, 2), (2, 3)],
    "transfer_seconds": [0.5] * 4,
    "devices": 2,
    "memory_nbytes": 100,
}


def test_a_chain_is_cut_where_the_load_is_least():
    found = split(**CHAIN)
    assert found.stages == ((0, 1, 2), (3,))
    assert found.order == (0, 1)
    assert found.loads == (6.5, 4.5)
    assert found.nbytes == (60, 40)
    assert found.load == found.lower_bound == 6.5
    assert found.gap == 0
    assert str(found) == (
        "4 nodes on 2 of 2 devices, load 6.5 (proved optimal): dynamic programming over 5 down-sets"
    )


def test_no_node_needs_no_device():
    found = split([], [], [], [], 2, 0)
    assert found.stages == ((), ())
    assert found.load == 0
    assert found.proved_optimal


def test_a_value_costs_once_however_many_read_it():
    # 0 is read by 1 and 2, on the other device, and by nobody else.
    found = split([3, 1, 1], [2, 1, 1], [(0, 1), (0, 2)], [0.25, 0, 0], 2, 2)
    assert found.loads == (3.25, 2.25)


def test_groups_that_overlap_are_one():
    found = split([1, 1, 1], [0] * 3, [], [0] * 3, 3, 0, together=[(0, 1), (1, 2)])
    assert found.load == 3


def test_groups_in_a_circle_lie_together_only_in_contiguous_splits():
    numbers = {**CHAIN, "transfer_seconds": [0] * 4, "together": [(0, 2), (1, 3)]}
    assert split(**numbers).load == 10
    assert split(**numbers, contiguous=False).load == 6


def test_backward_nodes_without_forward_ones_are_contiguous_themselves():
    numbers = {
        "seconds": [5, 2, 5, 2, 2, 2],
        "nbytes": [0] * 6,
        "edges": [(v, v + 1) for v in range(5)],
        "transfer_seconds": [0] * 6,
        "devices": 2,
        "memory_nbytes": 0,
    }
    forward, backward = split(**numbers), split(**numbers, backward=range(6))
    assert forward.load == backward.load == 11
    assert backward.stages[backward.order[0]][-1] == 5  # gradients end on the first device
    assert split(**numbers, contiguous=False).load == 9


def test_merging_alone_can_better_a_contiguous_split():
    found = split(
        seconds=[0, 2, 2, 0, 0, 2],
        nbytes=[0] * 6,
        edges=[(0, 1), (1, 3), (2, 3), (0, 5), (3, 5)],
        transfer_seconds=[0.5, 0, 0.25, 0, 0, 0],
        devices=2,
        memory_nbytes=9,
        contiguous=False,
    )
    assert found.load == 4


def test_a_host_pays_no_transfers_and_has_no_limit():
    found = split([1, 1], [5, 500], [(0, 1)], [9, 0], 1, 10, hosts=1, host_seconds=[100, 7])
    assert found.stages == ((0,), (1,))
    assert found.loads == (10, 7)


def test_python_takes_the_decisions_of_machine_code(monkeypatch):
    native = split(**CHAIN), split(**CHAIN, contiguous=False)
    monkeypatch.setattr(kernel, "native_refusal", lambda: "switched off")
    monkeypatch.setattr("chainrule.plan.partition.anywhere.MOVES", 1_000)
    assert split(**CHAIN) == native[0]
    assert split(**CHAIN, contiguous=False).load == native[1].load


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"seconds": [1, 2, 3]}, "nbytes has 4 numbers and seconds has 3"),
        ({"seconds": [1, 2, 3, float("nan")]}, "seconds of node 3 is nan"),
        ({"seconds": [1, 2, 3, "x"]}, "seconds of node 3 is 'x'"),
        ({"transfer_seconds": [0, -1, 0, 0]}, "transfer_seconds of node 1 is -1.0"),
        ({"seconds": [1e308] * 4}, "seconds has more in all than a number holds"),
        ({"nbytes": [1, 2, 3, 4.5]}, "nbytes has 4.5, which is no integer"),
        ({"edges": [(0, 4)]}, "edges has node 4, and nbytes has 4 numbers"),
        ({"edges": [3]}, "edges has 3"),
        (
            {"edges": [(0, 1), (1, 2), (2, 1)]},
            "edges have a cycle: 1 reads 2, 2 reads 1",
        ),
        ({"edges": [(2, 2)]}, "edges have a cycle: 2 reads 2"),
        ({"backward": [1]}, "node 2 reads node 1 of backward, and is not of it"),
        ({"backward": [7]}, "backward has node 7, and nbytes has 4 numbers"),
        ({"together": [3]}, "together has 3"),
        ({"devices": 0}, "devices is 0, and there are no hosts"),
        ({"devices": -1}, "devices is -1"),
        ({"devices": 1.5}, "devices is 1.5, which is no integer"),
        ({"memory_nbytes": [5]}, "memory_nbytes has 1 numbers, and devices is 2"),
        ({"hosts": 1}, "hosts is 1, and host_seconds is missing"),
        ({"search_seconds": -1}, "search_seconds is -1"),
    ],
)
def test_wrong_numbers_are_refused(changed, text):
    with pytest.raises(InputError) as caught:
        split(**{**CHAIN, **changed})
    assert caught.value.what == text


def refusal(**changed):
    with pytest.raises(MemoryLimitError) as caught:
        split(**{**CHAIN, **changed})
    return caught.value


def test_a_node_that_fits_nowhere_is_named():
    error = refusal(memory_nbytes=35)
    assert error.what == "node 3 has 40 bytes, and the largest device 35"


def test_a_group_that_fits_nowhere_is_named():
    error = refusal(memory_nbytes=45, devices=4, together=[(2, 3)])
    assert error.what == "nodes 2, 3 lie together and have 70 bytes, and the largest device 45"


@pytest.mark.parametrize(
    ("changed", "what", "needed"),
    [
        (
            {"memory_nbytes": 45},
            "the nodes have 100 bytes, and all devices together 90",
            60,
        ),
        ({"memory_nbytes": 55}, "no contiguous split fits into the devices' memory", 60),
        (
            {"nbytes": [30, 30, 20, 20], "memory_nbytes": [45, 55], "contiguous": False},
            "no split that fits into the devices' memory was found",
            60,
        ),
    ],
)
def test_what_does_not_fit_is_said_with_bytes_that_do(changed, what, needed):
    error = refusal(**changed)
    assert error.what == what
    assert error.needed_nbytes == needed
    assert f"devices of {needed} bytes each" in str(error)
    followed = {**CHAIN, **changed, "memory_nbytes": needed}
    assert max(split(**followed).nbytes) <= needed


def test_a_time_of_zero_still_gives_a_split():
    found = split(**CHAIN, search_seconds=0)
    assert sorted(v for nodes in found.stages for v in nodes) == [0, 1, 2, 3]
