"""Why gradients are 0: the counts of causes are those that NumPy finds for each program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, int64
from chainrule.explain.report.data import report_data
from chainrule.explain.zeros import Why, Zeros

F = np.float32
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(F)


def found(f: Callable[..., Any], wrt: tuple[str, ...], **arrays: Any) -> Zeros:
    return cr.backward(cr.trace(f), wrt=wrt).zeros(arrays)


def causes(zeros: Zeros, name: str) -> list[tuple[int, str]]:
    """Of one gradient: how many elements, and why, without the place."""
    [one] = [one for one in zeros.gradients if one.name == name]
    assert sum(cause.count for cause in one.causes) + one.others == one.count
    return [(cause.count, cause.because) for cause in one.causes]


def mlp(x: float32["n 6"], W1: float32["6 5"], b: float32["5"], W2: float32["5 3"]):
    z = x @ W1 + b
    h = np.maximum(z, 0)
    o = h @ W2
    J = np.sum(o**2)
    return J


def test_a_dead_unit_and_a_column_of_zeros_are_told_apart() -> None:
    x, W1, W2 = np.abs(normal(4, 6)), np.abs(normal(6, 5)), normal(5, 3)
    x[:, 2] = 0
    b = np.array([0, -100, 0, 0, -100], F)
    zeros = found(mlp, ("W1", "b", "W2"), x=x, W1=W1, b=b, W2=W2)
    assert causes(zeros, "dJ/dW1") == [
        (10, "h = maximum(z, 0) passes nothing back"),
        (5, "x is 0"),
    ]
    assert causes(zeros, "dJ/db") == [(2, "h = maximum(z, 0) passes nothing back")]
    assert causes(zeros, "dJ/dW2") == [(6, "h = maximum(z, 0) is 0")]
    [dead] = zeros.dead
    assert (dead.name, dead.count, dead.size, dead.batch) == ("h", 2, 5, 4)
    assert dead.units == ((1,), (4,))
    assert "h: 2 of 5 units are dead, 0 for all 4 of the batch: 1, 4" in str(zeros)


def test_the_first_factor_that_is_zero_is_found_layers_above() -> None:

    def deep(x: float32["n 3"], W: float32["3 3"], V: float32["3 3"], U: float32["3 2"]):
        h = np.maximum(x @ W, 0)
        g = np.tanh(h @ V)
        J = np.sum((g @ U) ** 2)
        return J

    arrays = {"x": np.abs(normal(2, 3)), "W": np.abs(normal(3, 3)), "U": normal(3, 2)}
    zeros = found(deep, ("W", "U"), **arrays, V=np.zeros((3, 3), F))
    assert causes(zeros, "dJ/dW") == [(9, "V is 0")]
    assert causes(zeros, "dJ/dU") == [(6, "V is 0")]


def test_other_causes() -> None:
    def program(
        x: float32["n"], w: float32["n"], E: float32["5 n"], i: int64["2"], unused: float32["n"]
    ):
        cancelled = np.sum(x * w) - np.sum(w * x)
        underflowed = np.sum(np.exp(-w) ** 2 * F(1e-30)) * F(1e-30)
        rounded = np.sum(np.round(E)) + np.sum(E[i])
        J = cancelled + underflowed + rounded
        return J

    arrays = {"x": normal(3), "w": normal(3), "E": normal(5, 3), "i": np.array([1, 1])}
    zeros = found(program, ("x", "E", "unused"), **arrays, unused=np.ones(3, F))
    [(count, because)] = causes(zeros, "dJ/dx")
    assert count == 3 and because.startswith("the terms of dJ/dx")
    assert causes(zeros, "dJ/dE") == [(12, "E[i] does not read these elements")]
    assert causes(zeros, "dJ/dunused") == [(3, "nothing depends on it")]


def test_a_product_too_small_for_its_type_is_no_factor_of_zero() -> None:
    def small(x: float32["n"]):
        a = np.exp(-x)
        J = np.sum(a * a)
        return J

    zeros = found(small, ("x",), x=np.array([60, 1, 200], F))
    [one] = [one for one in zeros.gradients if one.name == "dJ/dx"]
    assert {cause.why: cause.count for cause in one.causes} == {Why.UNDERFLOW: 1, Why.OPERATION: 1}


def test_factors_that_are_zero_in_turn() -> None:
    def apart(x: float32["n 2"], W: float32["2 2"], g: float32["n 2"]):
        J = np.sum((x @ W) * g)
        return J

    x, g = np.array([[1, 0], [0, 1]], F), np.array([[0, 1], [1, 0]], F)
    zeros = found(apart, ("W",), x=x, g=g, W=normal(2, 2))
    [one] = [one for one in zeros.gradients if one.name == "dJ/dW"]
    assert [(cause.why, cause.count) for cause in one.causes] == [(Why.APART, 2)]


def test_an_array_of_the_program_dropout_and_loops() -> None:
    def program(xs: float32["t n 3"], W: float32["3 3"], V: float32["3 3"], key: cr.uint32["2"]):
        def cell(s, x):
            s = np.maximum(s @ W + x, 0)
            return s, s

        s, _ = cr.scan(cell, np.zeros_like(xs[0]), xs)
        d = cr.dropout(s, 0.5, key=key)
        J = np.sum(d @ V * np.array([1, 0, 0], F))
        return J

    arrays = {"xs": np.abs(normal(4, 2, 3)), "W": np.abs(normal(3, 3)), "V": normal(3, 3)}
    arrays["xs"][..., 1], arrays["W"][:, 1] = 0, 0
    zeros = found(program, ("W", "V"), **arrays, key=cr.random.key(0))
    assert (6, "a constant is 0") in causes(zeros, "dJ/dV")
    assert causes(zeros, "dJ/dW") == [(3, "W is 0")]
    assert [one.units for one in zeros.dead if one.name == "s"] == [((1,),)]


def test_units_of_sequences_and_channels_of_images_are_found_at_every_place() -> None:
    def program(x: float32["4 3 2"], W: float32["2 5"], image: float32["2 3 4 4"]):
        h = np.maximum(x @ W, 0)
        c = image * 2
        J = np.sum(h) + np.sum(c)
        return J

    arrays = {"x": np.abs(normal(4, 3, 2)), "W": np.abs(normal(2, 5)), "image": normal(2, 3, 4, 4)}
    arrays["W"][:, 2] = -1
    arrays["image"][:, 1] = 0
    zeros = found(program, ("W",), **arrays)
    told = {one.name: (one.count, one.size, one.batch, one.places, one.units) for one in zeros.dead}
    assert told == {"h": (1, 5, 4, 3, ((2,),)), "c": (1, 3, 2, 16, ((1,),))}
    assert "0 for all 4 of the batch, at all 3 places: 2" in str(zeros)


def test_what_a_mask_takes_away_is_not_said_to_be_unread() -> None:
    def program(o: float32["4 3"], labels: int64["4"], mask: float32["4"]):
        p = cr.softmax(o)
        picked = np.take_along_axis(p, labels[:, None], axis=1)[:, 0]
        J = np.sum(np.log(picked) * mask)
        return J

    arrays = {
        "o": normal(4, 3),
        "labels": np.array([0, 1, 2, 1]),
        "mask": np.array([1, 0, 1, 0], F),
    }
    assert causes(found(program, ("o",), **arrays), "dJ/do") == [(6, "mask is 0")]


@pytest.mark.parametrize("seed", range(20))
def test_each_zero_has_one_cause_and_the_walk_ends(seed: int) -> None:
    """Random nets with random zeros: what is blamed on an operand goes away when it is not 0."""
    random = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray:
        made = random.normal(size=shape) * (random.random(shape) < random.choice([0.3, 0.7, 1]))
        return made.astype(F)

    arrays = {"x": drawn(3, 6), "W1": drawn(6, 5), "b": drawn(5), "W2": drawn(5, 3)}
    graph = cr.backward(cr.trace(mlp), wrt=("W1", "b", "W2"))
    run = graph.run(arrays, keep="named")
    zeros = graph.zeros(arrays)
    for name in ("dJ/dW1", "dJ/db", "dJ/dW2"):
        counted = int((run[name] == 0).sum())
        told = [one for one in zeros.gradients if one.name == name]
        assert (told[0].count if told else 0) == counted
        if told:
            causes(zeros, name)
    dead = {one.name: one.count for one in zeros.dead}
    assert dead.get("h", 0) == int((run["h"] == 0).all(axis=0).sum())


def test_no_zero_is_said_so_and_a_name_that_is_missing_is_refused() -> None:
    def square(x: float32["n"]):
        J = np.sum(x**2)
        return J

    graph = cr.backward(cr.trace(square))
    assert "no element of a gradient is 0" in str(graph.zeros(x=np.ones(3, F)))
    with pytest.raises(KeyError):
        graph.zeros(x=np.ones(3, F), of="dJ/dy")
    assert "J is 0" in str(graph.zeros(x=np.zeros(3, F), of="J"))


def test_the_page_says_the_same() -> None:
    arrays = {"x": np.abs(normal(4, 6)), "W1": np.abs(normal(6, 5)), "W2": normal(5, 3)}
    arrays["b"] = np.array([0, -100, 0, 0, -100], F)
    graph = cr.backward(cr.trace(mlp), wrt=("W1", "b", "W2"))
    values = {one["name"]: one for one in report_data(graph, arrays)["values"]}
    told = [line.strip() for line in str(graph.zeros(arrays)).splitlines()[1:]]
    shown = [line for one in values.values() for line in one["zeros"]]
    assert sorted([*shown, values["h"]["dead"]]) == sorted(told) and len(told) > 5
    without = report_data(graph, sizes={"n": 4})["values"]
    assert not any(one["zeros"] or one["dead"] for one in without)
