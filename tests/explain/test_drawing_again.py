"""Values of other passes, shown again: each circle and each named value once for a reader."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule import float64
from chainrule.explain.drawing.figure import Form


def two_ways(x: float64["n d"], W: float64["d m"]) -> Any:
    h = np.tanh(x @ W)
    g = np.sin(x @ W)
    J = np.sum(h**2 * g**2)
    return J


def copies() -> dict[str, list[str]]:
    """The labels of the copies in the second backward pass, by what reads them."""
    first = cr.backward(cr.trace(two_ways), wrt="W")
    scene = cr.backward(first, of="dJ/dW", wrt="W", seed="v").draw().scene
    (band,) = scene.figure.further
    found: dict[str, list[str]] = {}
    for item in band.items:
        if item.form is Form.COPY:
            reader = item.key.partition(" for ")[2]
            found.setdefault(reader, []).append(scene.looks[item.key].label.text)
    return found


def test_values_of_two_circles_are_two_copies_though_one_gradient_is_made_of_both() -> None:
    assert {"(tanh(x W))′", "(sin(x W))′"} <= {*copies()["d(dJ/dW)/dW"]}


def test_values_of_one_circle_are_one_copy_though_two_gradients_are_made_of_them() -> None:
    for labels in copies().values():
        assert len(labels) == len(set(labels))


def test_a_gradient_and_what_is_inside_of_its_circle_are_two_copies() -> None:
    assert {"∂J/∂h", "(Σ h2 ⊙ g2)′"} <= {*copies()["d(dJ/dW)/dh"]}
