"""The first bad value of a run is found, and said in words; `REFRESH=1` rewrites golden files."""

from __future__ import annotations

import dataclasses
import json
import os
import tracemalloc
from io import StringIO

import numpy as np
import pytest
from nonfinite_cases import BACKWARD, FORWARD, GIVEN, UPDATE
from nonfinite_programs import Case, function_of, model
from reports import NASTY, NASTY_FILE
from rich.console import Console

import chainrule as cr
from chainrule import bool_, float32, float64, int64
from chainrule.errors import IndexOutOfRangeError, InputError, NameLookupError
from chainrule.explain.nonfinite import Diagnosis, nonfinite, nonfinite_step
from chainrule.explain.nonfinite.diagnosis import Forward

CASES = (*FORWARD, *BACKWARD, *UPDATE, *GIVEN)
REFRESH = os.environ.get("REFRESH") == "1"
n = cr.size("n")


def found_in(case: Case) -> Diagnosis:
    found = case.diagnosis()
    assert found is not None
    return found


def case_called(title: str) -> Case:
    return next(case for case in CASES if case.title == title)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_the_report_of_a_typical_fault_is_word_for_word_as_agreed(case: Case) -> None:
    text = f"{found_in(case)}\n"
    if REFRESH:
        case.golden.write_text(text, encoding="utf-8")
    assert text == case.golden.read_text(encoding="utf-8")


