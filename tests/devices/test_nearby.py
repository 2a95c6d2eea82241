"""Ranks of one machine add in memory that they share; here they are threads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from chainrule.devices import nearby
from chainrule.devices.nearby import Nearby

COUNT = 3
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux alone")


def on_ranks(work: Callable[[int, threading.Barrier], Any]) -> list[Any]:
    barrier = threading.Barrier(COUNT, timeout=20)
    with ThreadPoolExecutor(COUNT) as pool:
        return list(pool.map(lambda rank: work(rank, barrier), range(COUNT)))


def found() -> list[Nearby | None]:
    rows = np.zeros((COUNT, 4), np.int64)

    def work(rank: int, barrier: threading.Barrier) -> Nearby | None:
        def tell(numbers: Sequence[int]) -> np.ndarray:
            rows[rank, : len(numbers)] = numbers
            barrier.wait()
            told = rows[:, : len(numbers)].copy()
            barrier.wait()
            return told

        return nearby.nearby(rank, COUNT, tell)

    return on_ranks(work)


@on_linux
def test_sums_are_those_in_the_order_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of arrays that are smaller and larger than what is added at once, of several dtypes."""
    monkeypatch.setattr(nearby, "PART_NBYTES", 64)
    files = len(os.listdir("/proc/self/fd"))
    shared = found()
    assert len(os.listdir("/proc/self/fd")) == files + COUNT  # a mapping has one of its own
    shapes = [(), (0, 3), (5,), (7, 9), (2,), (30,)]
    kinds = [np.float32, np.float64, np.float64, np.float32, np.int64, np.float64]
    given = [
        [9 * np.random.default_rng([rank, i]).normal(size=one) for i, one in enumerate(shapes)]
        for rank in range(COUNT)
    ]
    arrays = [[np.asarray(a, kind) for a, kind in zip(own, kinds, strict=True)] for own in given]
    wanted = [(a + b) + c for a, b, c in zip(*arrays, strict=True)]

    def add(rank: int, barrier: threading.Barrier) -> None:
        one = shared[rank]
        assert one is not None
        one.add(arrays[rank], lambda: barrier.wait() and None)

    on_ranks(add)
    for own in arrays:
        for one, total in zip(own, wanted, strict=True):
            np.testing.assert_array_equal(one, total)


@on_linux
@pytest.mark.parametrize("missing", ["memory", "file", "secret"])
def test_where_one_rank_has_no_shared_memory_none_has(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = os.memfd_create("other")
    os.posix_fallocate(other, 0, (COUNT + 1) * nearby.PART_NBYTES)
    seen, calls = nearby.file_of, list[int]()

    def file_of(pid: int, descriptor: int) -> int:
        calls.append(pid)
        if len(calls) == 1:
            return -1 if missing == "file" else os.dup(other)
        return seen(pid, descriptor)

    if missing == "memory":
        monkeypatch.setattr(nearby, "file_without_name", lambda _: -1)
    else:
        monkeypatch.setattr(nearby, "file_of", file_of)
    try:
        assert found() == [None] * COUNT
    finally:
        os.close(other)
