"""A function of NumPy's called with arguments that it has not: told with the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import UnsupportedError

X = np.ones(3)


def helper(a: Any) -> Any:
    return a


# The call, what the message says, and what the hint has.
CALLS: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda x: np.vstack(x, x), "np.vstack() takes 1 positional argument", "np.vstack([x, y])"),
    (lambda x: np.hstack(x, x), "np.hstack() takes 1 positional argument", "np.hstack([x, y])"),
    (lambda x: np.stack(x, x, x, x), "np.stack() takes from 1 to 3", "np.stack([x, y])"),
    (lambda x: np.sum(x, axes=0), "np.sum() got an unexpected keyword", "np.sum(a, axis=None"),
    (lambda x: np.dot(x), "np.dot() missing 1 required", "its arguments are: np.dot("),
    (lambda x: np.linalg.norm(x, foo=1), "np.linalg.norm() got", "np.linalg.norm(x, ord=None"),
    (lambda x: np.multiply(x), "np.multiply() takes from 2 to 3", "np.multiply(x, y)"),
    (lambda x: x.sum(0, 1, 2, 3), "x.sum() takes from", "as np.sum(x, ...)"),
    (lambda x: cr.grad(lambda y: np.vstack(y, y))(x), "np.vstack() takes", "np.vstack([x, y])"),
    (lambda x: cr.vmap(lambda y: np.vstack(y, y))(x), "np.vstack() takes", "np.vstack([x, y])"),
]


@pytest.mark.parametrize(("function", "what", "hint"), CALLS)
def test_the_call_is_told_with_its_line(
    function: Callable[[Any], Any], what: str, hint: str
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        cr.trace(function, X)
    assert caught.value.what.startswith(what)
    assert f"{__file__}:" in caught.value.where and "<lambda>" in caught.value.where
    assert hint in caught.value.hint


@pytest.mark.parametrize("function", [lambda x: helper(x, x), lambda x: len(x, x)])
def test_other_functions_say_it_themselves(function: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError) as caught:
        cr.trace(function, X)
    assert type(caught.value) is TypeError


def test_a_lambda_is_called_as_python_calls_it() -> None:
    for call in (
        lambda: cr.trace(lambda x: x),
        lambda: cr.trace(lambda x: x, X, q=X),
        lambda: cr.grad(lambda x: x)(X),
        lambda: cr.grad(lambda x: x, wrt="q")(X),
        lambda: cr.vmap(lambda: 1.0)(),
    ):
        with pytest.raises(cr.errors.ChainruleError) as caught:
            call()
        assert "<lambda>" in caught.value.what
        assert "function" not in caught.value.what.split()
