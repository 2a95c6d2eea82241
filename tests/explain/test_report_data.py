"""The data of a report: of graphs, training steps and runs; what is refused, and how."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_data_checks import (
    KINDS,
    LOOP,
    MEMORY,
    PARTS,
    REPEATED,
    STATISTICS,
    STEP,
    VALUE,
    WEIGHED,
    assert_agrees,
    by_name,
    checked,
)
from reports import EITHER, NASTY, both, deep, forward, nasty, step

import chainrule as cr
from chainrule import float32
from chainrule.errors import InputError, NameLookupError, SizeError
from chainrule.explain.report.data import report_data

Inputs = dict[str, Any]


def arrays(n: int = 5) -> Inputs:
    random = np.random.default_rng(7)
    return {
        "x": random.standard_normal((n, 64), dtype=np.float32),
        "y": random.integers(0, 10, n),
        "W1": random.standard_normal((64, 32), dtype=np.float32),
        "W2": random.standard_normal((32, 10), dtype=np.float32),
    }


def refusal(error: type[Exception], *args: Any, **options: Any) -> str:
    with pytest.raises(error) as caught:
        report_data(*args, **options)
    return str(caught.value)


@EITHER
def test_a_graph_with_inputs(executor: str) -> None:
    data = checked(report_data(both(), arrays(), executor=executor))
    assert_agrees(data, both().memory(n=5, executor=executor))
    assert data["has_values"] and data["title"] == "objective" and data["notes"] == []
    assert data["subtitle"] == f"reports.py: objective · n = 5 · {executor} executor"
    facts = dict(data["facts"])
    assert facts["Parameters"] == "2,368 (9.25 KiB)"
    assert facts["Largest at the peak"] == "W1, 8 KiB"
    assert facts["Nodes"] == f"{len(both()):,}" and int(facts["FLOPs"].replace(",", "")) > 0


def test_what_the_values_are() -> None:
    values = by_name(report_data(both(), arrays()))
    kinds = {name: one["kind"] for name, one in values.items()}
    assert [name for name, kind in kinds.items() if kind == "parameter"] == ["W1", "W2"]
    assert [name for name, kind in kinds.items() if kind == "input"] == ["x", "y", "weight_decay"]
    assert kinds["dJ/dW1"] == "parameter-gradient" and kinds["dJ/dh"] == "gradient"
    assert kinds["z"] == "variable"
    z, slope = values["z"], values["dJ/dz"]
    assert (z["label"], z["latex"]) == ("z", r"\mathbf{z}")
    assert (slope["label"], slope["pass"]) == ("∂J/∂z", "backward")
    assert (z["shape"], z["dtype"], z["nbytes"]) == ([5, 32], "float32", 640)
    names = list(values)
    assert names[z["gradient"]] == "dJ/dz" and names[slope["of"]] == "z"
    assert [names[one] for one in z["reads"]] == ["x", "W1"]
    assert [names[one] for one in z["read_by"]] == ["h", "dJ/dz"]
    assert slope["equation"]["text"].startswith("∂J/∂z = prod(∂J/∂h, ∂h/∂z) = ")
    assert r"\odot" in slope["equation"]["latex"][0]


def test_of_equal_gradients_the_one_nearest_to_the_objective_is_read() -> None:
    def program(x: float32["4"]):
        a = x.reshape(2, 2)
        b = a.reshape(4)
        J = np.sum(np.tanh(b))
        return J

    data = checked(report_data(cr.backward(cr.trace(program), wrt="x")))
    names = [one["name"] for one in data["values"]]
    slope = by_name(data)["dJ/da"]
    assert [names[one] for one in slope["reads"]] == ["dJ/db"]  # which is the array dJ/dx, too
    assert by_name(data)["dJ/dx"]["read_by"] == []


def test_every_value_has_its_line() -> None:
    data = report_data(both(), arrays())
    values = by_name(data)
    for name, wanted in (("z", "x @ W1"), ("h", "np.maximum(z, 0)"), ("dJ/dh", "h @ W2")):
        place = values[name]["source"]
        line = data["sources"][place["file"]]["lines"][str(place["line"])]
        assert line[slice(*place["column"])] == wanted
    assert data["sources"][0]["file"] == "reports.py"
    numbers = list(map(int, data["sources"][0]["lines"]))
    z = values["z"]["source"]["line"]
    assert {z - 2, z - 1, z, z + 1, z + 2} <= set(numbers)


@EITHER
def test_steps_follow_the_plan(executor: str) -> None:
    data = report_data(both(), arrays(), executor=executor)
    titles = [one["title"] for one in data["steps"]]
    forward_ = ["forward of z", "forward of h", "forward of o", "forward of L"]
    backward = ["backward of L", "backward of o", "backward of h", "backward of z"]
    assert [one for one in titles if one in forward_ + backward] == forward_ + backward
    values = data["values"]
    made = {one["title"]: one for one in data["steps"]}
    assert [values[one]["name"] for one in made["forward of z"]["writes"]] == ["z"]
    assert [values[one]["name"] for one in made["backward of h"]["writes"]] == ["dJ/dz"]
    # φ′(z) is the last that needs z, also where dJ/dz then takes its bytes
    assert "z" in [values[one]["name"] for one in made["backward of h"]["frees"]]
    if executor == "reference":
        assert titles.index("forward of J") < titles.index("backward of J")


def test_a_backward_step_begins_after_the_gradient_that_comes_to_it() -> None:
    def program(x: float32["3"]):
        h = np.tanh(x)
        J = np.sum(np.sin(h)) + np.sum(np.exp(h))
        return J

    graph = cr.backward(cr.trace(program), wrt="x")
    data = report_data(graph, {"x": np.ones(3, np.float32)}, executor="reference")
    begins = {one["title"]: one["instruction"] for one in data["steps"]}
    values = by_name(data)
    assert begins["backward of J"] < values["dJ/dh"]["made_at"] < begins["backward of h"]
    assert begins["backward of h"] <= values["dJ/dx"]["made_at"]


def test_without_a_plan_the_steps_follow_the_graph() -> None:
    titles = [one["title"] for one in report_data(both())["steps"]]
    passes = [one.split()[0] for one in titles]
    assert passes == ["forward"] * 6 + ["backward"] * 6


@EITHER
def test_what_has_no_name_is_called_a_part_of_what_has_one(executor: str) -> None:
    data = report_data(both(), arrays(), executor=executor)
    values = data["values"]
    labels = {one["label"]: one for one in data["memory"]["lives"] if one["value"] is None}
    assert any(label.endswith(", a part of s") for label in labels), labels
    for label, one in labels.items():
        how, _, part = label.partition(", a part of ")
        assert how and part == values[one["inside"]]["name"], label
    for one in data["memory"]["lives"]:
        assert one["value"] is None or one["inside"] is None


def test_the_backward_pass_reads_what_is_inside_of_a_value_as_that_value() -> None:
    """The slope of max(x W + b, 0) is that of its inside, which is kept: not x, W nor b."""

    def program(x: float32["n 3"], W: float32["3 4"], b: float32["4"]):
        h = np.maximum(x @ W + b, 0)
        k = np.exp(x @ W + b)
        J = np.sum(h**2) + np.sum(k)
        return J

    data = report_data(cr.backward(cr.trace(program), wrt=("W", "b")), sizes={"n": 2})
    values = by_name(data)
    names = list(values)
    reads = {name: [names[at] for at in one["reads"]] for name, one in values.items()}
    assert {"dJ/dh", "h"} <= set(reads["dJ/db"]) and not {"x", "W", "b"} & set(reads["dJ/db"])
    assert "dJ/db" not in [names[at] for at in values["x"]["read_by"]]
    assert set(reads["k"]) == set(reads["h"]) == {"x", "W", "b"}  # what is shared is read through


def test_without_inputs_there_are_sizes_or_formulas() -> None:
    data = checked(report_data(both()))
    assert not data["has_values"] and data["memory"] is None
    (note,) = data["notes"]
    assert note == (
        'There is no memory view: the size n is not known. Give inputs, or sizes={"n": 256}.'
    )
    z = by_name(data)["z"]
    assert (z["shape"], z["nbytes"]) == (["n", 32], "128·n")
    assert by_name(data)["W1"]["nbytes"] == 8192
    data = checked(report_data(both(), sizes={"n": 9}, executor="reference"))
    assert_agrees(data, both().memory(n=9, executor="reference"))
    assert not data["has_values"] and data["notes"] == []
    assert by_name(data)["z"]["shape"] == [9, 32]


def test_a_forward_pass_alone() -> None:
    data = checked(report_data(forward(), arrays()))
    assert {one["pass"] for one in data["steps"]} == {"forward"}
    assert "Peak of a run" in dict(data["facts"])


@EITHER
def test_a_training_step_with_parameters(executor: str) -> None:
    data = checked(report_data(step(executor), arrays(), executor=executor))
    assert_agrees(data, step(executor).memory(n=5))
    values = by_name(data)
    assert values["W1"]["kind"] == "parameter" and values["W1_m"]["kind"] == "state"
    assert values["steps"]["numbers"] == [0.0] and values["steps_next"]["numbers"] == [1.0]
    assert values["W1_next"]["kind"] == values["W1_next"]["pass"] == "update"
    assert values["learning_rate"]["kind"] == "input"
    assert "Optimizer state" in dict(data["facts"])
    assert any(one["pass"] == "update" for one in data["steps"])


def test_a_training_step_with_its_state() -> None:
    one, given = step(), arrays()
    state = one.init(W1=given["W1"], W2=given["W2"])
    batch = {"x": given["x"], "y": given["y"]}
    for _ in range(3):
        one(state, batch)
    values = by_name(checked(report_data(one, batch, state=state)))
    assert state.steps == 3 and values["steps_next"]["numbers"] == [4.0]
    norm = np.linalg.norm(state["W1"].astype(np.float64))
    assert values["W1"]["stats"]["norm"] == pytest.approx(norm, rel=1e-8)
    assert by_name(report_data(one, batch, state=dict(state))) == values
    # without the state, what the optimizer keeps is given, too, or begins anew
    begun = by_name(report_data(one, {**batch, **state.parameters, "steps": 3.0}))
    assert begun["steps_next"]["numbers"] == [4.0] and begun["W1_m"]["stats"]["norm"] == 0


def test_a_run_as_it_is() -> None:
    run = both().run(arrays())
    data = checked(report_data(run))
    assert by_name(data)["z"]["stats"] == by_name(report_data(both(), arrays()))["z"]["stats"]
    short = checked(report_data(both().run(arrays(), keep="outputs")))
    assert short["notes"] == ["15 values were not kept by the run: keep='named' keeps all."]
    assert by_name(short)["z"]["stats"] is None and by_name(short)["dJ/dW1"]["stats"] is not None


def test_nothing_is_changed() -> None:
    given = arrays()
    before = {name: array.copy() for name, array in given.items()}
    report_data(both(), given)
    assert all(np.array_equal(array, before[name]) for name, array in given.items())


def test_names_that_a_browser_would_obey_are_text() -> None:
    inputs = {"x": np.ones((2, 4), np.float32), "p": {NASTY: np.eye(4, dtype=np.float32)}}
    data = checked(report_data(nasty(), inputs, title=NASTY))
    text = json.dumps(data, ensure_ascii=False)
    assert "\x1b" not in text and "\ud800" not in text and "<script>alert(1)</script>" in text
    drawn = {one["name"] for one in data["drawing"]["items"]}
    assert drawn - {""} <= set(by_name(data))


@pytest.mark.exhaustive
def test_deep_graphs_need_no_recursion() -> None:
    graph = deep(300)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 250)
    try:
        data = report_data(graph, sizes={"n": 2}, executor="reference")
    finally:
        sys.setrecursionlimit(before)
    assert len(checked(data)["steps"]) == 2 * 300 + 2


def test_programs_that_compute_nothing() -> None:
    graph = cr.trace(lambda x: x, x=float32[3])
    data = checked(report_data(graph, {"x": np.ones(3, np.float32)}))
    assert data["steps"] == [] and list(by_name(data)) == ["x"]


def test_options_of_equations() -> None:
    values = by_name(report_data(both(), symbols={"weight_decay": "λ"}, indices="superscript"))
    assert values["W1"]["label"] == "W⁽¹⁾" and values["weight_decay"]["label"] == "λ"
    assert "λ" in values["s"]["equation"]["text"]


def test_a_symbol_that_several_equations_use_is_defined_below_each() -> None:
    def objective(x: float32["4 3"], W: float32["3 5"], b: float32["5"]):
        h = np.maximum(x @ W + b, 0)
        J = np.sum(h**3)
        return J

    values = by_name(report_data(cr.backward(cr.trace(objective), wrt=("W", "b"))))
    for name in ("dJ/dW", "dJ/db"):
        equation = values[name]["equation"]
        first, *where = equation["text"].split("\nwhere ")
        assert "a₂" in first and "a₁" not in first
        assert [one.partition(" = ")[0] for one in where] == ["a₂", "a₁"], name
        assert len(equation["latex"]) == 3
    assert values["h"]["equation"]["text"].count("where a₁ = ") == 1


def test_what_is_refused() -> None:
    assert "a report is about a graph, a training step or a run, got int" in refusal(InputError, 3)
    assert "cr.trace(function)" in refusal(InputError, lambda x: x)
    assert "inputs= are arrays by name, got list" in refusal(InputError, both(), [1])
    text = refusal(InputError, both(), arrays(), state={})
    assert "state= is given, and objective is a graph" in text
    run = both().run(arrays())
    text = refusal(InputError, run, arrays())
    assert "inputs= is given with a run, whose values are there already" in text
    micro = step().micro_batched(2)
    assert "report step.whole" in refusal(InputError, micro, arrays())
    assert checked(report_data(micro.whole, arrays()))["has_values"]


def test_missing_and_wrong_inputs_are_errors_of_the_run() -> None:
    given = arrays()
    del given["y"]
    text = refusal(InputError, both(), given)
    assert "the input y of objective was not given" in text
    text = refusal(InputError, both(), arrays() | {"x": np.zeros(3)})
    assert "the input x of objective must be float32[n, 64]" in text
    assert "has no size called 'm'" in refusal(SizeError, both(), sizes={"m": 3})
    text = refusal(InputError, both(), arrays(), sizes={"n": 9})
    assert "must be float32[9, 64], got float32[5, 64]" in text


def test_missing_parameters_are_named() -> None:
    given = arrays()
    text = refusal(InputError, step(), {"x": given["x"], "y": given["y"]})
    assert "the parameters of objective were not given: W1, W2" in text
    assert "state=" in text
    state = step().init(W1=given["W1"], W2=given["W2"])
    assert "W1 was given to a step, and lives in the state" in refusal(
        InputError, step(), given, state=state
    )
    assert "unknown" in refusal(NameLookupError, both(), arrays(), keep=["unknown"])


def test_every_key_is_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "report_schema.md"
    words = page.read_text("utf-8")
    keys = {
        *PARTS,
        *VALUE,
        *STEP,
        *MEMORY,
        *STATISTICS,
        *KINDS,
        *LOOP,
        *WEIGHED,
        *REPEATED,
        "consumer",
        "upstream",
    }
    keys |= {"norm", "share", "counts", "width", "height", "bytes", "caption", "file", "lines"}
    assert {key for key in keys if f"`{key}`" not in words} == set()
