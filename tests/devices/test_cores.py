"""Each rank works on its share of the cores; BLAS is held to it, and afterwards as before."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from executors import needs_native
from parallel_models import case

import chainrule as cr
from chainrule.devices import cores
from chainrule.devices.cores import blas_held_to, threads_of_rank
from chainrule.execute.native.program import NativeProgram
from chainrule.execute.native.runtime import machine


def blas_threads() -> list[int]:
    return [get() for _, get in cores._libraries()]


@pytest.fixture
def several() -> Any:
    """BLAS works on three threads, if it can be told."""
    before = [(put, get()) for put, get in cores._libraries()]
    for put, _ in before:
        put(3)
    yield blas_threads()
    for put, count in before:
        put(count)


def test_ranks_of_one_process_share_its_cores_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", "8")
    assert [threads_of_rank(ranks) for ranks in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]


@pytest.mark.parametrize(
    ("said", "own", "machine_has", "wanted"),
    [
        ({"MPI_LOCALNRANKS": "4"}, 16, 16, 4),
        ({"MPI_LOCALNRANKS": "4"}, 4, 16, 4),  # each is bound to four
        ({"MPI_LOCALNRANKS": "32"}, 16, 16, 1),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 16, 16, 8),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x4)"}, 16, 16, 8),
        ({"SLURM_STEP_TASKS_PER_NODE": "3(x2),2"}, 16, 16, 2),  # nobody knows which: all eight
        ({}, 16, 16, 2),
        ({"CHAINRULE_NUM_THREADS": "5"}, 16, 16, 5),
    ],
)
def test_ranks_of_a_job_share_their_machine_out(
    said: dict[str, str], own: int, machine_has: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*cores.ON_MACHINE, cores.SLURM, "CHAINRULE_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"PMI_RANK": "1", "PMI_SIZE": "8", **said}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(own)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: machine_has)
    if not said.get("CHAINRULE_NUM_THREADS"):
        monkeypatch.setattr(cores, "thread_count", lambda: own)
    assert threads_of_rank(8) == wanted


def test_blas_is_held_to_a_share_and_has_its_threads_again(several: list[int]) -> None:
    assert set(several) <= {3}
    with pytest.raises(ZeroDivisionError), blas_held_to(2):
        assert set(blas_threads()) <= {2}
        with blas_held_to(1):  # of another step: the first has said
            assert set(blas_threads()) <= {2}
        assert set(blas_threads()) <= {2}
        raise ZeroDivisionError
    assert blas_threads() == several
    with blas_held_to(4):  # never more than before
        assert blas_threads() == several


def test_many_threads_hold_blas_at_once(several: list[int]) -> None:
    def hold(_: int) -> None:
        for _ in range(50):
            with blas_held_to(1):
                assert set(blas_threads()) <= {1}

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(hold, range(4)))
    assert blas_threads() == several


@needs_native
def test_a_step_runs_on_the_share_of_each_rank(
    several: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_default_threads", lambda: 6)
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", "6")
    seen = list[int]()

    class Watching:
        @staticmethod
        def watch() -> None:
            seen.extend(blas_threads())

    for executor in ("native", "reference"):
        step, weights, batch = case("network", "sgd", executor)
        split = cr.parallel(step, micro_batches=4, stages=2, replicas=2)
        state = split.init(weights)
        compiled = [c for c in split.split_at(n=24).compiled if isinstance(c, NativeProgram)]
        threads = Counter(code.settings.threads for code in compiled)
        # The first replica updates for both, on the cores of both.
        assert set(threads) == ({1, 2} if compiled else set()) and threads[2] <= 2
        split._taken(state, batch, [Watching] * 4)  # type: ignore[list-item]
        assert set(seen) <= {1}
        assert blas_threads() == several


@needs_native
def test_an_executor_can_be_held_to_threads() -> None:
    from chainrule.execute.executors import executor_names, executor_of, executor_on

    assert executor_on("reference", 2) == "reference"
    name = executor_on("native", 2)
    assert name == "native (on 2 threads)" and name not in executor_names()
    assert executor_on("native", 1) == "native (on 1 thread)"
    within = executor_of(name).within(10**9)  # type: ignore[attr-defined]
    assert (within.threads, within.memory_nbytes) == (2, 10**9)
    assert executor_of(name).searching(1.0).threads == 2  # type: ignore[attr-defined]
