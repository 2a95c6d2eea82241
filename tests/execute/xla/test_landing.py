"""Large arguments on a CPU: JAX reads them where they are, or in memory that is used again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32
from chainrule.errors import MemoryLimitError
from chainrule.execute import free_memory
from chainrule.execute.aligned import block
from chainrule.execute.free_memory import FreeMemory
from chainrule.execute.xla import calls, landing, memory
from chainrule.execute.xla.code import given_of
from chainrule.execute.xla.landing import MANY, MOST, Landing, Spare, is_copied, leave
from chainrule.execute.xla.xla_executor import XLA

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
    made, given = landing_of(product())
    arrays: list[Any] = [given, array]
    landed = made.land(arrays)
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
    return Landing(given_of([node for _, node in graph.outputs])), np.ones((), np.float32)


def test_memory_is_used_again_once_nothing_reads_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(landing, "spare", Spare())
    made, s = landing_of(product())
    first, second, third = ([s, at(16, (ROWS, WIDTH))] for _ in range(3))
    kept = made.land(first)  # a call that has not ended, or was interrupted
    leave(made.land(second))
    assert not np.shares_memory(first[1], second[1])
    made.land(third)
    assert np.shares_memory(third[1], second[1])
    assert len(kept) == 1 and first[0] is s  # a number is given as it is


def test_no_more_is_kept_than_is_said() -> None:
    spare = Spare()
    for number in (0, 1, 0, 2, 1, 3, 4, 1):
        spare.give(np.empty(MOST // 5 + number, np.uint8))
        kept = [one.nbytes for one in spare.blocks.values()]
        assert spare.nbytes == sum(kept) <= MOST
    assert [one - MOST // 5 for one in kept] == [1, 3, 4, 1]
    assert spare.take(MOST // 5 + 1).nbytes == MOST // 5 + 1
    assert spare.nbytes == sum(kept) - MOST // 5 - 1
    spare.give(np.empty(MOST + 1, np.uint8))
    assert not spare.blocks and not spare.nbytes
    for number in range(1, 2 * MANY):
        spare.give(np.empty(number, np.uint8))
    assert [one.nbytes for one in spare.blocks.values()] == [*range(MANY, 2 * MANY)]


def test_what_is_kept_is_given_up_before_a_run_is_refused(monkeypatch: Any) -> None:
    compiled = cr.compile(lambda x: np.sum(x * x, axis=1), executor="xla")
    x = at(16, (ROWS, WIDTH))
    monkeypatch.setattr(landing, "spare", kept := Spare())
    monkeypatch.setattr(memory, "spare", kept)
    limit = 3 * x.nbytes

    def free() -> FreeMemory:
        taken = kept.nbytes  # by what is kept; the other arrays are not counted
        return FreeMemory(limit - taken, "pretended")

    monkeypatch.setattr(free_memory, "free_memory", free)
    monkeypatch.setattr(free_memory, "WORTH_CHECKING", 0)
    for rows in range(ROWS, ROWS - 6, -1):  # each of another size
        compiled(x[:rows])
    assert 0 < kept.nbytes <= limit
    with pytest.raises(MemoryLimitError):
        limit = x.nbytes // 2
        compiled(x[: ROWS - 6])
    assert not kept.blocks
    compiled(at(0, (ROWS - 7, WIDTH)))  # read in place


def test_a_step_is_waited_for_that_gives_no_number() -> None:
    def following(w: float32[()], x: float32["n 64"], last: float32["n 64"]) -> Any:
        for _ in range(60):
            x = np.tanh(x) * np.float32(1.0001)
        return w, {"last": x}

    step = cr.training_step(following, "w", cr.sgd(1e-4), state="last", executor="xla")
    state = step.init({"w": np.float32(1), "last": np.zeros((ROWS, WIDTH), np.float32)})
    x = at(0, (ROWS, WIDTH))
    for _ in range(3):
        x[...] = 1
        step(state, x=x)
        x[...] = 0  # it is the caller's again
        assert len(np.unique(state["last"])) == 1 and state["last"][0, 0] > 0.1


@pytest.mark.parametrize("offset", [0, 16])
def test_a_copy_on_the_device_is_one(offset: int, jax_on_cpu: Any) -> None:
    x = at(offset, (ROWS, WIDTH))
    graph = product()
    program = XLA.prepare(graph, [node for _, node in graph.outputs], {})
    there = program.sent(graph.inputs[1].node, x)
    x[...] = 1
    assert not np.any(np.asarray(there))
    place = there.unsafe_buffer_pointer()
    after = jax_on_cpu.jit(lambda a: a + 1, donate_argnums=0)(there)
    assert after.unsafe_buffer_pointer() == place  # it can be overwritten


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_step_that_is_interrupted_while_it_is_waited_for_counts(
    times: int, monkeypatch: Any
) -> None:
    def counted(x: float32["n 64"], w: float32["64"], c: float32[()]) -> Any:
        return np.mean((x @ w - 1) ** 2), {"c": c + x[0, 0]}

    step = cr.training_step(counted, "w", cr.sgd(0.0), state="c", executor="xla")
    state = step.init({"w": np.ones(64, np.float32), "c": np.float32(0)})
    x = np.ones((4096, 64), np.float32)
    step(state, x=x)
    step(state, x=x)
    left = [times]

    def interrupted(value: Any) -> np.ndarray:
        if left[0]:
            left[0] -= 1
            raise KeyboardInterrupt
        return np.asarray(value)

    monkeypatch.setattr(calls, "asarray", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(state, x=x)
    assert state.steps == 3 and state["c"] == 3
    step(state, x=x)
    assert state.steps == 4 and state["c"] == 4


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
