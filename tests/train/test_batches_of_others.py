"""Batches as other libraries make them: tuples, lists, single arrays and tensors, DataLoaders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64, int64

KEY = cr.random.key(3)


def objective(
    W: float64["4 3"], x: float64["n 4"], key: cr.uint32["2"], y: int64["n"], rate: float = 0.0
) -> Any:
    o = cr.dropout(x, rate, key=key) @ W
    J = cr.cross_entropy(o, y)
    return J


def data(count: int = 20) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        "x": generator.standard_normal((count, 4)),
        "y": generator.integers(0, 3, count),
    }


def batches(kind: Any, size: int = 8) -> list[Any]:
    made = cr.data.minibatches(data(), size, shuffle=False)
    return [kind((batch["x"], batch["y"])) for batch in made]


def trained(given: Any, epochs: int = 2) -> np.ndarray:
    weights = {"W": np.zeros((4, 3))}
    trainer = cr.Trainer(objective, weights, cr.sgd(0.5), given, batch_size=8, key=KEY)
    trainer.fit(epochs)
    return trainer.state["W"]


def by_name(epoch: int) -> Any:
    return cr.data.minibatches(data(), 8, shuffle=False)


@pytest.mark.parametrize("kind", [tuple, list])
def test_a_trainer_takes_batches_in_the_order_of_the_arguments(kind: Any):
    expected = trained(by_name)
    np.testing.assert_array_equal(trained(batches(kind)), expected)
    np.testing.assert_array_equal(trained(lambda epoch: batches(kind)), expected)
    np.testing.assert_array_equal(trained(list(by_name(1))), expected)


def test_evaluate_and_predict_take_them_too():
    weights = {"W": np.random.default_rng(1).standard_normal((4, 3))}
    expected = cr.evaluate(objective, weights, data(), accuracy=("o", "y"))
    found = cr.evaluate(objective, weights, batches(tuple), accuracy=("o", "y"))
    assert (found.objective, found.accuracy) == pytest.approx(
        (expected.objective, expected.accuracy), rel=1e-12
    )
    scores = cr.predict(objective, weights, data(), "o")
    only_x = [x for x, _ in batches(tuple)]
    np.testing.assert_allclose(cr.predict(objective, weights, batches(list), "o"), scores)
    np.testing.assert_allclose(cr.predict(objective, weights, only_x, "o"), scores)


def test_what_an_output_does_not_need_keeps_its_place():
    """Parameters that the value does not need are no data, wherever they stand."""

    def two(unused: float64["2 2"], x: float64["n 4"], W: float64["4 3"]) -> Any:
        h = x @ W
        J = np.sum(h) + np.sum(unused)
        return J

    weights = {"unused": np.ones((2, 2)), "W": np.ones((4, 3))}
    found = cr.predict(two, weights, [(data()["x"],)], "h")
    np.testing.assert_allclose(found, data()["x"] @ weights["W"])


@pytest.mark.peers
def test_a_dataloader_is_data():
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    tensors = TensorDataset(*[torch.from_numpy(array) for array in data().values()])
    loader = DataLoader(tensors, batch_size=8)
    np.testing.assert_array_equal(trained(loader), trained(by_name))
    examples: Any = [{k: v[i] for k, v in data().items()} for i in range(20)]
    of_dicts = DataLoader(examples, batch_size=8)
    np.testing.assert_array_equal(trained(of_dicts), trained(by_name))
    weights = {"W": np.ones((4, 3))}
    found = cr.evaluate(objective, weights, loader)
    assert found.objective == pytest.approx(cr.evaluate(objective, weights, data()).objective)
