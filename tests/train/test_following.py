"""`cr.follow` shows a running training: its history and norms of values, as lines that grow."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64, int64
from chainrule.explain.lines import line_chart

RANDOM = np.random.default_rng(0)
X, W = RANDOM.normal(size=(12, 3)), RANDOM.normal(size=(3, 2))
Y = RANDOM.integers(0, 2, 12)


def objective(x: float64["n 3"], y: int64["n"], W: float64["3 2"]):
    o = x @ W
    J = cr.cross_entropy(o, y)
    return J


def trainer(**options: Any) -> cr.Trainer:
    data = {"x": X, "y": Y}
    return cr.Trainer(
        objective, {"W": W}, cr.sgd(0.1), data, batch_size=4, progress=False, **options
    )


def test_every_line_of_the_history_has_its_norms() -> None:
    followed = trainer(log_every=1)
    view = cr.follow(followed, "dJ/dW", {"x": X, "y": Y})
    history = view.fit(2)
    assert [line["step"] for line in view.norms] == [line["step"] for line in history]
    p = cr.softmax(X @ followed.state["W"]) - np.eye(2)[Y]
    expected = np.linalg.norm(X.T @ p / 12)
    assert view.norms[-1]["dJ/dW"] == pytest.approx(expected, rel=1e-12)
    assert "dJ/dW" in view._repr_html_() and str(view).startswith("2 epochs, objective 1.")


def test_it_trains_as_the_trainer_does_and_is_followed_again() -> None:
    alone, followed = trainer(), trainer()
    alone.fit(3)
    view = cr.follow(followed, ["o", "dJ/dW"], {"x": X, "y": Y})
    for epoch in view.epochs(2):
        assert epoch.number == followed.epoch
        break
    view.fit(3)
    np.testing.assert_array_equal(followed.state["W"], alone.state["W"])
    assert followed._loop.history.listeners == [] and len(view.norms) == 3


def test_before_the_first_step_there_is_a_picture_that_says_so() -> None:
    assert "nothing to show yet" in cr.follow(trainer())._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3,), "a trainer is followed, got int"),
        ((None, "dJ/dW"), "norms are computed on a batch, and there is none"),
        ((None, "dJ/dV", {"x": X, "y": Y}), "dJ/dV"),
        ((None, "dJ/dW", {"x": X}), "y"),
    ],
)
def test_what_cannot_be_followed_is_said_at_once(arguments: Any, message: str) -> None:
    given = (trainer() if arguments[0] is None else arguments[0], *arguments[1:])
    with pytest.raises((cr.errors.InputError, KeyError), match=message):
        cr.follow(*given)


def test_lines_have_gaps_and_escaped_names() -> None:
    points = [(0, 1.0), (1, float("nan")), (2, 100.0), (3, 0.0), (4, 10.0)]
    svg = line_chart("a < b", {"<x>": points, "one": [(2, 5.0)]}, log=True)
    paths = [one.get("d", "") for one in ET.fromstring(svg).iter() if one.get("fill") == "none"]
    assert paths[0].count("M") == 3 and "L" not in paths[0]
    assert "a &lt; b" in svg and "&lt;x&gt;" in svg
    assert ET.fromstring(line_chart("", {"y": [(1, 2.0)]})) is not None


def test_many_points_are_few_in_the_picture() -> None:
    svg = line_chart("many", {"y": [(x, x % 7.0) for x in range(10_000)]})
    assert svg.count("L") < 500 and len(svg) < 10_000
