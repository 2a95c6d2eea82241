"""A loop, and a batch, call their function once: what it draws is the same in every iteration."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import FrozenRandomWarning
from chainrule.frontend.frozen import frozen_random

X = np.zeros(3)
STEPS = "the same in every iteration"
BATCH = "the same for every example of the batch"


def noisy(value: Any) -> Any:
    return value + np.random.normal()


def in_scan(x: Any) -> Any:
    return cr.scan(lambda carry, _: (noisy(carry), None), x, None, 3)[0]


def in_fori_loop(x: Any) -> Any:
    return cr.fori_loop(0, 3, lambda i, value: noisy(value), x)


def in_while_loop(x: Any) -> Any:
    return cr.while_loop(
        lambda value: np.sum(value) < 10, lambda value: value + np.random.rand(), x
    )


def in_a_condition(x: Any) -> Any:
    return cr.while_loop(lambda value: np.sum(value) < np.random.rand(), lambda value: value + 1, x)


def in_vmap(x: Any) -> Any:
    return cr.vmap(noisy)(x)


def in_a_batch_of_gradients(x: Any) -> Any:
    return cr.vmap(cr.grad(lambda value: value * random.random()))(x)


def by_the_clock(x: Any) -> Any:
    return cr.scan(lambda carry, _: (carry + time.time(), None), x, None, 3)[0]


LOOPS: list[tuple[Callable[[Any], Any], str, str]] = [
    (in_scan, "np.random.normal draws", STEPS),
    (in_fori_loop, "np.random.normal draws", STEPS),
    (in_while_loop, "np.random.rand draws", STEPS),
    (in_a_condition, "np.random.rand draws", STEPS),
    (in_vmap, "np.random.normal draws", BATCH),
    (in_a_batch_of_gradients, "random.random draws", BATCH),
    (by_the_clock, "the clock is read", STEPS),
]


def told_by(run: Callable[[], Any]) -> list[str]:
    frozen_random._told.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        run()
    assert all(one.category is FrozenRandomWarning for one in caught)
    assert all(one.filename == __file__ for one in caught)
    return [str(one.message).partition("\n")[0] for one in caught]


@pytest.mark.parametrize(("function", "what", "same"), LOOPS)
def test_a_loop_on_numbers_tells_what_freezes_in_it(
    function: Callable[[Any], Any], what: str, same: str
) -> None:
    (told,) = told_by(lambda: function(X))
    assert told.startswith(what) and told.endswith(same)


@pytest.mark.parametrize(("function", "what", "same"), LOOPS)
def test_a_gradient_of_a_loop_tells_it_too(
    function: Callable[[Any], Any], what: str, same: str
) -> None:
    if "while" in function.__name__ or function is in_a_condition:
        derivative = cr.jvp
        run = lambda: derivative(lambda x: np.sum(function(x)), (X,), (X,))  # noqa: E731
    else:
        run = lambda: cr.grad(lambda x: np.sum(function(x)))(X)  # noqa: E731
    (told,) = told_by(run)
    assert told.startswith(what) and told.endswith(same)


@pytest.mark.parametrize(("function", "what", "same"), LOOPS)
def test_a_traced_program_tells_it_once(
    function: Callable[[Any], Any], what: str, same: str
) -> None:
    (told,) = told_by(lambda: cr.trace(function, X))
    assert told.startswith(what) and told.partition("graph, ")[2] == "the same in every run"


def test_a_choice_on_numbers_draws_at_each_call_and_is_silent() -> None:
    found: list[Any] = []
    run = lambda: cr.cond(True, noisy, lambda value: value, X)  # noqa: E731
    assert told_by(lambda: found.extend(run() for _ in range(2))) == []
    assert not np.array_equal(found[0], found[1])


def test_loops_without_draws_are_silent() -> None:
    def step(carry: Any, x: Any) -> Any:
        return carry + x * 2.5, carry

    assert told_by(lambda: cr.scan(step, 0.0, X)) == []
    assert told_by(lambda: cr.vmap(lambda x: x * 2.5)(X)) == []
