"""Dashed arrows: the values of the forward pass that a derivative reads, and no gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.explain.drawing.drawing import draw


def scaled_sum(u: float64, v: float64):
    s = u + 1
    L = s * v
    return L


def scaled_tanh(u: float64, v: float64):
    s = np.tanh(u)
    L = s * v
    return L


def scaled_twice(p: float64, v: float64):
    c = p * v
    L = c * v
    return L


def half_a_square_of_tanh(x: float64["n d"], w: float64["d"]):
    z = x @ w
    h = np.tanh(z)
    J = np.sum(h**2) / 2
    return J


def half_a_square_of_a_product(x: float64["n d"], w: float64["d"]):
    h = x @ w
    J = np.sum(h**2) / 2
    return J


def square_of_a_sum(z: float64["n"]):
    h = z + 1
    g = h * h
    J = np.sum(g)
    return J


def inside_one_circle(p: float64["n"], w: float64["n"]):
    L = np.sum((p + 1) * w)
    return L


def spread_scale(p: float64["n"], v: float64):
    c = np.exp(p) + p
    L = np.sum(c * v)
    return L


def sine_and_cosine(x: float64["n"]):
    a = np.sin(x)
    b = np.cos(x)
    J = np.sum(a * b)
    return J


@pytest.mark.parametrize(
    ("function", "arrows"),
    [
        (scaled_sum, ["s L", "v L"]),  # v, the gradient of s, is not read by +
        (scaled_tanh, ["s L", "v L", "s s"]),
        (scaled_twice, ["c L", "v L", "p c", "v c"]),  # here v is read beside
        (half_a_square_of_tanh, ["h J", "h h", "w z", "x z"]),  # h, its own gradient, is read
        (half_a_square_of_a_product, ["h J", "w h", "x h"]),  # and here it is not
        (square_of_a_sum, ["h g"]),  # 2 h, where two gradients are added, is of no use to +
        (inside_one_circle, ["(L) L", "w L"]),
        (spread_scale, ["c L", "v L", "(c) c"]),
        (sine_and_cosine, ["a J", "b J", "b a", "a b"]),  # sin' = cos = b, which it is given, too
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_circles_read_values_and_are_given_gradients(
    function: Callable[..., Any], arrows: list[str]
):
    figure = draw(cr.backward(cr.trace(function), wrt="all")).scene.figure
    names = [(kept.source.partition(" "), kept.target) for kept in figure.kept]
    found = [
        (f"({name})" if kind == "operator" else name) + " " + target.removeprefix("backward ")
        for (kind, _, name), target in names
    ]
    assert sorted(found) == sorted(arrows)


def test_a_seed_is_a_gradient_and_not_saved():
    def f(a: float64[3], b: float64[3]):
        y = np.tanh(a + b) * b
        return y

    scene = draw(cr.backward(cr.trace(f), wrt=("a", "b"), seed="v")).scene
    assert {kept.source for kept in scene.figure.kept} == {"value b", "operator y"}
    assert "gradient v" in {item.key for item in scene.figure.backward.items}


def test_named_constants_are_read_as_other_values_are():
    def f(x: float64["n"]):
        half = np.full_like(x, 0.5)
        J = np.sum(x * half)
        return J

    figure = draw(cr.trace(f)).scene.figure
    assert ("value half", "operator J") in {
        (one.source, one.target) for one in figure.forward.links
    }


def test_a_gradient_that_the_update_computes_is_there_once():
    def f(x: float64["n d"], w: float64["d"], unused: float64["d"]):
        J = np.mean(x @ w)
        return J

    step = cr.training_step(f, ("w", "unused"), cr.sgd(0.1)).micro_batched(2)
    scene = draw(step.updating.graph).scene
    names = [look.tip.partition(":")[0] for look in scene.looks.values()]
    assert [names.count(name) for name in ("dJ/dw", "dJ/dunused")] == [1, 1]
    assert not scene.figure.backward.items
