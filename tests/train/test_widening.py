"""A warning where float32 parameters train in float64 because of a constant of NumPy's."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64
from chainrule.errors import PrecisionWarning

TABLE = np.arange(8.0)


def by_a_number(x: float32["n 8"], W: float32["8 8"]):
    scores = x @ W / np.sqrt(8)
    J = np.mean(scores**2)
    return J


def by_an_array(x: float32["n 8"], W: float32["8 8"]):
    J = np.mean(np.tanh(x @ W + TABLE) ** 2)
    return J


def narrow(x: float32["n 8"], W: float32["8 8"]):
    h = x @ W / 8 * math.sqrt(2) * np.float32(3) + TABLE.astype(np.float32)
    J = np.mean(h**2)
    return J


def cast_on_purpose(x: float32["n 8"], W: float32["8 8"]):
    h = (x @ W).astype(np.float64) * np.sqrt(8)
    J = np.mean(h**2)
    return J


def wide_by_its_input(x: float64["n 8"], W: float32["8 8"]):
    J = np.mean((x @ W) ** 2)
    return J


def only_the_last_number(x: float32["n 8"], W: float32["8 8"]):
    J = np.mean((x @ W) ** 2) * np.float64(2)
    return J


def wide_parameters(x: float32["n 8"], W: float64["8 8"]):
    J = np.mean((x @ W / np.sqrt(8)) ** 2)
    return J


def test_a_number_of_numpys_names_its_line():
    with pytest.warns(PrecisionWarning) as caught:
        cr.training_step(by_a_number, "W", cr.sgd(0.1))
    (text,) = [str(one.message) for one in caught]
    assert text.startswith(
        "J is computed in float64, though its parameters are float32: "
        "in scores a value of float32 meets a number of float64 of NumPy's"
    )
    assert "scores = x @ W / np.sqrt(8)" in text and __file__ in text
    assert "math.sqrt(...)" in text and "x.astype(np.float32)" in text
    assert caught[0].filename == __file__


def test_an_array_that_is_closed_over_is_named_by_its_type():
    with pytest.warns(PrecisionWarning, match=r"here a value .* meets an array float64\[8\]"):
        cr.training_step(by_an_array, "W", cr.sgd(0.1))


@pytest.mark.parametrize(
    "objective",
    [narrow, cast_on_purpose, wide_by_its_input, only_the_last_number, wide_parameters],
)
def test_what_is_meant_is_not_warned_of(objective):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.training_step(objective, "W", cr.sgd(0.1))
