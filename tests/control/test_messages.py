"""What is wrong with a loop is said before anything runs: the leaf, both types, the line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import DTypeError, IndexOutOfRangeError, InputError, ShapeError, SizeError

X = np.ones((4, 2))
NOTHING: Any = None


def wider(h: Any, x: Any) -> Any:
    return np.concatenate([h, x]), None


def narrower(h: Any, x: Any) -> Any:
    return h.astype(np.float32), None


def nested(state: Any, x: Any) -> Any:
    return {"count": state["count"] + 0.5}, None


def alone(h: Any, x: Any) -> Any:
    return h


def renamed(h: Any, x: Any) -> Any:
    return {"a": h}, None


def single(value: Any) -> Any:
    return value


CASES = {
    "shape": (
        lambda: cr.scan(wider, np.zeros(2), X),
        ShapeError,
        "wider changes the shape of h: it is float64[2] before an iteration and float64[4] after",
    ),
    "dtype": (
        lambda: cr.scan(narrower, np.zeros(2), X),
        DTypeError,
        "narrower changes the dtype of h: "
        "it is float64[2] before an iteration and float32[2] after",
    ),
    "leaf": (
        lambda: cr.scan(nested, {"count": np.int64(0)}, X),
        DTypeError,
        "nested changes the dtype of state.count: "
        "it is int64[] before an iteration and float64[] after",
    ),
    "containers": (
        lambda: cr.scan(renamed, np.zeros(2), X),
        InputError,
        "renamed takes h and returns h.a",
    ),
    "no pair": (
        lambda: cr.scan(alone, np.zeros(2), X),
        InputError,
        "an iteration of scan returns (carry, y)",
    ),
    "lengths": (
        lambda: cr.scan(lambda c, x: (c, None), 0.0, {"a": X, "b": X[:3]}),
        ShapeError,
        "x.a has 4 iterations, x.b has 3",
    ),
    "length": (
        lambda: cr.scan(lambda c, x: (c, None), 0.0, X, length=3),
        ShapeError,
        "length has 3 iterations, x has 4",
    ),
    "no length": (
        lambda: cr.scan(lambda c, x: (c, None), 0.0),
        InputError,
        "scan does not know its number of iterations: xs has no array, and length= is missing",
    ),
    "negative": (
        lambda: cr.scan(lambda c, x: (c, None), 0.0, length=-1),
        InputError,
        "length=-1 is no number of iterations",
    ),
    "a list of numbers": (
        lambda: cr.scan(lambda c, x: (c * x, c), 1.0, [1.0, 2.0, 3.0]),
        ShapeError,
        "x[0] is weak float64[], which has no axis to loop over",
    ),
    "too long": (
        lambda: cr.scan(lambda c, x: (c + 1.0, c), 0.0, length=2**62),
        ShapeError,
        "scan would make float64[4611686018427387905], which has more bytes than can be counted",
    ),
    "no function": (lambda: cr.scan(NOTHING, 0.0, X), InputError, "a function is needed, got None"),
    "no branch": (
        lambda: cr.cond(True, NOTHING, abs),
        InputError,
        "a function is needed, got None",
    ),
    "no condition": (
        lambda: cr.while_loop(NOTHING, abs, 1.0),
        InputError,
        "a function is needed, got None",
    ),
    "no body": (
        lambda: cr.fori_loop(0, 2, NOTHING, 1.0),
        InputError,
        "a function is needed, got None",
    ),
    "step of one argument": (
        lambda: cr.scan(single, 0.0, X),
        InputError,
        "single(value) is called with 2 arguments: too many positional arguments",
    ),
    "branch of two arguments": (
        lambda: cr.cond(True, single, wider, 1.0),
        InputError,
        "wider(h, x) is called with 1 argument: missing a required argument: 'x'",
    ),
    "condition without arguments": (
        lambda: cr.while_loop(lambda: True, single, 1.0),
        InputError,
        "<lambda>() is called with 1 argument: too many positional arguments",
    ),
    "body of one argument": (
        lambda: cr.fori_loop(0, 2, single, 1.0),
        InputError,
        "single(value) is called with 2 arguments: too many positional arguments",
    ),
    "bound between integers": (
        lambda: cr.fori_loop(0, 2.5, lambda i, v: v, 1.0),
        InputError,
        "the bound upper of fori_loop is 2.5, which is no integer of int64",
    ),
    "bound beyond int64": (
        lambda: cr.fori_loop(2**70, 2**70 + 3, lambda i, v: v, 1.0),
        InputError,
        f"the bound lower of fori_loop is {2**70}, which is no integer of int64",
    ),
    "bound of True": (
        lambda: cr.fori_loop(0, True, lambda i, v: v, 1.0),
        InputError,
        "the bound upper of fori_loop is True",
    ),
    "bound of floats": (
        lambda: cr.fori_loop(0, np.array(3.5), lambda i, v: v, 1.0),
        DTypeError,
        "the bound upper of fori_loop is float64[], not one integer",
    ),
    "bounds too far apart": (
        lambda: cr.fori_loop(-(2**63), 2**63 - 1, lambda i, v: v + 1.0, 1.0),
        InputError,
        f"there are {2**64 - 1} iterations, which int64 cannot count",
    ),
    "no axis": (
        lambda: cr.scan(lambda c, x: (c, None), 0.0, 3.0),
        ShapeError,
        "x is weak float64[], which has no axis to loop over",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_wrong_is_said_with_names_and_types(case: Any) -> None:
    call, kind, text = case
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
    assert caught.value.hint
    if kind is not InputError:
        assert caught.value.where or "iterations" in text or "axis" in text


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith(("bo", "no ", "st"))])
def test_the_line_of_the_call_is_shown(case: str) -> None:
    call, kind, _ = CASES[case]
    with pytest.raises(kind) as caught:
        call()
    line = call.__code__.co_firstlineno
    if case not in ("no pair", "no axis"):  # of which the first names the iteration's line
        assert f"test_messages.py:{line}, in <lambda>" in caught.value.where


def test_the_line_of_the_step_is_shown() -> None:
    with pytest.raises(ShapeError) as caught:
        cr.scan(wider, np.zeros(2), X)
    assert f"test_messages.py:{wider.__code__.co_firstlineno}, in wider" in caught.value.where


def test_an_error_of_a_step_names_the_line_of_the_operation() -> None:
    def step(h: Any, x: Any) -> Any:
        z = h @ x
        return z, None

    with pytest.raises(ShapeError) as caught:
        cr.scan(step, np.zeros(3), X)
    assert "z = h @ x" in str(caught.value)


@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("length", [2, 40])  # the body is compiled, or not
def test_an_index_that_a_step_meets_is_named_with_its_line(executor: str, length: int) -> None:
    table = np.arange(12.0).reshape(4, 3)

    def looked_up(table: Any, tokens: Any) -> Any:
        def step(total: Any, token: Any) -> Any:
            row = table[token]
            return total + row, None

        return cr.scan(step, np.zeros(3), tokens)[0]

    program = cr.compile(looked_up, executor=executor)
    assert program(table, np.full(length, 3)).shape == (3,)
    with pytest.raises(IndexOutOfRangeError) as caught:
        program(table, np.arange(length) + 3)
    assert "row = table[token]" in str(caught.value)
    assert str(caught.value).count("where:") == 1


def test_conditions_on_sizes_inside_of_a_step_are_checked() -> None:
    def program(x: float64["n m"]) -> Any:
        def step(c: Any, row: Any) -> Any:
            halves = np.reshape(row, (2, x.shape[1] // 2))
            return c + np.sum(halves[0]), None

        return cr.scan(step, 0.0, x)[0]

    graph = cr.trace(program)
    assert graph.run(x=np.ones((3, 4))).outputs == 6.0
    with pytest.raises(SizeError) as caught:
        graph.run(x=np.ones((3, 5)))
    assert "np.reshape(row" in str(caught.value)


def test_a_call_on_numbers_alone_has_its_line_too() -> None:
    with pytest.raises(ShapeError) as caught:
        cr.scan(lambda c, x: (c, None), 0.0, {"a": X, "b": X[:3]})
    assert "test_messages.py" in caught.value.where

    def objective(w: Any) -> Any:
        return cr.scan(lambda c, x: (c * w, None), 1.0, {"a": X, "b": X[:3]})[0]

    with pytest.raises(ShapeError) as caught:
        cr.grad(objective)(2.0)
    assert "test_messages.py" in caught.value.where


def test_a_scan_over_a_list_of_numbers_asks_for_an_array() -> None:
    with pytest.raises(ShapeError) as refused:
        cr.scan(lambda c, x: (c * x, c), 1.0, [1.0, 2.0, 3.0])
    assert (
        refused.value.hint == "a list of numbers counts as several arguments: pass np.array([...])"
    )
    assert cr.scan(lambda c, x: (c * x, c), 1.0, np.array([1.0, 2.0, 3.0]))[0] == 6.0


def test_branches_that_are_lambdas_are_told_apart() -> None:
    with pytest.raises(cr.errors.ShapeError) as caught:
        cr.cond(True, lambda v: v, lambda v: v[:2], np.ones(3))
    assert caught.value.what == (
        "out is float64[3] where the first branch is taken, "
        "and float64[2] where the second branch is"
    )
    with pytest.raises(cr.errors.DTypeError, match=r"^<lambda> returns float64\[3\]: the cond"):
        cr.while_loop(lambda v: v, lambda v: v, np.ones(3))


def test_a_function_without_a_return_is_told_so() -> None:
    with pytest.raises(cr.errors.UnsupportedError) as caught:
        cr.grad(lambda x: None)(np.ones(3))
    assert caught.value.what == "a traced function returned None"
    assert caught.value.hint == "return its result: perhaps a return is missing"
