"""One function runs in the threads that come in time; the others never delay or enter it."""

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
from chainrule.run.native.runtime import POOL, POOL_NBYTES, runtime_text
from chainrule.run.native.target import (
    compile_object,
    cross_target,
    host_target,
    load_objects,
    native_refusal,
)

pytestmark = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))

# record: entry `index` of the array becomes count.
# meet: argument is {arrived, wait, entries}; as record, and nobody returns before all have come.
# linger: as meet, after a while.  tarry: as meet, and all but index 0 stay for a while.
# status: as meet, but the entries are given, and each is what the index returns.
# nest: argument is {arrived, wait, pool, run, record, array}.
# share: argument is {next, parts, owner, done}; the parts are claimed one by one, counted in done.
#   inside is how many threads are in it, and late how many found that they should not be.
# jobs: runs share again and again on two arguments in turn, which have no owner between the runs;
#   gives what went wrong: parts not done exactly once, and threads that were late.
# phases: argument is {wait, parts, phases, next, done, entries}; in each phase the parts are
#   claimed one by one and write the phase's number; behind a wait, what is older is counted.
CODE = """
declare i32 @usleep(i32)
@inside = global i64 0
@late = global i64 0
define i64 @record(ptr %array, i64 %index, i64 %count) {
  %entry = getelementptr i64, ptr %array, i64 %index
  store i64 %count, ptr %entry
  ret i64 0
}
define void @gather(ptr %argument, i64 %count) {
  %wait_at = getelementptr i64, ptr %argument, i64 1
  %wait = load ptr, ptr %wait_at
  %before = atomicrmw add ptr %argument, i64 1 release
  call void %wait(ptr %argument, i64 %count)
  ret void
}
define i64 @meet(ptr %argument, i64 %index, i64 %count) {
  %entries = getelementptr i64, ptr %argument, i64 2
  %status = call i64 @record(ptr %entries, i64 %index, i64 %count)
  call void @gather(ptr %argument, i64 %count)
  ret i64 %status
}
define i64 @linger(ptr %argument, i64 %index, i64 %count) {
  %ignored = call i32 @usleep(i32 200000)
  %status = call i64 @meet(ptr %argument, i64 %index, i64 %count)
  ret i64 %status
}
define i64 @tarry(ptr %argument, i64 %index, i64 %count) {
  %status = call i64 @meet(ptr %argument, i64 %index, i64 %count)
  %first = icmp eq i64 %index, 0
  br i1 %first, label %end, label %stay
stay:
  %ignored = call i32 @usleep(i32 200000)
  br label %end
end:
  ret i64 %status
}
define i64 @status(ptr %argument, i64 %index, i64 %count) {
  %entries = getelementptr i64, ptr %argument, i64 2
  %entry = getelementptr i64, ptr %entries, i64 %index
  call void @gather(ptr %argument, i64 %count)
  %status = load i64, ptr %entry
  ret i64 %status
}
define i64 @toil(ptr %array, i64 %index, i64 %count) {
  %entry = getelementptr i64, ptr %array, i64 %index
  br label %again
again:
  store volatile i64 %count, ptr %entry
  br label %again
}
define i64 @nest(ptr %argument, i64 %index, i64 %count) {
  %pool_at = getelementptr i64, ptr %argument, i64 2
  %run_at = getelementptr i64, ptr %argument, i64 3
  %record_at = getelementptr i64, ptr %argument, i64 4
  %array = getelementptr i64, ptr %argument, i64 5
  %own = getelementptr i64, ptr %array, i64 %index
  %pool = load ptr, ptr %pool_at
  %run = load ptr, ptr %run_at
  %record = load ptr, ptr %record_at
  %status = call i64 %run(ptr %pool, ptr %record, ptr %own, i64 %count)
  call void @gather(ptr %argument, i64 %count)
  ret i64 %status
}
define void @complain(i1 %wrong) {
  %one = zext i1 %wrong to i64
  %before = atomicrmw add ptr @late, i64 %one monotonic
  ret void
}
define i64 @share(ptr %argument, i64 %index, i64 %count) {
  %entered = atomicrmw add ptr @inside, i64 1 seq_cst
  %parts_at = getelementptr i64, ptr %argument, i64 1
  %owner_at = getelementptr i64, ptr %argument, i64 2
  %done = getelementptr i64, ptr %argument, i64 3
  %owner = load atomic i64, ptr %owner_at seq_cst, align 8
  %nobody = icmp eq i64 %owner, 0
  call void @complain(i1 %nobody)
  %parts = load i64, ptr %parts_at
  br label %claim
claim:
  %part = atomicrmw add ptr %argument, i64 1 monotonic
  %more = icmp slt i64 %part, %parts
  br i1 %more, label %work, label %end
work:
  %done_at = getelementptr i64, ptr %done, i64 %part
  %before = atomicrmw add ptr %done_at, i64 1 monotonic
  br label %claim
end:
  %owner_now = load atomic i64, ptr %owner_at seq_cst, align 8
  %another = icmp ne i64 %owner_now, %owner
  call void @complain(i1 %another)
  %left = atomicrmw sub ptr @inside, i64 1 seq_cst
  ret i64 0
}
define i64 @jobs(ptr %pool, ptr %run, ptr %arguments, i64 %parts, i64 %count, i64 %jobs) {
entry:
  store i64 0, ptr @late
  br label %job
job:
  %k = phi i64 [1, %entry], [%following, %checked]
  %wrong_before = phi i64 [0, %entry], [%wrong, %checked]
  %turn = and i64 %k, 1
  %offset = mul i64 %turn, 16
  %argument = getelementptr i64, ptr %arguments, i64 %offset
  %parts_at = getelementptr i64, ptr %argument, i64 1
  %owner_at = getelementptr i64, ptr %argument, i64 2
  %done = getelementptr i64, ptr %argument, i64 3
  store i64 %parts, ptr %parts_at
  store atomic i64 0, ptr %argument seq_cst, align 8
  store atomic i64 %k, ptr %owner_at seq_cst, align 8
  %status = call i64 %run(ptr %pool, ptr @share, ptr %argument, i64 %count)
  store atomic i64 0, ptr %owner_at seq_cst, align 8
  %inside = load atomic i64, ptr @inside seq_cst, align 8
  %somebody = icmp ne i64 %inside, 0
  call void @complain(i1 %somebody)
  br label %check
check:
  %i = phi i64 [0, %job], [%i_next, %one]
  %wrong = phi i64 [%wrong_before, %job], [%wrong_after, %one]
  %more = icmp slt i64 %i, %parts
  br i1 %more, label %one, label %checked
one:
  %done_at = getelementptr i64, ptr %done, i64 %i
  %times = load i64, ptr %done_at
  store i64 0, ptr %done_at
  %not_once = icmp ne i64 %times, 1
  %fault = zext i1 %not_once to i64
  %wrong_after = add i64 %wrong, %fault
  %i_next = add i64 %i, 1
  br label %check
checked:
  %following = add i64 %k, 1
  %again = icmp sle i64 %following, %jobs
  br i1 %again, label %job, label %end
end:
  %ignored = call i32 @usleep(i32 1000)
  %late = load atomic i64, ptr @late seq_cst, align 8
  %total = add i64 %wrong, %late
  ret i64 %total
}
define i64 @phases(ptr %argument, i64 %index, i64 %count) {
entry:
  %parts_at = getelementptr i64, ptr %argument, i64 1
  %phases_at = getelementptr i64, ptr %argument, i64 2
  %next = getelementptr i64, ptr %argument, i64 3
  %done = getelementptr i64, ptr %argument, i64 4
  %entries = getelementptr i64, ptr %argument, i64 5
  %wait = load ptr, ptr %argument
  %parts = load i64, ptr %parts_at
  %phases = load i64, ptr %phases_at
  br label %phase
phase:
  %k = phi i64 [1, %entry], [%following, %checked]
  %wrong_before = phi i64 [0, %entry], [%wrong_after, %checked]
  %target = mul i64 %k, %parts
  %base = sub i64 %target, %parts
  br label %claim
claim:
  %claimed = load atomic i64, ptr %next monotonic, align 8
  %more = icmp slt i64 %claimed, %target
  br i1 %more, label %take, label %behind
take:
  %claimed_next = add i64 %claimed, 1
  %exchange = cmpxchg ptr %next, i64 %claimed, i64 %claimed_next monotonic monotonic
  %mine = extractvalue {i64, i1} %exchange, 1
  br i1 %mine, label %work, label %claim
work:
  %part = sub i64 %claimed, %base
  %own = getelementptr i64, ptr %entries, i64 %part
  store atomic i64 %k, ptr %own monotonic, align 8
  %one_more = atomicrmw add ptr %done, i64 1 release
  br label %claim
behind:
  call void %wait(ptr %done, i64 %target)
  br label %check
check:
  %i = phi i64 [0, %behind], [%i_next, %check]
  %wrong = phi i64 [%wrong_before, %behind], [%wrong_after, %check]
  %other = getelementptr i64, ptr %entries, i64 %i
  %seen = load atomic i64, ptr %other monotonic, align 8
  %older = icmp slt i64 %seen, %k
  %one = zext i1 %older to i64
  %wrong_after = add i64 %wrong, %one
  %i_next = add i64 %i, 1
  %rest = icmp slt i64 %i_next, %parts
  br i1 %rest, label %check, label %checked
checked:
  %following = add i64 %k, 1
  %again = icmp sle i64 %following, %phases
  br i1 %again, label %phase, label %end
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


def record(library, threads, count, name="meet"):
    """What each index was told as the count; 0 for those that were not called."""
    here = pool(threads)
    entries = array(0, here.wait_address, *[0] * WIDTH)
    here.run(library.address(name), ctypes.addressof(entries), count)
    return list(entries)[2:]


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
    here = pool(4)
    assert resting(here.address) == (here.threads - 1, 0)
    assert record(library, 4, 4)[:4] == [4] * 4  # and wake up


def test_no_more_workers_wake_than_a_run_has_places_for(library):
    here = pool(4)
    time.sleep(0.05)
    assert record(library, 4, 2)[:3] == [2, 2, 0]
    asleep, called = resting(here.address)
    assert asleep >= here.threads - 2
    assert called == 0


def test_workers_wake_that_are_just_falling_asleep(library):
    for pause in range(600):
        end = time.perf_counter() + (80 + pause % 60) * 1e-6
        while time.perf_counter() < end:
            pass
        assert record(library, 4, 4)[:4] == [4] * 4


def test_a_long_wait_for_workers_takes_no_processor_time(library):
    start, processor = time.perf_counter(), time.process_time()
    assert record(library, 2, 2, "tarry")[:2] == [2, 2]
    assert time.perf_counter() - start > 0.19
    assert time.process_time() - processor < 0.05


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
        entries = array(0, here.wait_address, 0, 0, 0)
        here.run(library.address("meet"), ctypes.addressof(entries), 2)
        return list(entries)[2:5]

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
    entries[:2] = 0, pool(3).wait_address
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
        "run('meet')",
        "run('meet'); time.sleep(0.05)",
        "run('meet'); sys.exit(0)",
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
