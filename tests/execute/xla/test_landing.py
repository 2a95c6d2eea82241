"""Large arguments on a CPU: JAX reads them where they are, or in memory that is used again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32
from chainrule.execute.aligned import block
from chainrule.execute.xla.code import given_of
from chainrule.execute.xla.landing import Landing, is_copied

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("jax_on_cpu")]
ROWS, WIDTH = 1 << 15, 64  # 8 MiB: calls of other threads come between the copy and the run


def at(offset: int, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros that begin so many bytes after a cache line."""
    nbytes = 4 * int(np.prod(shape))
    found = block(nbytes + offset)[offset:].view(np.float32).reshape(shape)
    found[...] = 0
    return found


LYING: dict[str, Callable[[], np.ndarray]] = {
    "in place": lambda: at(0, (ROWS, WIDTH)),
    "16 bytes on": lambda: at(16, (ROWS, WIDTH)),
    "4 bytes on": lambda: at(4, (ROWS, WIDTH)),
    "transposed": lambda: at(0, (WIDTH, ROWS)).T,
    "each second row": lambda: at(0, (2 * ROWS, WIDTH))[::2],
}


@pytest.mark.parametrize("lying", list(LYING))
def test_jax_copies_what_is_said_to_be_copied(lying: str, jax_on_cpu: Any) -> None:
    array = LYING[lying]()
    there = jax_on_cpu.device_put(array).unsafe_buffer_pointer()
    assert (there != array.ctypes.data) == is_copied(array)
    landing, given = landing_of(product())
    arrays: list[Any] = [given, array]
    landed = landing.land(arrays)
    assert (arrays[1] is not array) == bool(landed) == is_copied(array)
    assert not is_copied(arrays[1])


def carried(x: float32["n 64"], w: float32["64"], last: float32["n 64"]) -> Any:
    J = np.mean((x @ w - 1) ** 2) + 0 * np.mean(last)
    return J, {"last": x.reshape(last.shape)}


@pytest.mark.parametrize("lying", list(LYING))
def test_a_state_that_follows_the_batch_has_memory_of_its_own(lying: str) -> None:
    steps = [
        cr.training_step(carried, "w", cr.sgd(1e-4), state="last", executor=executor)
        for executor in ("xla", "reference")
    ]
    begin = {"w": np.zeros(WIDTH, np.float32), "last": np.zeros((ROWS, WIDTH), np.float32)}
    states = [step.init(begin) for step in steps]
    x = LYING[lying]()
    for number in range(1, 4):
        x[...] = number
        J, wanted = (step(state, x=x) for step, state in zip(steps, states, strict=True))
        np.testing.assert_allclose(J, wanted, rtol=1e-3)
    x[...] = 7
    assert np.all(states[0]["last"] == 3)
    np.testing.assert_allclose(states[0]["w"], states[1]["w"], rtol=1e-3)


def product() -> cr.Graph:
    def scaled(s: float32[()], x: float32[ROWS, WIDTH]):
        return s * x

    return cr.trace(scaled)


def landing_of(graph: cr.Graph) -> tuple[Landing, np.ndarray]:
    given = given_of([node for _, node in graph.outputs])
    return Landing(given), np.ones((), np.float32)


def test_memory_is_used_again_once_nothing_reads_it() -> None:
    landing, s = landing_of(product())
    first, second, third = ([s, at(16, (ROWS, WIDTH))] for _ in range(3))
    read = landing.land(first)  # a call that has not ended, or was interrupted
    landed = landing.land(second)
    assert first[1] is not second[1]
    landing.leave(landed)
    landing.land(third)
    assert third[1] is second[1]
    assert list(read) == [1] and first[0] is s  # a number is given as it is


def test_calls_of_several_threads_have_memory_each() -> None:
    compiled = product().compile(executor="xla")
    wrong: list[Any] = []

    def call(number: int) -> None:
        x = at(16, (ROWS, WIDTH))
        for turn in range(10):
            x[...] = number + 4 * turn
            found = compiled(s=np.float32(2), x=x)
            if not np.all(found == 2 * x[0, 0]):
                wrong.append((number, turn))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
