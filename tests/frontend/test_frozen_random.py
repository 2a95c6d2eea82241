"""Random numbers that generators draw while a program is traced: told where they freeze."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable
from random import gauss
from typing import Any

import numpy as np
import pytest
from freezing import line_of, told_by
from numpy.random import normal

import chainrule as cr

X = np.ones(3)
GENERATOR = np.random.default_rng(0)
OLD = np.random.RandomState(0)


def noise() -> Any:
    return np.random.uniform(size=3)


class Layer:
    def __init__(self) -> None:
        self.random = np.random.default_rng(1)

    def noisy(self, x: Any) -> Any:
        return x + self.random.normal(size=3)


def through_numpy(x: Any) -> Any:
    h = x + np.random.normal(size=3)
    return h


def as_a_number(x: Any) -> Any:
    return x * np.random.rand()


def imported(x: Any) -> Any:
    return x * normal(size=3)


def of_a_generator(x: Any) -> Any:
    return x + GENERATOR.standard_normal(3)


def of_an_old_generator(x: Any) -> Any:
    return x + OLD.rand(3)


def by_a_helper(x: Any) -> Any:
    return x + noise()


def in_a_comprehension(x: Any) -> Any:
    return sum([x * np.random.rand() for _ in range(2)])


def given(x: Any, random: Any) -> Any:
    return x + random.random(3)


def in_a_function(x: Any) -> Any:
    def inner() -> Any:
        return np.random.random(3)

    return x + inner()


DRAWS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "np.random": (through_numpy, (X,), "np.random.normal"),
    "a number": (as_a_number, (X,), "np.random.rand"),
    "imported by name": (imported, (X,), "normal"),
    "a global generator": (of_a_generator, (X,), "GENERATOR.standard_normal"),
    "a global RandomState": (of_an_old_generator, (X,), "OLD.rand"),
    "a helper": (by_a_helper, (X,), "np.random.uniform"),
    "a comprehension": (in_a_comprehension, (X,), "np.random.rand"),
    "an inner function": (in_a_function, (X,), "np.random.random"),
    "an argument": (given, (X, np.random.default_rng(2)), "random.random"),
    "a method": (Layer().noisy, (X,), "self.random.normal"),
}


PYTHONS = random.Random(3)


class Model:
    def __init__(self) -> None:
        self.random = np.random.default_rng(1)


MODEL = Model()


def of_python(x: Any) -> Any:
    return x * random.random()


def of_python_by_name(x: Any) -> Any:
    return x * gauss(0, 1)


def of_a_generator_of_python(x: Any) -> Any:
    return x * PYTHONS.uniform(1, 2)


def of_a_part(x: Any) -> Any:
    return x + MODEL.random.normal(size=3)


def closed_over() -> Callable[..., Any]:
    generator = np.random.default_rng(3)

    def function(x: Any) -> Any:
        return x + generator.normal(size=3)

    return function


DRAWS |= {
    "Python's": (of_python, (X,), "random.random"),
    "Python's, imported by name": (of_python_by_name, (X,), "gauss"),
    "a generator of Python's": (of_a_generator_of_python, (X,), "PYTHONS.uniform"),
    "a part of an object": (of_a_part, (X,), "MODEL.random.normal"),
    "a closure": (closed_over(), (X,), "generator.normal"),
}


@pytest.mark.parametrize("case", DRAWS)
def test_a_draw_that_freezes_is_told_with_its_line(case: str) -> None:
    function, arguments, name = DRAWS[case]
    (told,) = told_by(lambda: cr.trace(function, *arguments))
    text = str(told.message)
    assert text.startswith(f"{name} draws while {function.__name__} is traced: ")
    assert told.filename == __file__ and f"{__file__}:{told.lineno}, in " in text
    assert name in line_of(told)


def test_the_whole_text() -> None:
    (told,) = told_by(lambda: cr.trace(through_numpy, X))
    line = inspect.getsourcelines(through_numpy)[1] + 1
    assert str(told.message) == (
        "np.random.normal draws while through_numpy is traced: its numbers are constants of the "
        "graph, the same in every run\n"
        f"  where: {__file__}:{line}, in through_numpy\n"
        "    h = x + np.random.normal(size=3)\n"
        "            ^^^^^^^^^^^^^^^^\n"
        "  try: cr.random draws in every run, with a key that is an argument: "
        "cr.random.fold_in(key, step)\n"
        "       is another one in each step; or draw before the call, and pass the array"
    )


def test_a_compiled_function_and_a_training_step_tell_it_once() -> None:
    compiled = cr.compile(through_numpy, executor="reference")
    assert len(told_by(lambda: [compiled(X), compiled(X), compiled(np.ones((2, 3)))])) == 1

    def objective(w: cr.float64["3"]) -> Any:  # type: ignore
        return np.sum(w * np.random.normal(size=3))

    step = functools.partial(cr.training_step, objective, wrt="w", optimizer=cr.sgd(0.1))
    assert len(told_by(step)) == 1


def test_what_is_traced_at_each_call_draws_at_each_call_and_is_silent() -> None:
    def loss(x: Any) -> Any:
        return np.sum(x * np.random.normal(size=3))

    found: list[Any] = []
    assert told_by(lambda: found.extend(cr.grad(loss)(X) for _ in range(2))) == []
    assert not np.array_equal(found[0], found[1])
    assert told_by(lambda: cr.hessian(loss)(X)) == []
    assert told_by(lambda: cr.vjp(loss, X)[1](1.0)) == []


def seeded(x: Any) -> Any:
    np.random.seed(0)
    return x + np.random.normal(size=3)


def with_its_own(x: Any) -> Any:
    return x + np.random.default_rng(0).normal(size=3)


def maybe(x: Any, noisy: bool = False) -> Any:
    return x + np.random.normal(size=3) if noisy else x


def with_keys(x: Any, key: Any) -> Any:
    return x + cr.random.normal(key, (3,), np.float64)


def reading_the_state(x: Any) -> Any:
    return x * len(np.random.get_state())


def thrown_away(x: Any) -> Any:
    np.random.rand(3)
    random.random()
    return x * 2.5


def kept_for_nothing(x: Any) -> Any:
    noise = np.random.rand(3)
    double = 2 * noise
    print(double.shape)
    return x * 2.5


def beside_one_that_is_used(x: Any) -> Any:
    np.random.rand(3)
    return x + np.random.rand(3)


def shuffled(x: Any) -> Any:
    order = np.arange(3)
    np.random.shuffle(order)
    return x[order]


def written_into(x: Any) -> Any:
    noise = np.ones(3)
    GENERATOR.random(out=noise)
    return x + noise


def repeated(x: Any) -> Any:
    for _ in range(np.random.randint(5)):
        x = x * 2
    return x


USED: dict[str, tuple[Callable[..., Any], str]] = {
    "beside one that is not": (beside_one_that_is_used, "return x + np.random.rand"),
    "in place": (shuffled, "np.random.shuffle(order)"),
    "out=": (written_into, "GENERATOR.random(out=noise)"),
    "a count": (repeated, "for _ in range"),
}


@pytest.mark.parametrize("case", USED)
def test_a_draw_that_is_used_is_told_where_another_is_not(case: str) -> None:
    function, text = USED[case]
    (told,) = told_by(lambda: cr.trace(function, X))
    assert text in line_of(told)


SILENT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "seeded in the function": (seeded, (X,)),
    "a generator of its own": (with_its_own, (X,)),
    "a branch that is not taken": (maybe, (X,)),
    "keys": (with_keys, (X, cr.random.key(0))),
    "only asked for its state": (reading_the_state, (X,)),
    "a draw that nobody takes": (thrown_away, (X,)),
    "a draw that is kept for nothing": (kept_for_nothing, (X,)),
    "a ufunc": (np.sin, (X,)),
    "a partial": (functools.partial(maybe, noisy=False), (X,)),
}


@pytest.mark.parametrize("case", SILENT)
def test_nothing_is_told_where_nothing_freezes(case: str) -> None:
    function, arguments = SILENT[case]
    assert told_by(lambda: cr.trace(function, *arguments)) == []


def test_a_program_that_fails_tells_its_error_alone() -> None:
    def failing(x: Any) -> Any:
        return x @ np.random.normal(size=(5, 5))

    with pytest.raises(cr.errors.ShapeError):
        cr.trace(failing, X)
