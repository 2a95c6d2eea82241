"""What a call copies of its arguments is in the prediction, and in the refusal."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from array_layouts import backwards, repeated, unaligned, with_gaps
from executors import EITHER, needs_native
from small_machine import having

import chainrule as cr
from chainrule import float32
from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute.arguments import bound_to

N, D = 64, 48
NBYTES = 4 * N * D


def energy(x: float32["n 48"], w: float32):
    J = np.sum(np.tanh(x) * x) * w
    return J


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What makes a machine with so many bytes free."""
    return partial(having, monkeypatch)


def plain() -> np.ndarray:
    return np.ones((N, D), np.float32)


LAYOUTS = {
    "in Fortran order": np.asfortranarray,
    "with gaps": with_gaps,
    "backwards": backwards,
    "repeated": repeated,
    "at an odd address": unaligned,
}
EVERY = pytest.mark.parametrize("name", LAYOUTS)


def calls(executor: str) -> dict[str, Any]:
    """Ways to call it."""
    graph = cr.trace(energy)
    compiled = graph.compile(executor=executor)
    step = cr.training_step(energy, "w", cr.sgd(0.1), executor=executor)
    w = np.float32(1)
    return {
        "run": lambda x: graph.run(x=x, w=w, executor=executor, keep="outputs"),
        "compiled graph": lambda x: compiled(x=x, w=w),
        "compile": lambda x: cr.compile(energy, executor=executor)(x, w),
        "grad": lambda x: cr.grad(energy, wrt="w", executor=executor)(x, w),
        "step": lambda x: step(step.init(w=w), x=x),
    }


NAMED = ("run", "compiled graph", "step")  # whose sizes have names
WAYS = (*NAMED, "compile", "grad")


@needs_native
@EVERY
def test_a_report_counts_the_copy_that_compiled_code_needs(name: str) -> None:
    graph, x = cr.trace(energy), LAYOUTS[name](plain())
    least = graph.memory(n=N, executor="native")
    report = graph.memory(n=N, layout={"x": x}, executor="native")
    assert report.main.peak_nbytes == least.main.peak_nbytes + NBYTES
    assert report.main.parts["inputs"] == least.main.parts["inputs"] + NBYTES
    assert sum(report.main.parts.values()) == report.main.peak_nbytes
    assert graph.memory(n=N, layout={"x": plain()}, executor="native").main.peak_nbytes == (
        least.main.peak_nbytes
    )


@pytest.mark.sweep(5)
@needs_native
@EVERY
@pytest.mark.parametrize("way", WAYS)
def test_a_copy_that_does_not_fit_is_refused(name: str, way: str, machine: Any) -> None:
    call, x = calls("native")[way], LAYOUTS[name](plain())
    call(x)
    machine(NBYTES - 1)
    with pytest.raises(MemoryLimitError) as caught:
        call(x)
    assert caught.value.needed_nbytes >= NBYTES
    assert ("is the largest that fits" in str(caught.value)) == (way in NAMED)
    call(plain())  # which needs no copy


@needs_native
@pytest.mark.parametrize("way", NAMED)
def test_the_size_that_is_said_to_fit_does(way: str, machine: Any) -> None:
    call = calls("native")[way]
    x = np.broadcast_to(np.float32(1), (N, D))
    call(x)
    machine(NBYTES // 2 + 400)
    with pytest.raises(MemoryLimitError) as caught:
        call(x)
    size = int(str(caught.value).split("try: n = ")[1].split()[0])
    assert N // 4 < size < N
    call(x[:size])


@pytest.mark.sweep(5)
@EITHER
@pytest.mark.parametrize("way", WAYS)
def test_an_argument_broadcast_to_many_terabytes_is_refused(executor: str, way: str) -> None:
    x = np.broadcast_to(np.float32(1), (1 << 40, D))
    with pytest.raises(MemoryLimitError, match="beside its arguments"):
        calls(executor)[way](x)


@EITHER
def test_a_parameter_broadcast_to_many_terabytes_is_refused(executor: str) -> None:
    step = cr.training_step(energy, "x", cr.sgd(0.1), executor=executor)
    with pytest.raises(MemoryLimitError, match="the state of a training"):
        step.init(x=np.broadcast_to(np.float32(1), (1 << 40, D)))


@needs_native
def test_kept_arguments_are_copied_when_copies_for_code_are_gone(machine: Any) -> None:
    graph = cr.trace(energy)
    x, w = LAYOUTS["in Fortran order"](plain()), np.float32(1)
    arena = graph.memory(n=N, executor="native", layout={"x": x}).main.usage.scratch_nbytes
    assert arena is not None
    graph.run(x=x, w=w, executor="native", keep="named")
    machine(NBYTES + arena + 100)
    assert graph.run(x=x, w=w, executor="native", keep="named")["x"].shape == (N, D)
    machine(NBYTES - 1)
    with pytest.raises(MemoryLimitError):
        graph.run(x=plain(), w=w, executor="native", keep="named")


def test_layouts_that_make_no_sense_are_refused() -> None:
    graph = cr.trace(energy)
    with pytest.raises(InputError, match="how y lies, which is no array that a call is given"):
        graph.memory(layout={"y": "F"})
    with pytest.raises(InputError, match="an array of 2 axes, lies as 'K'"):
        graph.memory(layout={"x": "K"})
    with pytest.raises(InputError, match="lies as"):
        graph.memory(layout={"x": np.ones(3)})
    step = cr.training_step(energy, "w", cr.sgd(0.1), executor="reference")
    with pytest.raises(InputError, match="how w lies"):
        step.memory(n=3, layout={"w": "F"})


def test_containers_are_told_whole() -> None:
    def objective(params: Any, x: Any) -> Any:
        return np.sum(params["a"] @ x) + np.sum(params["b"])

    params = {"a": np.ones((4, 6)), "b": np.ones((5, 3))}
    graph = cr.trace(objective, params=params, x=np.ones((6, 2)))
    turned = {"a": np.ones((6, 4)).T, "b": np.ones((5, 3))}
    nbytes = [
        graph.memory(layout=layout, executor="native").main.peak_nbytes
        for layout in (None, {"params": turned}, {"params": "F"}, "F")
    ]
    assert np.diff(nbytes).tolist() == [8 * 4 * 6, 8 * 5 * 3, 8 * 6 * 2]


def test_the_line_of_an_argument_is_looked_up_for_a_message_only(monkeypatch):
    graph = cr.trace(lambda x, y: x + y, x=cr.float32["n"], y=cr.float32["n"])
    given = {"x": np.zeros(3, np.float32), "y": np.zeros(3, np.float32)}
    sought = []
    monkeypatch.setattr(type(graph.input("x").node.origin), "describe", sought.append)
    bound_to(graph, given)
    assert not sought
