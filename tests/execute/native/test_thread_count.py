"""How many threads: what the environment says, or the cores that the process may keep busy."""

import os

import pytest
from executors import needs_native

from chainrule.errors import InputError
from chainrule.execute.native.runtime import pool as module
from chainrule.execute.native.runtime.pool import thread_count

pytestmark = needs_native


def test_the_number_of_threads_can_be_set(monkeypatch):
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", "3")
    assert thread_count() == 3
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", str(10**9))
    assert thread_count() == module.MOST_THREADS
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", "")
    assert 1 <= thread_count() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "1.5", "²"])
def test_a_wrong_number_of_threads_is_explained(monkeypatch, wrong):
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", wrong)
    with pytest.raises(InputError) as caught:
        thread_count()
    assert str(caught.value) == (
        f"the environment variable CHAINRULE_NUM_THREADS is {wrong!r}, which is no number of "
        "threads\n"
        "  try: set it to a whole number from 1 on, or unset it: CHAINRULE_NUM_THREADS=2"
    )


def test_processors_that_the_process_may_not_use_are_not_counted(monkeypatch):
    monkeypatch.delenv("CHAINRULE_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    assert thread_count() == 1


def test_hardware_threads_of_one_core_count_once(tmp_path):
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        folder = tmp_path / f"cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    assert module._cores({0, 1, 2, 3}, tmp_path) == 2
    assert module._cores({0, 1}, tmp_path) == 2
    assert module._cores({0, 2}, tmp_path) == 1
    assert module._cores({0, 2, 7, 8}, tmp_path) == 3


def old_quota(microseconds):
    """The files of version 1."""
    return {"cpu/cpu.cfs_quota_us": microseconds, "cpu/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("files", "membership", "want"),
    [
        ({}, "0::/a/b\n", None),
        ({"a/cpu.max": "max 100000\n"}, "0::/a/b\n", None),
        ({"a/cpu.max": "150000 100000\n"}, "0::/a/b\n", 1.5),
        ({"cpu.max": "300000 100000\n", "a/cpu.max": "800000 100000\n"}, "0::/a\n", 3.0),
        (old_quota("200000"), "3:cpu,cpuacct:/x\n", 2.0),
        (old_quota("-1"), "3:cpu:/\n0::/\n", None),
        (old_quota("100000"), "2:cpuset:/\n", None),
    ],
)
def test_the_quota_of_the_cgroups_is_the_smallest(tmp_path, files, membership, want):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert module._quota(membership, tmp_path) == want


@pytest.mark.parametrize(("quota", "want"), [(0.5, 1), (1.9, 1), (3.0, 3), (64.0, 4), (None, 4)])
def test_the_number_of_threads_keeps_to_the_quota(monkeypatch, quota, want):
    monkeypatch.delenv("CHAINRULE_NUM_THREADS", raising=False)
    monkeypatch.setattr(module, "_cores", lambda cpus, folder: 4)
    monkeypatch.setattr(module, "_quota", lambda membership, root: quota)
    assert thread_count() == want
