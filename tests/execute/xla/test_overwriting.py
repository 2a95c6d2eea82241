"""Steps of the executor `xla` overwrite parameters where they lie, and copy none before."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, int64
from chainrule.execute.xla import code

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("jax_on_cpu")]
COPY = re.compile(r" = f32\[([\d,]*)\]\S* copy\(")
ROWS, WIDTHS = 24, (120, 100, 90, 110)


def network(
    x: float32[ROWS, 120],
    y: int64[ROWS],
    W1: float32[120, 100],
    W2: float32[100, 90],
    W3: float32[90, 110],
):
    h1 = np.maximum(x @ W1, 0)
    h2 = np.tanh(h1 @ W2)
    L = cr.cross_entropy(h2 @ W3, y)
    s = 0.01 * (np.sum(W1**2) + np.sum(W2**2) + np.sum(W3**2))
    J = L + s
    return J


def arrays(seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The parameters and a batch of `network`."""
    random = np.random.default_rng(seed)
    shapes = {f"W{number}": pair for number, pair in enumerate(pairwise(WIDTHS), 1)}
    params = {name: random.normal(size=shape).astype("f") / 5 for name, shape in shapes.items()}
    x = random.normal(size=(ROWS, WIDTHS[0])).astype("f")
    return params, {"x": x, "y": random.integers(0, WIDTHS[-1], ROWS)}


def trained(optimizer: Any, steps: int = 3, executor: str = "xla", **changed: Any) -> list[Any]:
    """Objectives and parameters of some steps."""
    params, batch = arrays()
    step = cr.training_step(network, ["W1", "W2", "W3"], optimizer, executor=executor)
    state = step.init(**params)
    with np.errstate(all="ignore"):
        objectives = [step(state, **{**batch, **changed}) for _ in range(steps)]
    return [*objectives, *(state[name] for name in params)]


@pytest.mark.parametrize("optimizer", [cr.sgd(0.1), cr.adam(1e-3)], ids=["sgd", "adam"])
def test_no_weight_is_copied(optimizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {f"{rows},{columns}" for rows, columns in pairwise(WIDTHS)}
    copied, values = [], []
    for is_late in (True, False):
        if not is_late:
            monkeypatch.setattr(code, "late_readers", lambda order, overwritten: {})
        code._codes.clear()
        values.append(trained(optimizer))
        (made,) = code._codes.values()
        copied.append(shapes & set(COPY.findall(made.text)))
    assert copied == [set(), shapes]  # what XLA does by itself
    for found, wanted in zip(*values, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_choose_no_other_way(value: float) -> None:
    x = arrays()[1]["x"]
    x[3, 2] = value
    found, wanted = (trained(cr.sgd(0.1), 2, one, x=x) for one in ("xla", "reference"))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert np.isnan(found[0])


def test_new_values_that_read_each_other() -> None:
    """Each reads what the other overwrites, and none can wait."""

    def turned(a: float32[9000], b: float32[9000]):
        J = np.sum(a * b)
        return J

    step = cr.training_step(turned, ["a", "b"], cr.sgd(0.5), executor="xla")
    a, b = np.arange(9000, dtype="f"), np.ones(9000, "f")
    state = step.init(a=a, b=b)
    for _ in range(2):
        np.testing.assert_allclose(step(state), np.sum(a * b), rtol=1e-5)
        a, b = a - np.float32(0.5) * b, b - np.float32(0.5) * a
        np.testing.assert_array_equal(state["a"], a)
        np.testing.assert_array_equal(state["b"], b)
