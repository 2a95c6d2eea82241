"""Data with the time as their first axis: what cannot be cut is refused, the rest is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64, int64
from chainrule.errors import ShapeError


def objective(x: float64["t n d"], y: int64["n"], W: float64["d 3"]) -> Any:
    start = np.zeros_like(x, shape=(y.shape[0], 3))
    o, _ = cr.scan(lambda h, row: (np.tanh(h + row @ W), None), start, x)
    J = cr.cross_entropy(o, y)
    return J


@pytest.fixture
def data() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {"x": random.normal(size=(6, 8, 4)), "y": random.integers(0, 3, 8)}


WEIGHTS = {"W": np.linspace(-1, 1, 12).reshape(4, 3)}


@pytest.mark.parametrize("time", [6, 8])
def test_arrays_that_would_be_cut_along_the_time_are_refused(time: int) -> None:
    data = {"x": np.zeros((time, 8, 4)), "y": np.zeros(8, int)}
    calls = [
        lambda: cr.Trainer(objective, WEIGHTS, cr.sgd(0.1), data, progress=False),
        lambda: cr.Trainer(
            objective,
            WEIGHTS,
            cr.sgd(0.1),
            lambda epoch: [data],
            validation=data,
            progress=False,
        ),
        lambda: cr.evaluate(objective, WEIGHTS, data),
    ]
    for call in calls:
        with pytest.raises(ShapeError) as caught:
            call()
        assert "n in y: int64[n], which is axis 1 in x: float64[t, n, d]" in caught.value.what
        assert "np.moveaxis(x, 0, 1)" in caught.value.hint
        assert "data=lambda epoch: [...]" in caught.value.hint


def test_rows_are_counted_along_the_axis_of_the_labels(data: dict[str, np.ndarray]) -> None:
    measures = cr.evaluate(objective, WEIGHTS, [data], accuracy=("o", "y"))
    assert measures.count == 8
    trainer = cr.Trainer(
        objective,
        WEIGHTS,
        cr.sgd(0.0),
        lambda epoch: [data],
        accuracy=("o", "y"),
        progress=False,
    )
    (epoch,) = trainer.epochs(1)
    assert epoch.accuracy == measures.accuracy
    assert epoch.objective == pytest.approx(measures.objective)


def test_parts_of_such_a_batch_are_cut_along_the_named_size(data: dict[str, np.ndarray]) -> None:
    step = cr.training_step(objective, wrt="W", optimizer=cr.sgd(0.5))
    parts = step.micro_batched(4, size="n")
    trainer = cr.Trainer(parts, WEIGHTS, data=lambda epoch: [data], progress=False, key=None)
    trainer.fit(2)
    state = step.init(WEIGHTS)
    for _ in range(2):
        step(state, data)
    np.testing.assert_allclose(trainer.state["W"], state["W"], rtol=1e-12)
    assert trainer._loop.feed.count(data) == 8


def test_sequences_with_the_rows_first_are_cut_as_ever() -> None:
    def rows_first(x: float64["n t d"], y: float64["n t"], w: float64["d"]) -> Any:
        J = np.mean((x @ w - y) ** 2)
        return J

    data = {"x": np.ones((6, 5, 2)), "y": np.ones((6, 5))}
    assert cr.evaluate(rows_first, {"w": np.zeros(2)}, data, batch_size=4).count == 6
