"""One function runs in several threads at once, which sleep afterwards and do not survive forks."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

from chainrule.errors import InputError
from chainrule.run.native import pool as module
from chainrule.run.native.pool import pool, thread_count
from chainrule.run.native.runtime import runtime_text
from chainrule.run.native.target import (
    compile_object,
    cross_target,
    host_target,
    load_objects,
    native_refusal,
)

pytestmark = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))

# record: entry `index` of the array becomes count.
# rounds: argument is {pool, barrier, rounds, array}; in each round every thread writes the round's
#   number into its own entry, and after the barrier counts the entries of others that differ.
# nest: argument is {pool, run, record, array}.
CODE = """
declare i32 @usleep(i32)
define i64 @record(ptr %array, i64 %index, i64 %count) {
  %entry = getelementptr i64, ptr %array, i64 %index
  store i64 %count, ptr %entry
  ret i64 0
}
define i64 @status(ptr %array, i64 %index, i64 %count) {
  %entry = getelementptr i64, ptr %array, i64 %index
  %status = load i64, ptr %entry
  ret i64 %status
}
define i64 @linger(ptr %array, i64 %index, i64 %count) {
  %ignored = call i32 @usleep(i32 200000)
  %status = call i64 @record(ptr %array, i64 %index, i64 %count)
  ret i64 %status
}
define i64 @toil(ptr %array, i64 %index, i64 %count) {
  br label %again
again:
  store volatile i64 %count, ptr %array
  br label %again
}
define i64 @nest(ptr %argument, i64 %index, i64 %count) {
  %run_at = getelementptr i64, ptr %argument, i64 1
  %record_at = getelementptr i64, ptr %argument, i64 2
  %array = getelementptr i64, ptr %argument, i64 3
  %own = getelementptr i64, ptr %array, i64 %index
  %pool = load ptr, ptr %argument
  %run = load ptr, ptr %run_at
  %record = load ptr, ptr %record_at
  %status = call i64 %run(ptr %pool, ptr %record, ptr %own, i64 %count)
  ret i64 %status
}
define i64 @rounds(ptr %argument, i64 %index, i64 %count) {
entry:
  %barrier_at = getelementptr i64, ptr %argument, i64 1
  %rounds_at = getelementptr i64, ptr %argument, i64 2
  %array = getelementptr i64, ptr %argument, i64 3
  %pool = load ptr, ptr %argument
  %barrier = load ptr, ptr %barrier_at
  %rounds = load i64, ptr %rounds_at
  %own = getelementptr i64, ptr %array, i64 %index
  br label %round
round:
  %k = phi i64 [1, %entry], [%following, %checked]
  %wrong_before = phi i64 [0, %entry], [%wrong_after, %checked]
  store i64 %k, ptr %own
  call void %barrier(ptr %pool, i64 %count)
  br label %check
check:
  %i = phi i64 [0, %round], [%i_next, %check]
  %wrong = phi i64 [%wrong_before, %round], [%wrong_after, %check]
  %other = getelementptr i64, ptr %array, i64 %i
  %seen = load i64, ptr %other
  %differs = icmp ne i64 %seen, %k
  %one = zext i1 %differs to i64
  %wrong_after = add i64 %wrong, %one
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %count
  br i1 %more, label %check, label %checked
checked:
  call void %barrier(ptr %pool, i64 %count)
  %following = add i64 %k, 1
  %again = icmp sle i64 %following, %rounds
  br i1 %again, label %round, label %end
end:
  ret i64 %wrong_after
}
"""
WIDTH = 8


@pytest.fixture(scope="module")
def library():
    return load_objects([compile_object(CODE, host_target())], {})


def array(*values):
    return (ctypes.c_int64 * max(len(values), WIDTH))(*values)


def record(library, threads, count, name="record"):
    """What each index was told as the count; 0 for those that were not called."""
    entries = array()
    pool(threads).run(library.address(name), ctypes.addressof(entries), count)
    return list(entries)


def in_child(function):
    """The function's value, from a child process made by fork, as bytes; b"" if it did not end."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork() beside threads, since 3.12
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # a deadlock ends the child, not the tests
        try:
            os.write(write, repr(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_index_is_called_once_and_told_the_count(library, count):
    assert record(library, 4, count) == [count] * count + [0] * (WIDTH - count)


def test_the_count_is_lowered_to_the_threads_that_there_are(library):
    threads = pool(2).threads
    assert threads >= 2
    told = record(library, 2, threads + 1)
    assert told == [threads] * threads + [0] * (WIDTH - threads)
    for count in (0, -1):
        assert record(library, 2, count) == [1] + [0] * (WIDTH - 1)


def test_many_runs_follow_each_other(library):
    for step in range(3000):
        count = 1 + step % 4
        assert record(library, 4, count) == [count] * count + [0] * (WIDTH - count)


def test_the_status_is_that_of_the_lowest_index_that_failed(library):
    for statuses, want in [
        ((0, 0, 0, 0), 0),
        ((0, 0, 7, 9), 7),
        ((5, 0, 7, 0), 5),
        ((0, 0, 0, -3), -3),
    ]:
        entries = array(*statuses)
        status = pool(4).run(library.address("status"), ctypes.addressof(entries), 4)
        assert status == want


@pytest.mark.parametrize("count", [1, 2, 4])
def test_behind_a_barrier_everything_written_before_it_is_seen(library, count):
    """With more threads than processors, too: those that wait let the others run."""
    here = pool(4)
    argument = array(here.address, here.barrier_address, 300, *[0] * WIDTH)
    assert here.run(library.address("rounds"), ctypes.addressof(argument), count) == 0
    assert list(argument)[3 : 3 + count] == [300] * count


def test_without_a_barrier_the_check_of_the_barrier_fails(library):
    here = pool(2)
    nothing = load_objects(
        [
            compile_object(
                "define void @nothing(ptr %pool, i64 %count) {\n ret void\n}", host_target()
            )
        ],
        {},
    )
    argument = array(here.address, nothing.address("nothing"), 200_000, *[0] * WIDTH)
    assert here.run(library.address("rounds"), ctypes.addressof(argument), 2) != 0


def test_a_run_inside_a_run_is_on_one_thread(library):
    here = pool(2)
    argument = array(here.address, here.run_address, library.address("record"), 0, 0, 0)
    assert here.run(library.address("nest"), ctypes.addressof(argument), 2) == 0
    assert list(argument)[3:6] == [1, 1, 0]


def test_a_run_beside_a_run_is_on_one_thread(library):
    told = []
    other = threading.Thread(target=lambda: told.extend(record(library, 2, 2, "linger")))
    other.start()
    time.sleep(0.05)
    start = time.perf_counter()
    assert record(library, 2, 2)[:2] == [1, 0]
    assert time.perf_counter() - start < 0.1
    other.join()
    assert told[:2] == [2, 2]
    assert record(library, 2, 2)[:2] == [2, 2]


def test_python_goes_on_while_the_pool_works(library):
    other = threading.Thread(target=record, args=(library, 2, 2, "linger"))
    start = time.perf_counter()
    other.start()
    assert other.is_alive()
    assert time.perf_counter() - start < 0.15
    other.join()


def test_workers_without_work_sleep(library):
    record(library, 4, 4)
    time.sleep(0.01)
    start = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - start < 0.02
    assert record(library, 4, 4)[:4] == [4] * 4  # and wake up


def test_there_is_one_pool_and_it_grows(library):
    small = pool(2)
    large = pool(small.threads + 1)
    assert large == small
    assert large.threads == small.threads
    assert pool(2).threads == large.threads


def test_workers_block_signals():
    pool(2)
    masks = {}
    for thread in Path("/proc/self/task").iterdir():
        lines = (thread / "status").read_text().splitlines()
        masks[int(thread.name)] = next(
            line.split()[1] for line in lines if line.startswith("SigBlk")
        )
    interrupt = 1 << (signal.SIGINT - 1)
    assert not int(masks[os.getpid()], 16) & interrupt
    known = {thread.native_id for thread in threading.enumerate()}
    blocked = [one for one, mask in masks.items() if int(mask, 16) & interrupt and one not in known]
    assert len(blocked) >= pool(2).threads - 1


def test_a_child_runs_on_one_thread_until_it_asks_for_more(library):
    here = pool(2)

    def old_address():
        entries = array()
        here.run(library.address("record"), ctypes.addressof(entries), 2)
        return list(entries)[:3]

    assert in_child(old_address) == "[1, 0, 0]"
    assert in_child(lambda: (record(library, 2, 2)[:3], old_address())) == "([2, 2, 0], [2, 2, 0])"
    assert in_child(lambda: in_child(lambda: record(library, 3, 3)[:4])) == repr("[3, 3, 3, 0]")
    assert old_address() == [2, 2, 0]


def test_a_child_works_that_was_forked_in_the_middle_of_a_run(library):
    other = threading.Thread(target=record, args=(library, 2, 2, "linger"))
    other.start()
    time.sleep(0.05)
    assert in_child(lambda: record(library, 2, 2)[:3]) == "[2, 2, 0]"
    other.join()


def test_a_child_works_that_was_forked_while_threads_were_started(library):
    pool(2)
    with module._starting:
        assert in_child(lambda: record(library, 2, 2)[:3]) == "[2, 2, 0]"


def _told(_):
    return record(load_objects([compile_object(CODE, host_target())], {}), 2, 2)[:3]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_it_works_in_the_processes_of_multiprocessing(method):
    pool(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context(method).Pool(2) as workers:
            assert workers.map(_told, range(4)) == [[2, 2, 0]] * 4


BEGIN = """
import ctypes, os, signal, sys, threading, time
from chainrule.run.native.pool import pool
from chainrule.run.native.target import compile_object, host_target, load_objects
library = load_objects([compile_object(sys.argv[1], host_target())], {})
entries = (ctypes.c_int64 * 8)()
def run(name):
    pool(3).run(library.address(name), ctypes.addressof(entries), 3)
"""


@contextmanager
def script(text):
    arguments = [sys.executable, "-W", "error", "-c", BEGIN + text, CODE]
    with subprocess.Popen(arguments, stdout=-1, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    "ending",
    [
        "run('record')",
        "run('record'); time.sleep(0.05)",
        "run('record'); sys.exit(0)",
        "threading.Thread(target=run, args=('linger',), daemon=True).start(); time.sleep(0.05)",
        "threading.Thread(target=run, args=('toil',), daemon=True).start(); time.sleep(0.05)",
        "threading.Thread(target=run, args=('linger',)).start()",
        "pool(3)",
    ],
)
def test_the_interpreter_ends_in_peace(ending):
    with script(ending) as process:
        said, _ = process.communicate(timeout=30)
        assert (process.returncode, said) == (0, "")


def test_an_interrupt_reaches_python_after_the_run():
    text = "print('ready', flush=True)\nwhile True: run('linger')"
    with script(text) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
        assert said.endswith("KeyboardInterrupt\n")


def test_the_runtime_is_generated_for_aarch64():
    target = cross_target("aarch64-linux-gnu")
    assert compile_object(runtime_text("aarch64"), target)


def test_the_number_of_threads_can_be_set(monkeypatch):
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", "3")
    assert thread_count() == 3
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
