"""The steps of a report: at which one the peak is, and which ones make the terms of a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from report_data_checks import by_name, checked
from reports import EITHER, both, deep, step
from test_report_data import arrays

import chainrule as cr
from chainrule import float32, int64
from chainrule.explain.report.data import report_data
from chainrule.explain.report.spans import step_at


def inside(x: float32["1000"]):
    """The most is in use while parts of h are computed, none of which has a name."""
    h = np.sum(np.exp(x) * np.sin(x) * np.cos(x) + np.tanh(x))
    J = h * h
    return J


def named(data: dict[str, Any], ids: list[int]) -> list[str]:
    return [data["values"][one]["name"] for one in ids]


@EITHER
@pytest.mark.parametrize("program", ["both", "step", "deep", "inside"])
def test_the_step_at_the_peak_is_the_one_during_which_it_is(program: str, executor: str) -> None:
    if program == "inside":
        graph = cr.backward(cr.trace(inside), wrt="x")
        data = report_data(graph, {"x": np.ones(1000, np.float32)}, executor=executor)
    elif program == "deep":
        data = report_data(deep(5), sizes={"n": 64}, executor=executor)
    else:
        what = both() if program == "both" else step(executor)
        data = report_data(what, arrays(), executor=executor)
    memory, steps = checked(data)["memory"], data["steps"]
    peak = memory["peak_step"]
    assert steps[peak]["instruction"] <= memory["peak_instruction"]
    for later in steps[peak + 1 :]:
        assert later["instruction"] > memory["peak_instruction"]
    assert steps[peak]["live_nbytes"] == max(one["live_nbytes"] for one in steps)


def test_a_peak_in_the_middle_of_a_step_belongs_to_it_and_not_to_the_next() -> None:
    graph = cr.trace(inside)
    data = checked(report_data(graph, {"x": np.ones(1000, np.float32)}))
    memory, steps = data["memory"], data["steps"]
    assert [one["title"] for one in steps] == ["forward of h", "forward of J"]
    assert steps[0]["instruction"] < memory["peak_instruction"] < steps[1]["instruction"]
    assert memory["peak_step"] == 0
    assert steps[0]["fullest_instruction"] == memory["peak_instruction"]


def test_the_step_of_an_instruction_is_the_last_that_has_begun() -> None:
    begins = [2, 5, 5, 9]
    assert [step_at(begins, number) for number in (0, 1, 2, 4, 5, 8, 9, 40)] == [
        0, 0, 0, 0, 2, 2, 3, 3,
    ]  # fmt: skip


@EITHER
def test_a_gradient_of_two_terms_is_made_in_two_steps(executor: str) -> None:
    data = checked(report_data(both(), arrays(), executor=executor))
    steps, gradient = data["steps"], list(by_name(data)).index("dJ/dW2")
    places = {one["title"]: at for at, one in enumerate(steps)}
    through = {
        named(data, [term["consumer"]])[0]: term["step"]
        for term in data["values"][gradient]["chain"]
    }
    assert through == {"o": places["backward of o"], "s": places["backward of s"]}
    first, last = sorted(through.values())
    assert gradient in steps[first]["adds"] and gradient not in steps[first]["writes"]
    assert gradient in steps[last]["writes"] and gradient not in steps[last]["adds"]


def test_each_use_of_a_shared_parameter_is_a_step() -> None:
    def shared(x: float32["8"], w: float32["8"]):
        for _ in range(3):
            x = np.sin(x * w)
        J = np.sum(x)
        return J

    graph = cr.backward(cr.trace(shared), wrt="w")
    data = checked(report_data(graph, {name: np.ones(8, np.float32) for name in "xw"}))
    chain = by_name(data)["dJ/dw"]["chain"]
    titles = [data["steps"][term["step"]]["title"] for term in chain]
    assert titles == ["backward of x_1", "backward of x_2", "backward of x_3"]
    gradient = list(by_name(data)).index("dJ/dw")
    assert sum(gradient in one["adds"] for one in data["steps"]) == 2


def test_a_gradient_of_one_term_has_no_parts() -> None:
    data = report_data(both(), arrays())
    parts = {name for one in data["steps"] for name in named(data, one["adds"])}
    assert parts == {"dJ/dW1", "dJ/dW2"}


def picked(x: float32["8 6 5"], y: int64["6"], W: float32["12 7"], V: float32["7 4"]):
    """A loop whose last state is used, and elements that are picked of a softmax."""

    def cell(s, xt):
        s = np.tanh(np.concatenate([s, xt], axis=1) @ W)
        return s, s

    last, _ = cr.scan(cell, np.zeros((6, 7), np.float32), x)
    p = cr.softmax(last @ V)
    loss = -np.mean(np.log(p[np.arange(6), y]))
    return loss


def test_a_gradient_that_is_never_stored_is_made_by_the_update_that_uses_it() -> None:
    step = cr.training_step(picked, ("W", "V"), cr.sgd(0.1), executor="native")
    data = checked(report_data(step, sizes={}))
    values, places = by_name(data), list(by_name(data))
    steps = {one["title"]: one for one in data["steps"]}
    update = steps["update: V_next"]
    assert values["dloss/dV"]["stored"] is False
    assert named(data, update["writes"]) == ["V_next", "dloss/dV"]
    at = data["steps"].index(update)
    assert f"step {at + 1} uses it on the way to V_next" in values["dloss/dV"]["why"]
    assert [term["step"] for term in values["dloss/dV"]["chain"]] == [at]
    life = values["last"]["life"]
    assert (life["reader"], life["to_end"]) == (at, True)
    assert places.index("last") in update["frees"]
    # the loop is made where it is computed
    loop = next(one for one in data["memory"]["lives"] if one["label"].startswith("the loop over"))
    first = data["steps"][loop["step"]]
    assert named(data, [first["loop"]]) == ["last"] and first["instruction"] == loop["first"]
    # steps of one instruction: only the last of them takes what is done after it
    ends = {one["instruction"]: one for one in data["steps"]}
    for one in data["steps"]:
        if one is not ends[one["instruction"]]:
            assert one["fullest_instruction"] <= one["instruction"]


def test_elements_that_are_picked_are_read_from_where_they_are() -> None:
    graph = cr.backward(cr.trace(picked), wrt=("W", "V"))
    data = checked(report_data(graph, sizes={}))
    assert set(named(data, by_name(data)["dloss/dp"]["reads"])) == {"p", "y"}
