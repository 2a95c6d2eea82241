"""Loops and choices in a report: how often, their equations, and all that they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from report_data_checks import by_name, checked

import chainrule as cr
from chainrule import float32, float64
from chainrule.errors import InputError, MemoryLimitError
from chainrule.explain.report.data import report_data


def recurrent(
    x: float64["n 2"], y: float64["n"], W: float64["3 3"], U: float64["2 3"], v: float64["3"]
):
    def cell(h, x):
        z = x @ U + h @ W
        h = np.tanh(z)
        return h, h @ v

    h, o = cr.scan(cell, np.zeros(3), x)
    J = np.mean((o - y) ** 2) + np.sum(h**2)
    return J


def arrays(n: int = 6) -> dict[str, Any]:
    random = np.random.default_rng(3)
    shapes = {"x": (n, 2), "y": (n,), "W": (3, 3), "U": (2, 3), "v": (3,)}
    return {name: random.normal(size=shape) for name, shape in shapes.items()}


def names(data: dict[str, Any], ids: list[int]) -> list[str]:
    return [data["values"][one]["name"] for one in ids]


def test_the_results_of_a_scan_say_of_which_loop_they_are() -> None:
    data = checked(report_data(cr.backward(cr.trace(recurrent), wrt=("W", "U", "v")), arrays()))
    values = by_name(data)
    loop = values["o"]["loop"]
    assert (loop["operation"], loop["bodies"]) == ("scan", ["cell"])
    assert (loop["length"], loop["reverse"]) == (6, False)
    assert names(data, loop["results"]) == ["h", "o"]
    assert values["h"]["loop"] == loop and values["J"]["loop"] is None
    assert values["h"]["stats"]["count"] == 3 and values["o"]["stats"]["count"] == 6


def test_the_recurrence_is_written() -> None:
    values = by_name(report_data(cr.trace(recurrent), arrays()))
    loop = values["o"]["loop"]
    assert loop["latex"] and r"\tanh" in " ".join(loop["latex"])
    assert "tanh" in loop["text"]
    assert not any(one in values["h"]["equation"]["latex"] for one in loop["latex"])


def test_the_step_of_the_loop_is_known() -> None:
    data = report_data(cr.trace(recurrent), arrays())
    steps = [one for one in data["steps"] if one["loop"] is not None]
    assert [names(data, [one["loop"]]) for one in steps] == [["h"]]


def test_a_named_size_stays_the_length() -> None:
    data = checked(report_data(cr.trace(recurrent)))
    assert by_name(data)["h"]["loop"]["length"] == "n"


def test_a_loop_backward_a_choice_and_a_while_loop() -> None:
    def program(x: float64["5"]):
        def suffix(total, one):
            return total + one, total

        total, sums = cr.scan(suffix, 0.0, x, reverse=True)
        chosen = cr.cond(total > 0, lambda: total * 2.0, lambda: -total)
        root = cr.while_loop(lambda a: a > 1.0, lambda a: a / 2.0, chosen)
        return sums, root

    data = checked(report_data(cr.trace(program), {"x": np.arange(5.0)}))
    values = by_name(data)
    assert values["sums"]["loop"]["reverse"] is True
    assert values["chosen"]["loop"]["operation"] == "cond"
    assert len(values["chosen"]["loop"]["bodies"]) == 2
    assert values["root"]["loop"]["operation"] == "while"
    assert values["root"]["loop"]["length"] is None


def walk(x: float32["n 8"], W: float32["8 8"]) -> Any:
    h, _ = cr.scan(lambda h, x: (np.tanh(x + h @ W), None), np.zeros(8, np.float32), x)
    J = np.sum(h)
    return J


@pytest.mark.slow
def test_a_loop_that_computes_states_again_within_a_budget() -> None:
    graph = cr.backward(cr.trace(walk), wrt="W")
    with pytest.raises(MemoryLimitError) as refused:
        graph.memory(n=150, executor="reference", memory=1)
    least = refused.value.needed_nbytes
    assert least is not None
    step = cr.training_step(walk, "W", cr.sgd(0.1), executor="reference", memory=least + 2000)
    random = np.random.default_rng(0)
    inputs = {
        "x": random.standard_normal((150, 8), dtype=np.float32),
        "W": np.eye(8, dtype=np.float32) / 9,
    }
    data = checked(report_data(step, inputs))
    assert any("loops keep fewer states" in note for note in data["notes"])
    assert data["memory"]["peak_nbytes"] == step.memory(n=150).main.peak_nbytes
    values = by_name(data)
    plain = by_name(report_data(cr.training_step(walk, "W", cr.sgd(0.1)), inputs))
    assert values["dJ/dW"]["numbers"] == plain["dJ/dW"]["numbers"]
    assert values["dJ/dW"]["stats"] == plain["dJ/dW"]["stats"]
    with pytest.raises(InputError, match="as many states as fit at these sizes"):
        _ = step.memory(n=150).formulas


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_a_view_of_a_loop_is_freed_when_the_loop_is(executor: str) -> None:
    """Steps, panel and the list of what is alive say the same of a state and of its loop."""
    graph = cr.backward(cr.trace(recurrent), wrt=("W", "U", "v"))
    data = checked(report_data(graph, arrays(), executor=executor))
    values = by_name(data)
    o = values["o"]
    if o["view_of"]:
        assert o["view_of"] == "the loop over cell" and not o["stored"]
        freed = [at for at, one in enumerate(data["steps"]) if values_at(data, one["frees"], "o")]
        begun = [one["instruction"] for one in data["steps"]]
        assert len(freed) == 1 and begun[freed[0]] <= o["last_needed_at"]
        assert begun[freed[0] + 1 :][:1] == [] or begun[freed[0] + 1] > o["last_needed_at"]
    lives = [one for one in data["memory"]["lives"] if one["label"].startswith("the loop over")]
    (block,) = lives
    assert "o" in block["label"] and block["parts"] and block["nbytes"] >= values["o"]["nbytes"]
    back = [one for one in data["memory"]["lives"] if "backward pass of the loop" in one["label"]]
    step = data["steps"][data["memory"]["peak_step"]]
    for one in back:
        begins = [at for at in data["steps"] if at["instruction"] <= one["first"]][-1]
        assert begins["title"].startswith("backward of"), begins
    assert step["live_nbytes"] == max(data["memory"]["live"])


def values_at(data: dict[str, Any], ids: list[int], name: str) -> bool:
    return name in names(data, ids)


def test_a_loop_that_keeps_rows_for_its_way_back_has_a_backward_circle() -> None:
    """Two states, and sigmoids whose values are stacked beside what the program asks for."""

    def J(x: float64["9 5 4"], Wf: float64["4 6"], Wc: float64["4 6"], U: float64["6 6"]):
        def cell(state, x_t):
            m, c = state
            f = cr.sigmoid(x_t @ Wf + m @ U)
            c = f * c + np.tanh(x_t @ Wc + m @ U)
            m = f * np.tanh(c)
            return (m, c), m

        zero = np.zeros((5, 6))
        (m, _), outputs = cr.scan(cell, (zero, zero), x)
        loss = np.mean(m**2) + np.mean(np.diff(outputs, axis=0) ** 2)
        return loss

    params = {"Wf": np.ones((4, 6)), "Wc": np.ones((4, 6)), "U": np.ones((6, 6))}
    x = np.ones((9, 5, 4))
    step = cr.training_step(J, tuple(params), cr.sgd(0.1), x=x, **params)
    data = checked(report_data(step, {"x": x, **params}))
    made = [{*names(data, [*one["writes"], *one["adds"]])} for one in data["steps"]]
    gradients = {f"dloss/d{name}" for name in params}
    [back] = [one for one in data["steps"] if gradients <= {*names(data, one["writes"])}]
    assert back["circle"].startswith("backward ") and gradients in made
    assert "the backward pass" in data["values"][back["writes"][0]]["loop"]["bodies"][0]
