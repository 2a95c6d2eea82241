"""One function runs in the threads that come in time; the others never delay or enter it."""

import ctypes
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from executors import needs_native
from pool_programs import WIDTH, array, in_child, loaded, record

from chainrule.execute.native.runtime import pool as module
from chainrule.execute.native.runtime.pool import pool
from chainrule.execute.native.runtime.pool_code import POOL, POOL_NBYTES, runtime_text
from chainrule.machine_code.target import (
    compile_object,
    cross_target,
    host_target,
    load_objects,
)

pytestmark = needs_native


@pytest.fixture(scope="module")
def library():
    return loaded()


def resting(address):
    """How many workers sleep, and how many are called and not up yet."""
    rest = ctypes.c_uint64.from_address(address + POOL["REST"]).value
    return rest >> 32, rest & 0xFFFFFFFF


class Absent:
    """A pool whose workers are never scheduled: there are none until one is started."""

    def __init__(self, threads, asleep):
        self.memory = ctypes.create_string_buffer(POOL_NBYTES + 128)
        self.address = -(-ctypes.addressof(self.memory) // 128) * 128
        ctypes.c_int64.from_address(self.address + POOL["THREADS"]).value = threads
        ctypes.c_uint64.from_address(self.address + POOL["REST"]).value = asleep << 32

    def run(self, function, argument, count):
        return module.RUN(pool(1).run_address)(self.address, function, argument, count)

    def start_worker(self):
        start = ctypes.CDLL(None).pthread_create
        worker = ctypes.c_void_p(module._runtime().address("chainrule_worker"))
        thread = ctypes.c_void_p()
        assert not start(ctypes.byref(thread), None, worker, ctypes.c_void_p(self.address))


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


@pytest.mark.slow
def test_many_runs_follow_each_other(library):
    for step in range(1000):
        count = 1 + step % 4
        assert record(library, 4, count) == [count] * count + [0] * (WIDTH - count)


def test_the_status_is_one_that_is_not_zero_and_that_of_the_caller_first(library):
    here = pool(4)
    for statuses, wanted in [
        ((0, 0, 0, 0), {0}),
        ((5, 0, 7, 0), {5}),
        ((0, 0, 7, 0), {7}),
        ((0, 0, 7, 9), {7, 9}),
        ((0, 0, 0, -3), {-3}),
        ((0, 0, 0, 0), {0}),
    ]:
        argument = array(0, here.wait_address, *statuses)
        assert here.run(library.address("status"), ctypes.addressof(argument), 4) in wanted


@pytest.mark.parametrize("asleep", [0, 3])
def test_nobody_is_waited_for_who_does_not_come(library, asleep):
    """Asleep (they are called, and do not get up), or awake but not on a processor."""

    def runs():
        absent, told = Absent(4, asleep), []
        for _ in range(1000):
            entries = array()
            absent.run(library.address("record"), ctypes.addressof(entries), 4)
            told.append(list(entries)[:4])
        return told.count([4, 0, 0, 0]), resting(absent.address)

    assert in_child(runs) == repr((1000, (0, asleep)))


@pytest.mark.parametrize(("count", "want"), [(2, (2, 0)), (3, (1, 1)), (4, (1, 1))])
def test_the_caller_calls_one_sleeper_where_those_awake_are_too_few(library, count, want):
    absent, entries = Absent(4, 2), array()
    absent.run(library.address("record"), ctypes.addressof(entries), count)
    assert resting(absent.address) == want


def test_a_worker_that_comes_late_joins_the_next_run_only(library):
    def late():
        absent, entries = Absent(2, 0), array()
        absent.run(library.address("record"), ctypes.addressof(entries), 2)
        absent.start_worker()
        time.sleep(0.02)
        before = list(entries)[:2]
        argument = array(0, pool(1).wait_address, 0, 0)
        absent.run(library.address("meet"), ctypes.addressof(argument), 2)
        return before, list(argument)[2:4], list(entries)[:2]

    assert in_child(late) == repr(([2, 0], [2, 2], [2, 0]))


def wrong_jobs(library, parts, count, jobs):
    """How often a part was not done exactly once, or a thread was in a job that is over."""
    here, arguments = pool(count), (ctypes.c_int64 * 32)()
    types = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 3
    run_jobs = ctypes.CFUNCTYPE(ctypes.c_int64, *types)(library.address("jobs"))
    return run_jobs(here.address, here.run_address, ctypes.addressof(arguments), parts, count, jobs)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("count", range(1, 9))
def test_every_part_is_done_once_whoever_comes(library, count):
    """With more threads than processors, too."""
    assert wrong_jobs(library, 8, count, 100_000) == 0


@pytest.mark.parametrize("count", [2, 4, 8])
def test_nobody_is_in_a_function_after_its_run(library, count):
    """Jobs so short that workers often come just as they end."""
    assert wrong_jobs(library, 0, count, 100_000) == 0


@pytest.mark.parametrize("count", [1, 2, 4])
def test_behind_a_wait_everything_written_before_it_is_seen(library, count):
    here = pool(4)
    argument = array(here.wait_address, 4, 300, 0, 0, *[0] * 4)
    assert here.run(library.address("phases"), ctypes.addressof(argument), count) == 0
    assert list(argument)[3:9] == [1200, 1200] + [300] * 4


def test_without_a_wait_the_check_of_the_wait_fails(library):
    here = pool(2)
    text = "define void @nothing(ptr %counter, i64 %target) {\n ret void\n}"
    nothing = load_objects([compile_object(text, host_target())], {})

    def wrong():
        argument = array(nothing.address("nothing"), 2, 200_000, 0, 0, 0, 0)
        return here.run(library.address("phases"), ctypes.addressof(argument), 2)

    assert any(wrong() for _ in range(200))  # unless index 0 is always alone


def test_a_run_inside_a_run_is_on_one_thread(library):
    here = pool(2)
    code = here.run_address, library.address("record")
    argument = array(0, here.wait_address, here.address, *code, 0, 0, 0)
    assert here.run(library.address("nest"), ctypes.addressof(argument), 2) == 0
    assert list(argument)[5:8] == [1, 1, 0]


class Gate:
    """What `hold` and `tarry` wait for: closed when it is made."""

    def __init__(self, library):
        self.value, self.holding = (
            ctypes.c_int64.from_address(library.address(name)) for name in ("gate", "holding")
        )
        self.value.value = self.holding.value = 0

    def open(self):
        """Let everybody on; nobody has grown tired of waiting."""
        assert not self.value.value, "somebody waited in vain"
        self.value.value = 1


def until(condition):
    """Wait until it is true; fails where it never is."""
    for _ in range(10_000):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError("it never came to that")


def is_asleep(thread):
    """Whether the system has laid the thread of this number to rest: it takes no processor time."""
    about = Path(f"/proc/self/task/{thread}/stat").read_text()
    return about.rpartition(")")[2].split()[0] == "S"


def test_a_run_beside_a_run_is_on_one_thread(library):
    gate, told = Gate(library), []
    other = threading.Thread(target=lambda: told.extend(record(library, 2, 2, "hold")))
    other.start()
    until(lambda: gate.holding.value)
    assert record(library, 2, 2)[:2] == [1, 0]  # and does not wait for the other
    gate.open()
    other.join()
    assert told[:2] == [2, 2]
    assert record(library, 2, 2)[:2] == [2, 2]


def test_python_goes_on_while_the_pool_works(library):
    gate = Gate(library)
    other = threading.Thread(target=record, args=(library, 2, 2, "hold"))
    other.start()
    until(lambda: gate.holding.value)
    gate.open()
    other.join()


def test_workers_without_work_sleep(library):
    here = pool(4)
    record(library, 4, 4)
    until(lambda: resting(here.address) == (here.threads - 1, 0))
    python = {thread.native_id for thread in threading.enumerate()}
    threads = [int(one.name) for one in Path("/proc/self/task").iterdir()]
    workers = [one for one in threads if one not in python]
    assert len(workers) >= here.threads - 1
    until(lambda: all(map(is_asleep, workers)))
    assert record(library, 4, 4)[:4] == [4] * 4  # and wake up


def test_no_more_workers_wake_than_a_run_has_places_for(library):
    here = pool(4)
    time.sleep(0.05)
    assert record(library, 4, 2)[:3] == [2, 2, 0]
    asleep, called = resting(here.address)
    assert asleep >= here.threads - 2
    assert called == 0


@pytest.mark.slow
def test_workers_wake_that_are_just_falling_asleep(library):
    for pause in range(600):
        end = time.perf_counter() + (80 + pause % 60) * 1e-6
        while time.perf_counter() < end:
            pass
        assert record(library, 4, 4)[:4] == [4] * 4


def test_a_long_wait_for_workers_takes_no_processor_time(library):
    gate, told = Gate(library), []
    caller = threading.Thread(target=lambda: told.extend(record(library, 2, 2, "tarry")))
    caller.start()
    until(lambda: gate.holding.value)
    finished = ctypes.c_uint32.from_address(pool(2).address + POOL["FINISHED"])
    until(lambda: finished.value >> 31 and is_asleep(caller.native_id))
    gate.open()
    caller.join()
    assert told[:2] == [2, 2]


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
        try:
            lines = (thread / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread of another test has just ended
        masks[int(thread.name)] = next(
            line.split()[1] for line in lines if line.startswith("SigBlk")
        )
    interrupt = 1 << (signal.SIGINT - 1)
    assert not int(masks[os.getpid()], 16) & interrupt
    known = {thread.native_id for thread in threading.enumerate()}
    blocked = [one for one, mask in masks.items() if int(mask, 16) & interrupt and one not in known]
    assert len(blocked) >= pool(2).threads - 1


def test_the_runtime_is_generated_for_aarch64():
    target = cross_target("aarch64-linux-gnu")
    assert compile_object(runtime_text("aarch64"), target)
