"""An objective that grows with the batch is told from a mean, which parts of a batch need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parallel_models import MODELS, ROWS

import chainrule as cr
from chainrule.devices.planning.growth import growth
from chainrule.errors import InputError


def summed(x: cr.float64["n 4"], W: cr.float64["4 4"], b=0.5):
    J = np.sum((x @ W) ** 2) + b * np.sum(W**2)
    return J


def test_a_sum_over_the_batch_is_not_cut_unasked() -> None:
    step = cr.training_step(summed, "W", cr.sgd(0.1))
    with pytest.raises(InputError) as caught:
        cr.parallel(step, cr.Devices.cpu(2), batch=ROWS)
    assert caught.value.what.startswith("J grows with n, and a plan takes the mean of the parts")
    assert "test_sums_over_the_batch.py" in caught.value.where
    assert cr.parallel(step, cr.Devices.cpu(2), batch=ROWS, micro_batches=8).parts.count == 8


@pytest.mark.parametrize(
    ("function", "power"),
    [
        (lambda x: np.sum(x**2), 1),
        (lambda x: np.sum(x**2) / x.shape[0], 0),
        (lambda x: np.mean(x) + 3.0, 0),
        (lambda x: np.sum(x) + 3.0, 1),
        (lambda x: np.sum(x.T @ x), 1),
        (lambda x: np.sum(np.einsum("ni,nj->ij", x, x)) / x.shape[0], 0),
        (lambda x: np.sum(np.einsum("ni,ni->n", x, x)), 1),
        (lambda x: np.max(x), 0),
        (lambda x: np.mean(np.max(x, 1)), 0),
        (lambda x: np.sum(np.mean(x, 0)), 0),
        (lambda x: np.mean(x.reshape(-1)), 0),
        (lambda x: np.log(np.sum(x)), None),
        (lambda x: np.sum(np.cumsum(x, 0)[-1]), None),
    ],
)
def test_growth_with_the_batch(function: Any, power: int | None) -> None:
    graph = cr.trace(function, x=cr.float64["n 4"])
    assert growth(graph, graph.outputs[0][1], "n") == power


@pytest.mark.parametrize("model", sorted(MODELS.keys() - {"recurrent"}))
def test_no_mean_is_taken_for_a_sum(model: str) -> None:
    graph = cr.trace(MODELS[model][0])
    assert growth(graph, graph.outputs[0][1], "n") == 0
