"""`cr.follow` shows a running training: its history and norms of values, as lines that grow."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64, int64
from chainrule.explain.plot import Axis, Plot, Series

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
    points = [(0, 1.0), (1, float("nan")), (2, 100.0), (3, 0.0), (4, 10.0), (5, 1.0)]
    series = [Series("<x>", points, dots=False), Series("one", [(2, 5.0)])]
    up = Axis("", str, logarithmic=True)
    svg = Plot("a < b", Axis("step", str), up, series, "x & one").svg()
    (path, _) = (
        one.get("d", "")
        for one in ET.fromstring(svg).iter()
        if one.get("class") == "line" and "h22" not in one.get("d", "")
    )
    assert path.count("M") == 3 and path.count("L") == 1
    assert "a &lt; b" in svg and "&lt;x&gt;" in svg and "x &amp; one" in svg


def test_a_long_line_is_drawn_by_some_of_its_points_and_its_last() -> None:
    points = [(float(at), 1.0 + at) for at in range(10_001)]
    axis = Axis("", str, from_zero=False)
    svg = Plot("t", axis, axis, [Series("", points, dots=False)], "d").svg()
    path = next(one.get("d", "") for one in ET.fromstring(svg).iter() if one.get("class") == "line")
    assert 380 < path.count("L") <= 401 and path.startswith("M116.6 ")
    assert path.rpartition("L")[2].startswith("659.4 ")


@pytest.mark.parametrize("highest", [*np.linspace(0.9, 10, 40), 1e-9, 0.0, -3.0, 1e12])
@pytest.mark.parametrize("lowest", [0.0, 5.0])
def test_marks_of_an_axis_are_two_to_twelve_round_numbers(highest: float, lowest: float) -> None:
    for from_zero in (True, False):
        axis = Axis("", lambda value: f"mark {value:.6g}", from_zero=from_zero)
        points = [(0.0, lowest), (1.0, float(highest))]
        svg = Plot("t", Axis("", str), axis, [Series("", points)], "d").svg()
        assert 2 <= svg.count("mark ") <= 12


def test_a_style_holds_for_its_own_picture_alone() -> None:
    axis = Axis("", str)
    svg = Plot("t", axis, axis, [Series("", [(1.0, 2.0)])], "d").svg()
    style = next(one.text or "" for one in ET.fromstring(svg).iter() if one.tag.endswith("style"))
    rules = style.replace("@media screen and (prefers-color-scheme:dark){", "").split("}")
    assert len(rules) > 20 and all(one.startswith("#p") for one in rules if one)


def test_labels_are_beside_steps_and_next_to_their_points() -> None:
    points = [(1.0, 5.0), (3.0, 2.0), (4.0, 1.0)]
    stairs = Series("", points, dots=False, steps=True)
    labels = ["first one", "", "the last of all points"]
    named = Series("", points, line=False, labels=labels)
    axis = Axis("", str)
    svg = Plot("t", axis, axis, [stairs, named], "d").svg()
    dots = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', svg)
    label = r'x="([\d.]+)" y="([\d.]+)" font-size="11" text-anchor="(\w+)">'
    first = re.search(f"{label}{labels[0]}", svg)
    last = re.search(f"{label}{labels[2]}", svg)
    assert first is not None and last is not None
    assert float(first[2]) < float(dots[0][1]) - 5  # above its step
    assert last[3] == "end" and float(dots[2][0]) - float(last[1]) == 8
