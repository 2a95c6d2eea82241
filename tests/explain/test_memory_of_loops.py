"""Memory reports of loops: why a value is kept, in the user's words, and bytes that are true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy_memory import peak_and_result

import chainrule as cr
from chainrule import float64
from chainrule.explain.memory.blocks import block_of
from chainrule.explain.memory.kinds import Kind
from chainrule.explain.report.data import report_data
from chainrule.graph.bytes_text import in_bytes


def recurrent(x: float64["t d"], W: float64["d d"], h0: float64["d"]):
    def cell(h, x_t):
        h = np.tanh(h @ W + x_t)
        return h, h

    _, hs = cr.scan(cell, h0, x)
    J = np.sum(hs**2)
    return J


def decaying(x: float64["t d"], W: float64["d"]):
    def cell(s, x_t):
        s = W * s + x_t
        return s, None

    s, _ = cr.scan(cell, x[0] * 0, x)
    J = np.sum(s**2)
    return J


def counted(x: float64["d"], W: float64["d d"]):
    def turn(i, v):
        return np.sin(W @ v)

    J = np.sum(cr.fori_loop(0, 8, turn, x))
    return J


def choosing(x: float64["t d"], W: float64["d"]):
    def cell(h, x_t):
        return cr.cond(np.sum(x_t) > 0, lambda h: np.exp(h * W), lambda h: h, h), None

    J = np.sum(cr.scan(cell, W, x)[0])
    return J


def stacked(x: float64["t d"], W: float64["d d"]):
    def low(h, x_t):
        h = np.tanh(h @ W + x_t)
        return h, h

    def high(s, h_t):
        s = s + h_t * np.sin(s)
        return s, s

    _, hs = cr.scan(low, W[0], x)
    _, ss = cr.scan(high, W[1], hs)
    J = np.sum(ss)
    return J


def bounded(W: float64["d"]):
    def newton(x):
        return (x + W / x) / 2

    r = cr.while_loop(lambda x: np.max(np.abs(x * x - W)) > 1e-9, newton, W, max_steps=40)
    J = np.sum(r)
    return J


# The program, and for some of its values what needs them last.
BACK = "the backward pass of the loop over {} needs it"
FORTH = "the loop over {} needs it"
PROGRAMS: list[tuple[Any, dict[str, str]]] = [
    (
        recurrent,
        {
            "hs": BACK.format("cell"),  # each step reads the state it began with
            "x": FORTH.format("cell"),  # what became of it is kept
            "h0": BACK.format("cell"),  # copied in front of hs
            "dJ/dhs": BACK.format("cell"),
        },
    ),
    (
        decaying,
        {
            "x": FORTH.format("cell"),
            "W": BACK.format("cell"),
            "s": "its memory is kept longer: "
            + BACK.format("cell").replace("needs it", "reads other"),
        },
    ),
    (counted, {"x": FORTH.format("turn"), "W": BACK.format("turn")}),
    (choosing, {"x": FORTH.format("cell"), "W": BACK.format("cell")}),
    (
        stacked,
        {
            "hs": BACK.format("low"),
            "ss": BACK.format("high"),
            "x": FORTH.format("low"),
        },
    ),
    (bounded, {"W": BACK.format("newton"), "r": "J = sum(r)"}),
]


@pytest.mark.parametrize(
    ("program", "reasons"), PROGRAMS, ids=lambda one: getattr(one, "__name__", "")
)
def test_the_reason_names_the_users_loop_and_the_pass(
    program: Any, reasons: dict[str, str]
) -> None:
    graph = cr.backward(cr.trace(program), wrt="W")
    sizes: dict[str, Any] = {name: {"t": 50, "d": 10}[name] for name in graph.sizes}
    report = graph.memory(**sizes)
    for name, reason in reasons.items():
        assert reason in report.why(name)
        assert "test_memory_of_loops.py:" in report.why(name)
    text = str(report)
    assert "scan(" not in text and "unwind(" not in text and "while_(" not in text
    for name in graph.names:
        assert not report.why(name).rstrip().endswith(":")  # a reason is given


def test_each_view_of_one_buffer_has_its_own_reason() -> None:
    """The states and the last of them lie in one buffer, and so do the gradients of parameters."""

    def J(xs: float64["8 6 5"], W: float64["5 7"], U: float64["7 7"], b: float64["7"], V: Any):
        def cell(s, x):
            s = np.tanh(x @ W + s @ U + b)
            return s, s

        last, states = cr.scan(cell, np.zeros((6, 7)), xs)  # noqa: RUF059
        loss = np.mean((last @ V) ** 2)
        return loss

    params = {"W": np.ones((5, 7)), "U": np.ones((7, 7)), "b": np.ones(7), "V": np.ones((7, 3))}
    step = cr.training_step(J, tuple(params), cr.sgd(0.1), xs=np.ones((8, 6, 5)), **params)
    values, ids = step.memory().values, set(params)
    shared = {values[f"dloss/d{name}"].view_of for name in ids - {"V"}}
    assert shared == {"the backward pass of the loop over cell"}
    back = "the backward pass of the loop over cell needs it"
    reads_last = "dloss/dV = lastᵀ · "
    assert back in values["states"].kept_because.split(", and its memory is kept longer")[0]
    assert reads_last in values["last"].kept_because and back not in values["last"].kept_because
    for name in ids - {"V"}:
        own, *_ = values[f"dloss/d{name}"].kept_because.split(", and its memory")
        assert f"{name}_next" in own
    assert sum("kept longer" in values[f"dloss/d{name}"].kept_because for name in ids - {"V"}) == 2
    data = report_data(step, {"xs": np.ones((8, 6, 5)), **params})
    page = {one["name"]: one for one in data["values"]}
    for name in ("last", "states", "dloss/dW", "dloss/db"):
        assert page[name]["kept_because"] == values[name].kept_because
    life = page["states"]["life"]
    assert not life["to_end"] and life["longer"] == list(page).index("last")
    assert page["last"]["life"]["to_end"]


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_bytes_of_a_bounded_loop_are_those_it_takes(order: int) -> None:
    def J(x: Any, W: Any) -> Any:
        def step(s: Any) -> Any:
            return s[0] + 1, np.tanh(W @ s[1]), s[2] * 0.5

        r = cr.while_loop(lambda s: s[0] < 10, step, (0, x, x * 1.0), max_steps=30)
        return np.sum(r[1]) + np.sum(r[2])

    def slope(x: Any, W: Any) -> Any:
        return np.sum(cr.grad(J)(x, W) ** 2)

    function = {0: J, 1: cr.grad(J), 2: cr.grad(slope)}[order]
    x, W = np.linspace(0, 1, 100), np.eye(100) / 2
    graph = cr.trace(lambda x, W: function(x, W), x, W)
    predicted = graph.memory(executor="reference").main.peak_nbytes - x.nbytes - W.nbytes
    for _ in range(3):
        peak, _ = peak_and_result(lambda: graph.run(x=x, W=W, keep="outputs"))
        assert peak == predicted


def gated(x: float64["n t d"], W: float64["d d"], v: float64["d q"]):
    def cell(h, x_t):
        z = cr.sigmoid(x_t + h @ W)
        return (1 - z) * h + z * np.tanh(x_t + (z * h) @ W), None

    h, _ = cr.scan(cell, np.zeros_like(x, shape=(x.shape[0], x.shape[2])), np.swapaxes(x, 0, 1))
    hidden = np.maximum(h @ v + 1, 0)
    J = np.sum(hidden**2)
    return J


def test_what_lies_in_the_result_of_a_loop_is_told() -> None:
    """One array has the final state and what is kept of the iterations; its parts add up."""
    graph = cr.backward(cr.trace(gated), wrt=("W", "v"))
    report = graph.memory(n=4, t=12, d=8, q=5, executor="reference")
    (whole,) = (
        life
        for life in report.main.usage.lives
        if (found := block_of(report.main, life.node)) and found.what == "the loop over cell"
    )
    block = block_of(report.main, whole.node)
    assert block is not None and block.nbytes == whole.nbytes and block.other_nbytes == 0
    assert block.named == {"h": 4 * 8 * 8}
    assert block.kept_nbytes % (12 * 4 * 8 * 8) == 0 and block.kept_nbytes  # rows like the state
    assert block.title == "the loop over cell: h and what is kept of its iterations"
    parts = (
        f"h 256 bytes, kept of its iterations for the backward pass {in_bytes(block.kept_nbytes)}"
    )
    assert f"is a view of the loop over cell ({in_bytes(whole.nbytes)}: {parts})" in report.why("h")
    assert f"the loop over cell takes {in_bytes(whole.nbytes)}: {parts}" in " ".join(
        str(report).split()
    )
    h = report.values["h"]
    assert (h.view_of, h.stored, h.kind) == ("the loop over cell", False, Kind.SAVED)
    assert (h.made_at, h.last_needed_at) == (whole.first, whole.last_read)
    assert h.kept_because.startswith("it is a view of the loop over cell: dJ/dv = hᵀ · ")


def test_what_the_program_stacks_is_not_taken_for_kept() -> None:
    """A prediction keeps nothing: what a loop gives is its final state and its named rows."""
    run = cr.trace(recurrent).memory(t=5, d=3, executor="reference").main
    (block,) = filter(None, (block_of(run, one) for one in run.graph.nodes))
    assert block.named.keys() == {"hs"} and block.kept_nbytes == 0
    assert block.nbytes == block.named["hs"] + block.other_nbytes
