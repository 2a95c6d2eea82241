"""What programs that fork do in their processes and threads."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

import chainrule as cr

SECONDS = 20  # after which a child hangs
MOMENT = 0.3  # seconds that a thread takes for what a fork must wait for

RANDOM = np.random.default_rng(1)
W = RANDOM.normal(size=(120, 90)) / 10
X = RANDOM.normal(size=(200, 120))
Y = RANDOM.integers(0, 90, 200)


def loss(x: Any, y: Any, W: Any) -> Any:
    J = cr.cross_entropy(np.tanh(x @ W), y)
    return J


def begun() -> tuple[Any, Any]:
    """A training step, large enough for several threads, and its state."""
    step = cr.training_step(loss, "W", cr.sgd(0.1, momentum=0.9), executor="native", x=X, y=Y, W=W)
    return step, step.init(W=W)


def trained(steps: int = 5) -> np.ndarray:
    step, state = begun()
    for _ in range(steps):
        step(state, x=X, y=Y)
    return state["W"]


def let_blas_multiply() -> None:
    """All that it can, as where the processor has no AVX2."""
    os.environ["CHAINRULE_WITHOUT"] = "avx2"


def compile_and_run(number: int) -> None:
    """Compile a function (a number gives another one) and call it."""
    f = cr.compile(lambda x: np.sum(np.sin(x) ** number), executor="native")
    f(np.ones(number % 40 + 1))


def in_a_fork(work: Callable[[], None]) -> None:
    """Do the work in a child process; AssertionError if it fails or hangs."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(SECONDS)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the child ended with {status}"


@contextlib.contextmanager
def beside(work: Callable[[], None], threads: int = 1) -> Iterator[None]:
    """Do the work in other threads, again and again; what it raises is raised at the end."""
    stop, failed = threading.Event(), []

    def go_on() -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=go_on) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in running:
            thread.join()
    if failed:
        raise failed[0]


@contextlib.contextmanager
def held(lock: AbstractContextManager[Any]) -> Iterator[None]:
    """Another thread holds this for a moment, from here on."""
    entered = threading.Event()

    def hold() -> None:
        with lock:
            entered.set()
            time.sleep(MOMENT)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    try:
        yield
    finally:
        thread.join()
