"""Native code in several threads, and in processes that were forked or spawned after it ran."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forking_programs
import numpy as np
import pytest

import chainrule as cr

RANDOM = np.random.default_rng(1)
W = RANDOM.normal(size=(120, 90)) / 10
X = RANDOM.normal(size=(200, 120))
Y = RANDOM.integers(0, 90, 200)
SECONDS = 60  # after which a child hangs


def loss(x: Any, y: Any, W: Any) -> Any:
    J = cr.cross_entropy(np.tanh(x @ W), y)
    return J


def trained(executor: str = "native", steps: int = 5) -> np.ndarray:
    """W after some steps, with products and nests large enough for several threads."""
    step = cr.training_step(loss, "W", cr.sgd(0.1, momentum=0.9), executor=executor, x=X, y=Y, W=W)
    state = step.init(W=W)
    for _ in range(steps):
        step(state, x=X, y=Y)
    return state["W"]


def child(connection: Any) -> None:
    connection.send(trained())
    connection.send(cr.grad(loss, wrt="W", executor="native")(X, Y, W))
    connection.close()


@pytest.mark.sweep(2)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_trains_after_its_parent_did(method: str):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    wanted = trained()
    np.testing.assert_allclose(wanted, trained("reference"), rtol=1e-9, atol=1e-12)
    gradient = cr.grad(loss, wrt="W", executor="native")(X, Y, W)
    context: Any = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    try:
        for expected in (wanted, gradient):
            assert ours.poll(SECONDS), "the child hangs"
            np.testing.assert_array_equal(ours.recv(), expected)
        process.join(SECONDS)
        assert process.exitcode == 0
    finally:
        process.kill()
    np.testing.assert_array_equal(trained(), wanted)  # the parent goes on


@pytest.mark.slow
@pytest.mark.sweep(14)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("program", [program.__name__ for program in forking_programs.PROGRAMS])
def test_a_forked_child_goes_on(program: str, tmp_path: Path):
    """In a Python of its own, which is killed with all its children if it hangs."""
    said = tmp_path / "said"  # no pipe: a child that was left over would keep it open
    with open(said, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, forking_programs.__file__, program],
            env={**os.environ, "CHAINRULE_CACHE": "0"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        status = process.wait(2 * SECONDS)
    except subprocess.TimeoutExpired:
        status = "hangs"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert status == 0, f"{status}\n{said.read_text(errors='replace')}"


def in_threads(count: int, work: Callable[[int], None]) -> None:
    failed: list[BaseException] = []

    def guarded(who: int) -> None:
        try:
            work(who)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(who,)) for who in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


def test_threads_call_one_compiled_function():
    f = cr.compile(lambda x, c: (np.tanh(x @ W) * c, np.sum(x, axis=0)), executor="native")

    def work(who: int) -> None:
        random = np.random.default_rng(who)
        for _ in range(60):
            x = random.normal(size=(int(random.integers(1, 4)) * 20, 120))
            c = float(random.normal())
            got, total = f(x, c)
            np.testing.assert_allclose(got, np.tanh(x @ W) * c, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(total, np.sum(x, axis=0), rtol=1e-10, atol=1e-10)

    in_threads(3, work)


def test_threads_call_one_function_of_arrays_and_small_results():
    f = cr.compile(lambda x, y: (x * y, np.sum(x) - y), executor="native")

    def work(who: int) -> None:
        for k in range(3000):
            x = np.full(3, float(who))
            y = np.full(3, float(k))
            got, other = f(x, y)
            assert got.tolist() == [who * k] * 3 and other.tolist() == [3 * who - k] * 3

    in_threads(2, work)


def test_threads_trace_compile_and_differentiate_at_once():
    def work(who: int) -> None:
        for k in range(1, 12):
            x = np.linspace(0, 1, k + who)
            got = cr.grad(lambda x, k=k: np.sum(np.sin(x * k)), executor="native")(x)
            np.testing.assert_allclose(got, k * np.cos(k * x), rtol=1e-11, atol=1e-12)

    in_threads(3, work)


@pytest.mark.exhaustive
def test_threads_train_for_long_and_agree_to_the_bit():
    wanted = trained(steps=150)

    def work(who: int) -> None:
        for _ in range(3):
            np.testing.assert_array_equal(trained(steps=150), wanted)

    in_threads(3, work)
