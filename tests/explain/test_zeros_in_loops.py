"""Why gradients of loops and choices are 0: the walk goes into iterations and branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import bool_, float32
from chainrule.explain.report.data import report_data
from chainrule.explain.zeros import Why
from chainrule.explain.zeros.frames import Frames

F = np.float32
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(F)


def told(f: Callable[..., Any], wrt: tuple[str, ...], **arrays: Any) -> dict[str, list[str]]:
    """The causes of each gradient as they are written, without the places; the counts are right."""
    graph = cr.backward(cr.trace(f), wrt=wrt)
    run = graph.run(arrays, keep="named")
    found = {}
    for one in graph.zeros(arrays).gradients:
        assert one.count == int((run[one.name] == 0).sum()), one.name
        assert one.count == sum(cause.count for cause in one.causes) + one.others
        found[one.name] = [
            ", and ".join([f"{cause.count}: {cause.because} {cause.within}".rstrip(), *cause.also])
            for cause in one.causes
        ]
    return found


def masked(xs: float32["5 n 3"], m: float32["5 n 1"], W: float32["3 4"], U: float32["4 4"]):
    def cell(h, one):
        x, keep = one
        c = np.tanh(x @ W + h @ U)
        h = keep * c + (1 - keep) * h
        return h, None

    h, _ = cr.scan(cell, np.ones_like(xs, shape=(xs.shape[1], 4)), (xs, m))
    J = np.sum(h**2)
    return J


def test_a_mask_in_a_loop_is_found_with_its_times() -> None:
    m = np.zeros((5, 2, 1), F)
    m[1:3] = 1
    arrays = {"xs": normal(5, 2, 3), "m": m, "W": normal(3, 4), "U": normal(4, 4)}
    found = told(masked, ("xs", "W"), **arrays)
    assert found == {"dJ/dxs": ["18: m is 0 at t = 1, 4 to 5 (of 5) of the loop over cell"]}


def clipped(xs: float32["4 3"], w: float32["3"]):
    def cell(s, x):
        h = np.maximum(x * w, 0)
        return s + h, None

    s, _ = cr.scan(cell, np.zeros_like(w), xs)
    J = np.sum(s)
    return J


def test_what_passes_nothing_back_in_an_iteration_is_told_with_its_times() -> None:
    xs = np.ones((4, 3), F)
    xs[1:3, 0] = -1  # the first unit passes nothing back at two of four times
    xs[:, 2] = -1  # the last one never does
    found = told(clipped, ("xs", "w"), xs=xs, w=np.ones(3, F))
    assert found["dJ/dxs"] == ["6: h = maximum(x * w, 0) passes nothing back at each t of the loop "
                               "over cell"]  # fmt: skip
    assert found["dJ/dw"] == ["1: h = maximum(x * w, 0) passes nothing back at each t of the loop "
                              "over cell"]  # fmt: skip
    xs[0, 2] = 0
    found = told(clipped, ("w",), xs=xs, w=np.ones(3, F))
    assert found["dJ/dw"] == [
        "1: h = maximum(x * w, 0) passes nothing back at t = 2 to 4 (of 4) of the loop over cell, "
        "and xs is 0 at t = 1 (of 4) of the loop over cell"
    ]


def test_a_loop_in_a_loop_names_both_times() -> None:
    def nested(xs: float32["2 3 n"], w: float32["n"]):
        def outer(s, rows):
            def inner(r, row):
                return r + np.maximum(row * w, 0), None

            return cr.scan(inner, s, rows)[0], None

        J = np.sum(cr.scan(outer, np.zeros_like(w), xs)[0])
        return J

    xs = np.ones((2, 3, 2), F)
    xs[1, 1:] = -1
    [line] = told(nested, ("xs",), xs=xs, w=np.ones(2, F))["dJ/dxs"]
    assert line == (
        "4: maximum(row * w, 0) passes nothing back at t = 2 to 3 (of 3) of the loop over inner "
        "at t = 2 (of 2) of the loop over outer"
    )


def test_dead_units_of_a_loop_are_told_by_t_and_batch_and_zeros_by_column_and_way() -> None:
    def recurrent(xs: float32["5 3 2"], W: float32["6 4"], b: float32["4"]):
        def cell(h, x):
            both = np.concatenate([h, x], axis=1)
            new = np.maximum(both @ W + b, 0)
            h = h / 2 + new
            return h, h

        last, hs = cr.scan(cell, np.zeros_like(xs, shape=(3, 4)), xs)  # noqa: RUF059
        J = np.sum(np.exp(last))
        return J

    b = np.array([9, 9, -99, 9], F)
    arrays = {"xs": normal(5, 3, 2), "W": normal(6, 4) / 9, "b": b}
    found = str(cr.backward(cr.trace(recurrent), wrt=("W",)).zeros(arrays))
    assert (
        ") is 0 in column 2 at t = 1 to 4 (of 5) of the loop over cell, by way of h and both"
        in found
    )
    assert "passes nothing back in column 2 at each t of the loop over cell (" in found
    assert "hs: 1 of 4 units is dead, 0 at all 5 t, for all 3 of the batch: 2" in found


@pytest.mark.parametrize("steps", [0, 3])
def test_a_while_loop_is_gone_back_through(steps: int) -> None:
    def powers(x: float32["3"], w: float32["3"]):
        def body(state):
            i, h = state
            return i + 1, np.maximum(h * w, 0)

        _, h = cr.while_loop(lambda state: state[0] < steps, body, (np.int64(0), x), max_steps=5)
        J = np.sum(h**2)
        return J

    found = told(powers, ("x", "w"), x=np.array([1, -1, 2], F), w=np.array([1, 1, 0], F))
    if steps == 0:
        assert found == {"dJ/dw": ["3: nothing depends on it"]}
        return
    clipped = "1: maximum(state[1] * w, 0) is 0 at t = 1 (of 3) of the loop over body"
    assert sorted(found["dJ/dx"]) == [clipped, "1: w is 0"]


def test_of_a_choice_the_branch_taken_is_walked_through() -> None:
    def program(x: float32["3"], w: float32["3"], v: float32["3"], yes: bool_[""]):
        def clipped(x):
            return np.maximum(x * w, 0)

        J = np.sum(cr.cond(yes, clipped, lambda x: x * v, x))
        return J

    given = {"x": np.array([1, -1, 2], F), "w": np.ones(3, F), "v": np.array([1, 0, 1], F)}
    found = told(program, ("x", "w", "v"), **given, yes=np.True_)
    assert found["dJ/dx"] == ["1: maximum(x0 * w, 0) passes nothing back in the branch clipped"]
    assert found["dJ/dv"] == ["3: nothing depends on it in the branch clipped"]
    assert told(program, ("x",), **given, yes=np.False_)["dJ/dx"] == ["1: v is 0"]


def test_a_loop_that_is_too_long_is_said_to_give_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Frames.__init__, "__defaults__", (0, 10**6))
    graph = cr.backward(cr.trace(clipped), wrt=("xs",))
    [one] = graph.zeros(xs=np.array([[1, 1, -1]] * 4, F), w=np.ones(3, F)).gradients
    assert [(cause.why, cause.count) for cause in one.causes] == [(Why.INSIDE, 4)]
    assert one.causes[0].because == (
        "the backward pass of the loop over cell gives 0; to look at each of its values would take "
        "too long"
    )


def test_the_page_says_the_same_of_loops() -> None:
    m = np.zeros((5, 2, 1), F)
    m[3] = 1
    arrays = {"xs": normal(5, 2, 3), "m": m, "W": normal(3, 4), "U": normal(4, 4)}
    graph = cr.backward(cr.trace(masked), wrt=("xs", "W", "U"))
    values = report_data(graph, arrays)["values"]
    shown = [line for one in values for line in one["zeros"]]
    lines = [line.strip() for line in str(graph.zeros(arrays)).splitlines()[1:]]
    assert sorted(shown) == sorted(lines)
    assert any("m is 0 at t = 1 to 3, 5 (of 5) of the loop over cell" in line for line in shown)


@pytest.mark.parametrize("seed", range(6))
def test_zeros_of_random_loops_are_those_of_the_run_and_all_have_a_cause(seed: int) -> None:
    random = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray:
        return (random.normal(size=shape) * (random.random(shape) < 0.6)).astype(F)

    arrays = {"xs": drawn(5, 2, 3), "W": drawn(3, 4), "U": drawn(4, 4)}
    arrays["m"] = np.round(random.random((5, 2, 1))).astype(F)
    found = told(masked, ("xs", "m", "W", "U"), **arrays)
    assert all(len(lines) for lines in found.values())
