"""Programs that fork, each for a Python of its own: `python forking_programs.py late_imports`.

A child that hangs is killed by an alarm, and writes first where it stands.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from forking import (
    MOMENT,
    SECONDS,
    W,
    X,
    Y,
    begun,
    beside,
    compile_and_run,
    held,
    in_a_fork,
    let_blas_multiply,
    loss,
    trained,
)

import chainrule as cr
from chainrule.errors import StateError


def child_of_a_child() -> None:
    wanted = trained()

    def work() -> None:
        np.testing.assert_array_equal(trained(), wanted)
        compile_and_run(os.getpid() % 97)

    def work_and_fork() -> None:
        work()
        in_a_fork(work)

    for _ in range(5):
        in_a_fork(work_and_fork)
    work()


def beside_threads_that_compile_and_run() -> None:
    wanted = trained()
    numbers = iter(range(10**9))

    def in_threads() -> None:
        compile_and_run(next(numbers))
        trained(steps=1)

    def in_child() -> None:
        np.testing.assert_array_equal(trained(), wanted)
        compile_and_run(77)

    with beside(in_threads, threads=2):
        for _ in range(8):
            in_a_fork(in_child)


def beside_a_thread_that_trains() -> None:
    let_blas_multiply()
    wanted = trained()
    step, state = begun()
    with beside(lambda: step(state, x=X, y=Y)):
        for _ in range(8):
            in_a_fork(lambda: np.testing.assert_array_equal(trained(steps=5), wanted))


def beside_the_first_use() -> None:
    importlib.import_module("chainrule.execute.native")
    with beside(lambda: compile_and_run(2)):
        for _ in range(4):
            in_a_fork(lambda: compile_and_run(3))


def only_who_makes_code_is_in_llvm() -> None:
    """Whose lock a fork cannot hold, and the threads that work for it."""
    import llvmlite.binding.ffi

    from chainrule.execute.native.runtime import machine
    from chainrule.machine_code import forks

    def enter() -> None:
        is_owned = forks.making._is_owned()  # type: ignore[attr-defined]
        if not is_owned and forks.making.acquire(blocking=False):  # nobody had it
            forks.making.release()
            outside.append("".join(traceback.format_stack()))

    outside, entered = [], []
    llvmlite.binding.ffi.register_lock_callback(enter, lambda: entered.append(1))
    os.environ["CHAINRULE_NUM_THREADS"] = "2"
    trained()
    for number in range(3):
        compile_and_run(number)
        machine._machines.clear()  # nobody references the code any more
        gc.collect()
    assert entered and not outside, outside[0]


def beside_a_thread_that_makes_code() -> None:
    from chainrule.machine_code.forks import making

    compile_and_run(2)
    with held(making):
        in_a_fork(lambda: compile_and_run(3))


def beside_a_thread_that_multiplies() -> None:
    from chainrule.execute.native.runtime import machine
    from chainrule.machine_code import forks

    let_blas_multiply()
    wanted = trained()
    inside, ended = threading.Event(), threading.Event()

    class Slow(set[int]):
        def add(self, thread: int) -> None:
            super().add(thread)
            if threading.current_thread() is not threading.main_thread() and not ended.is_set():
                inside.set()
                time.sleep(MOMENT)
                ended.set()

    forks.multiplying = machine.multiplying = Slow()
    thread = threading.Thread(target=trained, args=(1,))
    thread.start()
    assert inside.wait(SECONDS), "BLAS is not used"

    def work() -> None:
        assert ended.is_set(), "it was forked meanwhile"
        np.testing.assert_array_equal(trained(), wanted)

    in_a_fork(work)
    thread.join()
    assert not forks.multiplying


def a_product_waits_for_a_fork() -> None:
    from chainrule.machine_code import forks

    let_blas_multiply()
    step, state = begun()
    step(state, x=X, y=Y)
    forks._before()
    thread = threading.Thread(target=step, args=(state,), kwargs={"x": X, "y": Y})
    thread.start()
    thread.join(MOMENT)
    assert thread.is_alive() and not forks.multiplying
    step(begun()[1], x=X, y=Y)  # the forking thread itself does not wait
    forks._after()
    thread.join(SECONDS)
    assert not thread.is_alive() and state.steps == 2


def beside_a_product_that_makes_code_between_its_parts() -> None:
    """The fork holds what makes code, and waits for products: they must not wait for it."""
    let_blas_multiply()
    between = threading.Event()

    def slow(x: Any) -> Any:
        between.set()
        time.sleep(MOMENT)
        compile_and_run(5)
        return x

    same = cr.primitive(slow, name="same")
    twice = cr.compile(lambda x: same(x @ x) @ x, executor="native")
    thread = threading.Thread(target=twice, args=(np.ones((40, 40)),))
    thread.start()
    assert between.wait(SECONDS)
    in_a_fork(lambda: compile_and_run(3))
    thread.join()


def beside_a_thread_that_imports() -> None:
    late = "chainrule.execute.native.runtime.quick"
    importlib.import_module("chainrule.machine_code.forks")
    assert late not in sys.modules
    finding = threading.Event()

    class Slow:
        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            if name == late:
                finding.set()
                time.sleep(MOMENT)

    sys.meta_path.insert(0, Slow)
    thread = threading.Thread(target=importlib.import_module, args=(late,))
    thread.start()
    finding.wait()
    in_a_fork(lambda: compile_and_run(3))
    thread.join()


def late_imports() -> None:
    from chainrule.machine_code import forks

    for name in forks.LATE:
        importlib.import_module(name)
    before = set(sys.modules)
    step, state = begun()
    print(step.plan(), step, step(state, x=X, y=Y), step.run(state, x=X, y=Y)["J"])
    compile_and_run(2)
    cr.compile(lambda x: x @ x, executor="native")(np.ones((3, 3)))
    cr.trace(loss, x=X, y=Y, W=W).run(x=X, y=Y, W=W, executor="native")
    new = [
        name
        for name in set(sys.modules) - before
        if name.startswith(("chainrule", "llvmlite", "numpy"))
    ]
    assert not new, new


def beside_a_step_of_a_state() -> None:
    step, state = begun()
    other = begun()[1]

    def refused(call: Callable[[], Any]) -> None:
        try:
            call()
        except StateError as error:
            assert "forked while another thread was taking a step" in str(error), error
        else:
            raise AssertionError("it was not refused")

    def work() -> None:
        for call in (
            lambda: state["W"],
            lambda: state.parameters,
            lambda: state.arrays,
            lambda: step(state, x=X, y=Y),
            lambda: step.run(state, x=X, y=Y),
        ):
            refused(call)
        step(other, x=X, y=Y)
        assert np.any(other["W"] != W)

    def work_and_fork() -> None:
        work()
        in_a_fork(work)

    with held(state.updating):
        state.is_stepping = True
        in_a_fork(work_and_fork)
        state.is_stepping = False
    step(state, x=X, y=Y)  # the parent goes on


def beside_a_thread_that_reads_a_state() -> None:
    step, state = begun()

    def work() -> None:
        np.testing.assert_array_equal(state["W"], W)
        step(state, x=X, y=Y)
        assert np.any(state["W"] != W)

    with held(state.updating):
        in_a_fork(work)


def within_a_step_of_the_same_thread() -> None:
    step, state = begun()

    def handler() -> None:
        np.testing.assert_array_equal(state["W"], W)
        assert state.is_stepping

    with state.updating:  # as when the handler of a signal forks in a step
        state.is_stepping = True
        in_a_fork(handler)
        child = os.fork()
        state.is_stepping = False
    if child == 0:
        signal.alarm(SECONDS)
    step(state, x=X, y=Y)
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


PROGRAMS = (
    child_of_a_child,
    beside_threads_that_compile_and_run,
    beside_a_thread_that_trains,
    beside_the_first_use,
    only_who_makes_code_is_in_llvm,
    beside_a_thread_that_makes_code,
    beside_a_thread_that_multiplies,
    a_product_waits_for_a_fork,
    beside_a_product_that_makes_code_between_its_parts,
    beside_a_thread_that_imports,
    late_imports,
    beside_a_step_of_a_state,
    beside_a_thread_that_reads_a_state,
    within_a_step_of_the_same_thread,
)

if __name__ == "__main__":
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
    {program.__name__: program for program in PROGRAMS}[sys.argv[1]]()
