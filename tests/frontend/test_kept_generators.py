"""Generators that objects, closures and arguments keep: a draw from them while a program is traced
is told."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from freezing import line_of, told_by

import chainrule as cr

X = np.ones(3)
GENERATOR = np.random.default_rng(0)
OLD = np.random.RandomState(0)


class Dropout:
    def __init__(self, seed: int | None = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, x: Any) -> Any:
        return x * (self.rng.random(3) > 0.5)


class Slotted:
    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, x: Any) -> Any:
        return x + self.rng.random(3)


class OfTheClass:
    rng = np.random.default_rng(0)

    def __call__(self, x: Any) -> Any:
        return x + self.rng.random(3)


class Net:
    def __init__(self) -> None:
        self.first = Dropout()
        self.layers = [Dropout(1), Dropout(2)]

    def whole(self, x: Any) -> Any:
        return self.noisy(self.first(x))

    def noisy(self, x: Any) -> Any:
        return x * 2.0

    def deep(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def drawing(rng: Any, x: Any) -> Any:
    return x + rng.normal(size=3)


def passing(x: Any) -> Any:
    return drawing(GENERATOR, x)


BY_NAME = {"a": np.random.default_rng(4)}


def of_a_dict(x: Any) -> Any:
    return x + BY_NAME["a"].normal(size=3)


def by_default(x: Any, rng: Any = np.random.default_rng(5)) -> Any:  # noqa: B008
    return x + rng.normal(size=3)


NET, DROPOUT = Net(), Dropout()


def by_an_object(x: Any) -> Any:
    return DROPOUT(x)


def noisily(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(x: Any) -> Any:
        return function(x) + DROPOUT.rng.normal(size=3)

    return wrapper


@noisily
def decorated(x: Any) -> Any:
    return x * 2.0


# what is called, how the message calls it and what draws, and a text of the line it tells
KEPT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, str, str]] = {
    "a layer": (Dropout(), (), "Dropout", "self.rng.random", "self.rng.random(3)"),
    "a layer without a seed": (Dropout(None), (), "Dropout", "self.rng.random", "self.rng.rand"),
    "slots": (Slotted(), (), "Slotted", "self.rng", "def __call__"),
    "a class": (OfTheClass(), (), "OfTheClass", "self.rng", "def __call__"),
    "a layer in a layer": (NET.whole, (), "whole", "self.rng.random", "self.rng.random(3)"),
    "layers in a list": (NET.deep, (), "deep", "self.layers[0].rng", "def deep"),
    "passed on": (passing, (), "passing", "GENERATOR", "return drawing(GENERATOR, x)"),
    "a dict": (of_a_dict, (), "of_a_dict", "BY_NAME['a']", "def of_a_dict"),
    "a default": (by_default, (), "by_default", "rng.normal", "rng.normal(size=3)"),
    "a partial": (
        functools.partial(drawing, np.random.default_rng(6)),
        (),
        "drawing",
        "rng.normal",
        "rng.normal(size=3)",
    ),
    "an object that is named": (
        by_an_object,
        (),
        "by_an_object",
        "self.rng.random",
        "self.rng.random(3)",
    ),
    "a decorator": (decorated, (), "decorated", "DROPOUT.rng.normal", "DROPOUT.rng.normal"),
    "in an argument": (
        lambda x, some: drawing(some["rng"], x),
        ({"rng": np.random.default_rng(7)},),
        "<lambda>",
        "some['rng']",
        "lambda x, some",
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_generator_that_is_kept_anywhere_is_told(case: str) -> None:
    function, more, called, name, line = KEPT[case]
    (told,) = told_by(lambda: cr.trace(function, X, *more))
    assert str(told.message).startswith(f"{name} draws while {called} is traced: ")
    assert told.filename == __file__
    assert line in line_of(told)


def resetting(x: Any) -> Any:
    reset(OLD)
    return drawing(OLD, x)


def reset(rng: Any) -> None:
    rng.seed(0)


def kept_and_not_asked(x: Any) -> Any:
    return x * len(BY_NAME) * NET.first.rng.bit_generator.state["has_uint32"]


@pytest.mark.parametrize("function", [resetting, kept_and_not_asked, Net().noisy])
def test_a_generator_that_is_kept_and_does_not_freeze_is_silent(function: Any) -> None:
    assert told_by(lambda: cr.trace(function, X)) == []
