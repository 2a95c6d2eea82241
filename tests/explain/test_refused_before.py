"""What is refused for want of memory is refused before any of it is allocated, and needs what the
refusal says, whatever makes it large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from executors import WITHIN
from measured_memory import peaks_of
from small_machine import having

import chainrule as cr
from chainrule.errors import MemoryLimitError
from chainrule.schedule.records import ALIGNMENT

LENGTH = 96
V = np.linspace(0.1, 1, LENGTH, dtype=np.float32)
LABELS = np.arange(LENGTH) % 7
HALF = V.astype(np.float16)
MATRIX = np.eye(LENGTH, dtype=np.float32) * 2
REPEATED = np.broadcast_to(np.float32(1), (LENGTH, 3 * LENGTH))


class Way(NamedTuple):
    """A function of one array whose result, or a value on the way, is large beside it."""

    function: Callable[[Any], Any]
    given: np.ndarray = V


def steps(h: Any, _: Any) -> Any:
    h = np.sin(h)
    return h, h


def large_step(h: Any, row: Any) -> Any:
    h = np.cumsum(np.outer(h, h), axis=0)[-1] * row
    return h, np.sum(h)


def either(x: Any) -> Any:
    def one(x: Any) -> Any:
        return np.outer(x, x)[:2]

    def other(x: Any) -> Any:
        return np.sort(np.outer(x, x), axis=0)[:2]

    return cr.cond(x[0] > 0, other, one, x)


SMALL = 1 << 10  # bytes: numbers that a program holds
PAGE = 4096  # with which large results, and scratch memory, of compiled code begin
ADDED = 4 * ALIGNMENT + 2 * PAGE  # to what is said, so that blocks are aligned
STATE = 64  # bytes of that of a training, which is there before
WAYS = {
    "an argument that is repeated": Way(lambda x: np.tanh(x) + x.T[:, :1].T, REPEATED),
    "a sorted argument that is repeated": Way(lambda x: np.sort(x, axis=0), REPEATED),
    "broadcast_to": Way(lambda x: np.sort(np.broadcast_to(x, (300, LENGTH)), axis=0)),
    "outer": Way(lambda x: np.outer(x, x)),
    "a large value on the way": Way(lambda x: np.cumsum(np.outer(x, x), axis=0)[-1]),
    "one_hot": Way(lambda i: cr.one_hot(i, 500) + 1, LABELS),
    "repeat": Way(lambda x: np.repeat(x, 100)),
    "tile": Way(lambda x: np.tile(x, (100, 1))),
    "pad": Way(lambda x: np.pad(x, (0, 9000))),
    "einsum": Way(lambda x: np.einsum("i,j,k->kij", x, x, x[:5])),
    "a path of einsum": Way(lambda x: np.einsum("i,j,jk->ik", x, x, np.outer(x, x).T)),
    "kron": Way(lambda x: np.kron(x, x)),
    "concatenate": Way(lambda x: np.concatenate([np.broadcast_to(x, (80, LENGTH))] * 2)),
    "pairs": Way(lambda x: np.abs(x[:, None] - x[None, :])),
    "where": Way(lambda x: np.where(x[:, None] > 0.5, x[None, :], 0)),
    "diag": Way(lambda x: np.diag(x)),
    "meshgrid": Way(lambda x: np.meshgrid(x, x)[0] + 1),
    "taken": Way(lambda x: np.take(np.outer(x, x), [0, 1, 2], axis=1)),
    "vmap": Way(lambda x: cr.vmap(lambda row: np.outer(row, row))(np.reshape(x, (6, 16)))),
    "values of a loop": Way(lambda x: cr.scan(steps, x, length=200)[1]),
    "a step of a loop": Way(lambda x: cr.scan(large_step, x, x[:3])[1]),
    "a branch": Way(either),
    "float16": Way(lambda x: np.exp(np.outer(x, x)), HALF),
    "a small result of a large operation": Way(lambda x: np.linalg.det(x), MATRIX),
    "a Jacobian inside": Way(lambda x: cr.jacobian(np.sin)(x)),
}
LOOPS = ("values of a loop", "a step of a loop")

pytestmark = pytest.mark.usefixtures("only_what_numpy_sees")


def total(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: np.sum(np.sin(function(x)))


def calls_of(way: Way, executor: str) -> dict[str, Callable[[], Callable[[], Any]]]:
    """What makes ready each way to call it."""
    x, function = way.given, way.function
    graph = cr.trace(function, x)
    (name,) = [item.name for item in graph.inputs]

    def run(graph: cr.Graph) -> Callable[[], Any]:
        return lambda: graph.run({name: x}, keep="outputs", executor=executor)

    def compiled_graph() -> Callable[[], Any]:
        compiled = graph.compile(executor=executor)
        return lambda: compiled({name: x})

    def compiled_function() -> Callable[[], Any]:
        compiled = cr.compile(function, executor=executor)
        return lambda: compiled(x)

    found = {"run": lambda: run(graph), "graph": compiled_graph, "function": compiled_function}
    if x.dtype.kind == "f":
        gradient = cr.backward(cr.trace(total(function), x), wrt=name)
        found["gradient"] = lambda: run(gradient)
        one = np.float32(1)
        step = cr.training_step(
            lambda x, w: total(function)(x * w), "w", cr.sgd(0.1), executor=executor, x=x, w=one
        )

        def stepping() -> Callable[[], Any]:
            state = step.init(w=one)
            return lambda: step(state, x=x)

        found["step"] = stepping
    return found


@pytest.mark.sweep(17)
@WITHIN
@pytest.mark.parametrize("name", WAYS)
def test_a_refusal_comes_first_and_says_what_is_needed(
    name: str, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for how, prepare in calls_of(WAYS[name], executor).items():
        (taken,) = peaks_of(prepare, 1)
        needed = []

        def refused(prepare: Any = prepare, needed: list[int] = needed) -> Callable[[], None]:
            call = prepare()

            def is_refused() -> None:
                with pytest.raises(MemoryLimitError) as caught:
                    call()
                needed.append(caught.value.needed_nbytes)

            return is_refused

        with monkeypatch.context() as patched:
            having(patched, max(taken - ADDED - 1, STATE))  # just too little
            (before,) = peaks_of(refused, 1)
        assert before < SMALL, (how, before)
        assert 0 <= taken - needed[0] <= ADDED, (how, taken, needed)