def test_every_golden_report_belongs_to_a_case() -> None:
    assert {case.golden for case in CASES} == set(CASES[0].golden.parent.iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_the_fields_say_what_the_text_says(case: Case) -> None:
    found = found_in(case)
    text = str(found)
    assert found.value in text or found.part_of in text
    assert found.where.splitlines()[0] in text
    for name in [one.name for one in found.poisoned]:
        assert name in text
    for one in found.elements:
        assert str(list(one.index)) in text or not one.index
        assert not np.isfinite(one.became)
    assert found.indices == tuple(one.index for one in found.elements)
    assert found.count >= len(found.indices) >= 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_diagnosis_is_json_without_numbers_that_json_lacks(case: Case) -> None:
    found = found_in(case)
    data = json.loads(json.dumps(found.json(), allow_nan=False))
    assert data["schema"] == "chainrule.nonfinite/1"
    assert data["value"] == found.value and data["phase"] == found.phase
    assert [one["name"] for one in data["poisoned"]] == [one.name for one in found.poisoned]
    assert {one["became"] for one in data["elements"]} <= {"NaN", "inf", "-inf"}


def test_a_diagnosis_is_frozen() -> None:
    found = found_in(CASES[0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.value = "x"  # type: ignore[misc]


def test_whether_the_forward_pass_was_finite_is_told() -> None:
    told = {case.title: found_in(case).forward for case in CASES}
    assert told["the derivative of sqrt at 0"] is Forward.FINITE
    assert found_in(case_called("the derivative of sqrt at 0")).forward_was_finite
    assert told["np.where leaves out a logarithm"] is Forward.RECOVERED
    assert told["log of 0"] is Forward.NOT_FINITE


# What is no fault -----------------------------------------------------------------------------


def attention(q: float32[2, 4], k: float32[3, 4], mask: float32[2, 3], keep: bool_[2, 3]):
    S = np.where(keep, q @ k.T + mask, -np.inf)
    A = cr.softmax(S)
    J = np.sum((A @ k) ** 2)
    return J


MASK = np.array([[0, -np.inf, 0], [0, 0, 0]], np.float32)
QUERIES = {"q": np.ones((2, 4), np.float32), "k": np.ones((3, 4), np.float32)}
KEEP = np.array([[True, True, False], [True, False, True]])


def test_a_mask_of_minus_inf_that_disappears_is_no_fault() -> None:
    graph = cr.backward(cr.trace(attention), wrt=("q", "k"))
    assert nonfinite(graph, {**QUERIES, "mask": MASK, "keep": KEEP}) is None


@pytest.mark.parametrize(
    ("line", "x"),
    [
        ("np.sum(np.minimum(x, 1.0))", [np.inf, 0.5]),  # an inf in the data, and clipped
        ("np.sum(np.where(np.abs(x) < np.inf, x, 0.0))", [np.nan, 0.5]),
        ("np.sum(x[1:])", [np.nan, 0.5]),  # not read
        ("np.sum(np.exp(-1 / x))", [0.0, 0.5]),  # 1/0, and exp(-inf) is 0
        ("np.sum(np.minimum(x, np.inf))", [0.0, 0.5]),
        ("np.sum(x > np.nan)", [0.0, 0.5]),
        ("np.sum(x)", [0.0, 0.5]),
    ],
)
def test_what_reaches_no_result_is_no_fault(line: str, x: list[float]) -> None:
    graph = cr.trace(function_of(model("x: float64[2]", f"J = {line}", "return J")))
    assert nonfinite(graph, {"x": np.array(x)}) is None
    assert np.isfinite(graph.run(x=np.array(x))["J"])


def test_a_returned_array_may_have_an_inf_that_the_program_wrote() -> None:
    lines = ("S = np.where(x > 0, x, -np.inf)", "A = cr.softmax(S)", "return S, A")
    graph = cr.trace(function_of(model("x: float64[2]", *lines)))
    x = np.array([1.0, -1.0])
    assert nonfinite(graph, {"x": x}) is None
    found = nonfinite(graph, {"x": x}, of="S")
    assert found is not None and found.phase == "in the program"


def test_of_names_the_results_that_matter() -> None:
    lines = ("a = np.log(x)", "b = np.sum(x)", "c = np.sqrt(x - 1)", "return a, b, c")
    graph = cr.trace(function_of(model("x: float64[2]", *lines)))
    x = np.array([0.0, 2.0])
    assert nonfinite(graph, {"x": x}, of="b") is None
    for of, expected in (("a", "a"), (("b", "c"), "c"), (None, "a")):
        found = nonfinite(graph, {"x": x}, of=of)
        assert found is not None and found.value == expected
    with pytest.raises(NameLookupError):
        nonfinite(graph, {"x": x}, of="d")


def test_of_two_faults_the_first_that_does_harm_is_told() -> None:
    lines = ("a = np.exp(-1 / x)", "b = np.sqrt(x - 1)", "J = np.sum(a) + np.sum(b)", "return J")
    graph = cr.trace(function_of(model("x: float64[2]", *lines)))
    found = nonfinite(graph, {"x": np.array([0.0, 2.0])})
    assert found is not None and found.value == "b"


def test_what_np_where_leaves_out_is_not_blamed_for_an_inf_that_stands_there() -> None:
    lines = ("S = np.where(keep, np.log(p), -np.inf)", "e = np.exp(S - np.max(S))")
    source = model("p: float64[2], keep: bool_[2]", *lines, "J = np.sum(e)", "return J")
    p, keep = np.array([0.0, 1.0]), np.array([False, False])
    found = nonfinite(cr.trace(function_of(source)), {"p": p, "keep": keep})
    assert found is not None and found.value == "S - max(S)"
    found = nonfinite(cr.trace(function_of(source)), {"p": p, "keep": ~keep & (p == 0)})
    assert found is not None and found.value == "log(p)"


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_python_number_may_be_inf_until_it_does_harm(value: float) -> None:
    source = model("x: float64[2], most=1.0", "J = np.sum(np.minimum(x, most))", "return J")
    graph = cr.trace(function_of(source))
    found = nonfinite(graph, {"x": np.ones(2), "most": value})
    assert (found is None) == (value == np.inf)


def test_a_learning_rate_that_is_inf_is_told_though_a_python_number_may_be() -> None:
    def objective(W: float32[2]):
        J = np.sum(W**2)
        return J

    step = cr.training_step(objective, "W", cr.sgd(0.1), executor="reference")
    state = step.init(W=np.ones(2, np.float32))
    found = nonfinite_step(step, state, {"learning_rate": np.inf})
    assert found is not None
    assert str(found).startswith("learning_rate is inf before the step began\n")


def test_a_number_that_masks_is_not_blamed_for_a_row_that_is_masked() -> None:
    lines = ("S = np.where(keep, x, fill)", "e = np.exp(S - np.max(S))", "J = np.sum(e)")
    source = model("x: float64[2], keep: bool_[2], fill=-1.0", *lines, "return J")
    arguments = {"x": np.ones(2), "keep": np.zeros(2, bool), "fill": -np.inf}
    found = nonfinite(cr.trace(function_of(source)), arguments)
    assert found is not None and found.value == "S - max(S)"


def test_a_constant_without_a_name_is_told_by_its_line() -> None:
    lines = ("J = np.sum(x * np.array([1.0, np.nan]))", "return J")
    found = nonfinite(cr.trace(function_of(model("x: float64[2]", *lines))), {"x": np.ones(2)})
    assert found is not None and found.indices == ((1,),)
    head, where, *_ = str(found).splitlines()
    assert head == "a constant of the program is NaN"
    assert where == "  where: model.py:2, in objective"


# Arguments, errors, cost ----------------------------------------------------------------------


def embedded(E: float32[3, 2], tokens: int64[n]):
    J = np.sum(cr.embedding(E, tokens))
    return J


def test_errors_of_the_replay_are_passed_on() -> None:
    graph = cr.trace(embedded)
    E = np.ones((3, 2), np.float32)
    with pytest.raises(IndexOutOfRangeError, match="index 7"):
        nonfinite(graph, {"E": E, "tokens": np.array([7])})
    with pytest.raises(InputError, match="tokens"):
        nonfinite(graph, {"E": E})


TYPES = {"W": float32[2], "b": float32[()]}


def squares(params, x: float32[n, 2]):
    J = np.mean((x @ params["W"] + params["b"]) ** 2)
    return J


def test_a_step_is_replayed_from_its_state_which_stays_as_it_is() -> None:
    step = cr.training_step(squares, "params", cr.adam(), params=TYPES, executor="reference")
    state = step.init(params={"W": np.ones(2, np.float32), "b": np.float32(0)})
    x = np.array([[1, 2], [3, 4]], np.float32)
    assert nonfinite_step(step, state, {"x": x}) is None
    before = {name: array.copy() for name, array in state.items()}
    broken = {**before, "params.W_m": np.array([np.nan, 0], np.float32)}
    found = nonfinite_step(step, broken, {"x": x})
    assert found is not None
    assert (found.value, found.phase) == ("params.W_m", "before the step began")
    assert "the fault is older than the step" in found.hint
    assert all(np.array_equal(state[name], before[name]) for name in state)
    with pytest.raises(InputError, match="no input called 'z'"):
        nonfinite_step(step, state, {"x": x, "z": x})


def test_the_replay_takes_hardly_more_memory_than_a_run() -> None:
    def objective(x: float64[500, 200], W: float64[200, 200]):
        J = np.sum(np.tanh(np.tanh(x @ W) @ W) ** 2)
        return J

    graph = cr.backward(cr.trace(objective), wrt="W")
    x, W = np.full((500, 200), 1e-3), np.full((200, 200), 1e-2)

    def peak(function) -> int:
        tracemalloc.start()
        try:
            function()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    nonfinite(graph, {"x": x, "W": W})
    run = peak(lambda: graph.run(x=x, W=W, keep="outputs"))
    assert peak(lambda: nonfinite(graph, {"x": x, "W": W})) < run + x.nbytes // 10


@pytest.mark.slow
def test_6_000_nodes_are_no_hindrance() -> None:
    def deep(x: float64[2]):
        for _ in range(1_500):
            x = np.sin(x) + 0.5
        J = np.sum(np.log(x - x))
        return J

    graph = cr.backward(cr.trace(deep), wrt="x")
    assert len(graph) > 6_000
    found = nonfinite(graph, {"x": np.ones(2)})
    assert found is not None and found.because == "log of 0 is -inf"


# Names that a screen or a browser would obey --------------------------------------------------


def test_names_cannot_write_markup_into_a_page_or_codes_into_a_terminal() -> None:
    source = "def loss(x, p):\n    h = x / p[NASTY]\n    J = np.sum(h ** 2)\n    return J\n"
    names = {"np": np, "NASTY": NASTY}
    exec(compile(source, NASTY_FILE, "exec"), names)
    graph = cr.trace(names["loss"], x=float64[2], p={NASTY: float64[2]})
    found = nonfinite(graph, {"x": np.ones(2), "p": {NASTY: np.zeros(2)}})
    assert found is not None
    console = Console(file=StringIO(), width=300, force_terminal=True)
    console.print(found)
    page = found._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page and "<b>\n" not in page
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in (str(found), page, shown):
        assert "\x1b[31m[bold]" not in text and "\ud800" not in text
    assert all("\x1b" not in text for text in (str(found), page))
