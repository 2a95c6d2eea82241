"""A pool of threads survives forks and interrupts, and lets the interpreter end."""

import ctypes
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager

import pytest
from executors import needs_native
from pool_programs import CODE, array, in_child, loaded, record

from chainrule.execute.native.runtime import pool as module
from chainrule.execute.native.runtime.pool import pool

pytestmark = needs_native


@pytest.fixture(scope="module")
def library():
    return loaded()


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
    return record(loaded(), 2, 2)[:3]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_it_works_in_the_processes_of_multiprocessing(method):
    pool(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context(method).Pool(2) as workers:
            assert workers.map(_told, range(4)) == [[2, 2, 0]] * 4


BEGIN = """
import ctypes, os, signal, sys, threading, time
from chainrule.execute.native.runtime.pool import pool
from chainrule.machine_code.target import compile_object, host_target, load_objects
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


@pytest.mark.slow
@pytest.mark.sweep(4)
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


@pytest.mark.slow
def test_an_interrupt_reaches_python_after_the_run():
    text = "print('ready', flush=True)\nwhile True: run('linger')"
    with script(text) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
        assert said.endswith("KeyboardInterrupt\n")
