"""Dropout keeps the mean, is the identity without a key, and has the derivatives of its mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, uint32
from chainrule.testing import check_gradients

n = cr.size("n")
KEY = cr.random.key(11)


def test_what_is_kept_grows_so_that_the_mean_stays() -> None:
    x = np.full((400, 250), 2.0, np.float32)
    dropped = cr.dropout(x, 0.25, key=KEY)
    assert dropped.dtype == np.float32
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(2) / np.float32(0.75)}
    # the standard deviation of the mean is 2 sqrt(1/3) / sqrt(100,000) = 0.0037
    assert abs(dropped.mean() - 2) < 0.015
    assert abs((dropped == 0).mean() - 0.25) < 0.006


def test_without_a_key_it_is_the_identity() -> None:
    def program(x: float32[n, 3]) -> Any:
        h = np.exp(x)
        return cr.dropout(h, 0.5)

    graph = cr.trace(program)
    assert graph.outputs[0][1] is graph["h"]
    x = np.ones(3)
    assert cr.dropout(x, 0.5) is x


@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rate_0_keeps_and_rate_1_drops_everything(dtype: Any, executor: str) -> None:
    x = np.linspace(-3, 4, 40, dtype=dtype)

    def J(x: Any, key: Any, rate: float) -> Any:
        return np.sum(cr.dropout(x, rate, key=key) ** 2) / 2

    run = cr.value_and_grad(J, wrt=("x", "rate"), executor=executor)
    for plain in (0, 0.0):
        np.testing.assert_array_equal(cr.dropout(x, plain, key=KEY), x)
    np.testing.assert_array_equal(cr.dropout(x, 1, key=KEY), np.zeros_like(x))
    value, (slope, _) = run(x, KEY, 0.0)
    np.testing.assert_allclose(value, np.sum(x**2) / 2, rtol=1e-6)
    np.testing.assert_array_equal(slope, x)
    value, (slope, by_rate) = run(x, KEY, 1.0)
    assert value == 0 and by_rate == 0
    np.testing.assert_array_equal(slope, np.zeros_like(x))


def test_its_derivatives_are_those_of_finite_differences() -> None:
    x = np.linspace(-1, 2, 12).reshape(3, 4)

    def J(x: Any, rate: Any) -> Any:
        return np.sin(cr.dropout(x, rate, key=KEY))

    # The mask is flat in the rate, so that differences see the scale alone.
    check_gradients(J, x, np.array(0.4))


def test_one_mask_for_all_dtypes_and_forms_of_the_rate() -> None:
    x = np.ones((30, 7))
    mask = cr.dropout(x, 0.4, key=KEY) != 0
    np.testing.assert_array_equal(mask, cr.random.bernoulli(KEY, 0.6, x.shape))
    for like in (np.float32, np.int64):
        np.testing.assert_array_equal(cr.dropout(x.astype(like), 0.4, key=KEY) != 0, mask)
    graph = cr.trace(lambda x, rate, key: cr.dropout(x, rate, key=key), x, 0.4, KEY)
    for executor in ("reference", "native"):
        found = graph.run(x=x, rate=0.4, key=KEY, executor=executor).outputs
        np.testing.assert_array_equal(found != 0, mask)


def test_a_key_that_is_closed_over_serves_named_sizes() -> None:
    def program(x: float32[n, 3]) -> Any:
        return cr.dropout(x, 0.5, key=KEY)

    x = np.ones((5, 3), np.float32)
    found = cr.trace(program).run(x=x).outputs
    np.testing.assert_array_equal(found, cr.dropout(x, 0.5, key=KEY))


def test_a_call_is_one_scope_whose_result_has_the_users_name() -> None:
    def program(x: float32[n], key: uint32[2], rate: float = 0.5) -> Any:
        h = cr.dropout(x, rate, key=key)
        return np.sum(h)

    graph = cr.trace(program)
    scope = graph["h"].origin.scope
    assert scope is not None and (scope.symbol, scope.result) == ("dropout", (graph["h"],))
    assert dict(scope.arguments)["key"] is graph["key"]


def test_a_training_step_takes_another_mask_at_each_step_and_the_same_ones_again() -> None:
    def objective(x: Any, key: Any, W: Any, step: Any, rate: float = 0.5) -> Any:
        h = cr.dropout(np.tanh(x @ W), rate, key=cr.random.fold_in(key, step))
        return np.mean(h**2)

    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    W = np.full((3, 5), 0.1, np.float32)
    values = []
    for executor in ("reference", "native", "native"):
        types = {"x": x, "key": KEY, "W": W, "step": np.int64(0)}
        step = cr.training_step(objective, "W", cr.sgd(0.0), executor=executor, **types)
        state = step.init(W=W)
        found = [step(state, x=x, key=KEY, step=np.int64(k)) for k in range(3)]
        values.append([float(one) for one in found])
    assert len(set(values[0])) == 3
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)
    assert values[1] == values[2]


@pytest.mark.peers
def test_the_mask_is_the_one_of_jax() -> None:
    jax = pytest.importorskip("jax")
    x = np.linspace(1, 2, 600, dtype=np.float32).reshape(20, 30)
    keep = jax.random.bernoulli(jax.random.key(11), 0.7, x.shape)
    expected = np.where(np.asarray(keep), x / np.float32(0.7), 0)
    np.testing.assert_array_equal(cr.dropout(x, 0.3, key=KEY), expected)
