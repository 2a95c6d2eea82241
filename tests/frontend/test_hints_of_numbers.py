"""What is told where Python asks a traced array for its number: what to write in its place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import chainrule as cr
from chainrule.errors import DataDependentError
from chainrule.frontend.functions.elementwise import UFUNCS
from chainrule.frontend.hints.numbers import CHOICE, MATH, MATH_ALONE
from chainrule.numpy.names import TABLE

A = np.array([[2.0, 0.5], [0.5, 1.0]])
OWN = "makes an operation of it, with a derivative rule that you give"


def hint_of(function: Callable[..., Any], *examples: Any) -> str:
    with pytest.raises(DataDependentError) as caught:
        cr.trace(function, *examples)
    assert f"{__file__}:" in caught.value.where
    return caught.value.hint


def branch(x: Any) -> Any:
    if x > 0:
        return x
    return -x


def branch_of_two(x: Any, y: Any) -> Any:
    if x > 0 and y > 0:
        return x
    return y


def negated(x: Any) -> Any:
    if not x > 0:
        return x
    return -x


def between(x: Any) -> Any:
    return x if 0 < x < 1 else -x


def loop(x: Any) -> Any:
    while x > 1:
        x = x / 2
    return x


def checked(x: Any) -> Any:
    assert x > 0, "x is negative"
    return x


def in_the_body(x: Any) -> Any:
    for _ in range(2):
        x = x * float(x)
    return x


ASKED: dict[str, tuple[Callable[..., Any], int, str]] = {
    "math.exp": (lambda x: math.exp(x), 1, "write np.exp(x)"),
    "of an expression": (lambda x: math.sqrt(2 * x + 1), 1, "write np.sqrt(2 * x + 1)"),
    "math.pow": (lambda x: math.pow(x, 2), 1, "write np.power(x, 2)"),
    "math.atan2": (lambda x, y: math.atan2(x, y), 2, "write np.arctan2(x, y)"),
    "math.log to a base": (lambda x: math.log(x, 2), 1, "write np.log(x) / np.log(base)"),
    "max": (lambda x, y: max(x, y), 2, "write np.maximum(x, y)"),
    "min": (lambda x: min(x, 0.0), 1, "write np.minimum(x, 0.0)"),
    "max of three": (lambda x, y: max(x, y, 0), 2, "write np.maximum(a, b)"),
    "max of an array": (lambda x: max(x * np.ones(3)), 1, "write np.max(x * np.ones(3))"),
    "sorted": (lambda x: sorted(x * np.ones(3)), 1, "write np.sort(x * np.ones(3))"),
    "any": (lambda x: any(x > np.ones(3)), 1, "write np.any(x > np.ones(3))"),
    "if": (branch, 1, CHOICE),
    "and": (branch_of_two, 2, f"np.logical_and(x > 0, y > 0) is elementwise;\n{CHOICE}"),
    "not": (negated, 1, f"np.logical_not(x > 0) is elementwise;\n{CHOICE}"),
    "or": (lambda x, y: x > 0 or y > 0, 2, "np.logical_or(x > 0, y > 0) is elementwise"),
    "between": (between, 1, f"np.logical_and(0 < x, x < 1) is elementwise;\n{CHOICE}"),
    "conditional expression": (lambda x: x if x > 0 else -x, 1, CHOICE),
    "while": (loop, 1, "cr.while_loop(condition, body, value) repeats while it holds"),
    "assert": (checked, 1, "return it, and look at its number after graph.run"),
    "float": (in_the_body, 1, "keep it an array; return it, and read it after graph.run"),
    "np.random": (
        lambda x: np.random.normal(x),
        1,
        "cr.random draws within a program: see cr.random.normal(key, ...) and its like",
    ),
    "any of a generator": (lambda x: any(one > 0 for one in [x]), 1, CHOICE),
}


@pytest.mark.parametrize("case", ASKED)
def test_what_asks_for_a_number_is_told_what_to_write(case: str) -> None:
    function, count, hint = ASKED[case]
    assert hint_of(function, *([1.5] * count)) == hint


SCIPY: dict[str, tuple[Callable[..., Any], str]] = {
    "solve": (lambda a: scipy.linalg.solve(a, np.ones(2)), "write np.linalg.solve(a, np.ones(2))"),
    "inv": (lambda a: scipy.linalg.inv(a), "write np.linalg.inv(a)"),
    "cholesky": (
        lambda a: scipy.linalg.cholesky(a),
        "write np.linalg.cholesky(a), which is lower triangular",
    ),
    "triangular": (
        lambda a: scipy.linalg.solve_triangular(a, np.ones(2)),
        "write np.linalg.solve(a, np.ones(2))",
    ),
    "expm": (lambda a: scipy.linalg.expm(a), f"cr.primitive(scipy.linalg.expm, ...) {OWN}"),
    "eig": (lambda a: scipy.linalg.eig(a), f"cr.primitive(scipy.linalg.eig, ...) {OWN}"),
    "logsumexp": (lambda a: scipy.special.logsumexp(a), "write cr.logsumexp(a)"),
    "softmax": (lambda a: scipy.special.softmax(a), "write cr.softmax(a)"),
}


@pytest.mark.parametrize("case", SCIPY)
def test_functions_of_scipy_are_told_what_stands_for_them(case: str) -> None:
    function, hint = SCIPY[case]
    assert hint_of(function, A).partition(";")[0] == hint


def test_what_stands_for_functions_of_math_is_traced_and_gives_their_numbers() -> None:
    count = 0
    for name in dir(math):
        function = getattr(math, name)
        if name.startswith("_") or not callable(function) or name in MATH_ALONE:
            continue
        for values in ((0.5,), (0.5, 0.25)):
            try:
                wanted = function(*values)
            except (TypeError, ValueError):
                continue
            words = MATH.get(name, f"np.{name}")
            instead = getattr(cr if words.startswith("cr.") else np, words[3:], None)
            if name not in MATH and (instead not in UFUNCS and instead not in TABLE):
                continue
            if (name, len(values)) == ("log", 2) or name in ("ceil", "floor", "trunc", "fsum"):
                continue
            if getattr(instead, "nin", len(values)) != len(values):
                continue
            got = cr.trace(lambda *x: instead(*x), *values)  # noqa: B023
            given = dict(zip([item.name for item in got.inputs], values, strict=True))
            np.testing.assert_allclose(got.run(given).outputs, wanted, rtol=1e-14)
            count += 1
    assert count > 30


def test_without_source_the_plain_hint_is_there() -> None:
    space: dict[str, Any] = {"math": math}
    exec("def f(x):\n    return math.exp(x)", space)
    with pytest.raises(DataDependentError) as caught:
        cr.trace(space["f"], 1.5)
    assert caught.value.hint == "keep it an array; return it, and read it after graph.run"
