"""Steps of bfloat16: trained by each executor, kept in files, split, and as PyTorch has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import bfloat16, float32, int64
from chainrule.errors import CastWarning, UnsupportedError

BF16 = bfloat16.dtype
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(BF16)


X, Y = normal(16, 8), RANDOM.integers(0, 4, 16)
PARAMETERS = {"W1": normal(8, 12), "b1": normal(12), "W2": normal(12, 4)}


def mlp(
    x: bfloat16["n 8"],
    y: int64["n"],
    W1: bfloat16["8 12"],
    b1: bfloat16["12"],
    W2: bfloat16["12 4"],
):
    z = x @ W1 + b1
    h = np.maximum(z, 0)
    o = h @ W2
    J = cr.cross_entropy(o.astype(np.float32), y)
    return J


def mixed(x: float32["n 8"], y: int64["n"], W1: float32["8 12"], W2: float32["12 4"]):
    h = np.tanh(x.astype(bfloat16) @ W1.astype(bfloat16))
    o = h @ W2.astype("bfloat16")
    J = cr.cross_entropy(o.astype(np.float32), y)
    return J


def step_of(executor: str = "reference") -> cr.TrainingStep:
    return cr.training_step(mlp, tuple(PARAMETERS), cr.adam(0.01), executor=executor)


@EITHER
def test_parameters_are_updated_in_float32_and_stored_in_two_bytes(executor):
    step = step_of(executor)
    state, expected = step.init(**PARAMETERS), step_of().init(**PARAMETERS)
    losses = [float(step(state, x=X, y=Y)) for _ in range(10)]
    reference = step_of()
    exact = [float(reference(expected, x=X, y=Y)) for _ in range(10)]
    assert state["W1"].dtype == BF16
    assert state["W1_m"].dtype == np.float32
    assert losses[-1] < 0.9 * losses[0]
    np.testing.assert_allclose(losses, exact, rtol=0.02)


@EITHER
def test_mixed_precision_keeps_parameters_in_float32(executor):
    parameters = {"W1": PARAMETERS["W1"], "W2": PARAMETERS["W2"]}
    wide = {name: one.astype(np.float32) for name, one in parameters.items()}
    step = cr.training_step(mixed, ("W1", "W2"), cr.sgd(0.5), executor=executor)
    state = step.init(**wide)
    losses = [float(step(state, x=X.astype(np.float32), y=Y)) for _ in range(20)]
    assert state["W1"].dtype == np.float32
    assert step.graph["h"].dtype == step.graph["dJ/dh"].dtype == BF16
    assert step.graph["dJ/dW1"].dtype == np.float32
    assert losses[-1] < 0.9 * losses[0]


def test_parts_of_a_batch_and_replicas_take_the_same_steps():
    step = step_of()
    states = [step.init(**PARAMETERS) for _ in range(3)]
    steps: list[Any] = [step, step.micro_batched(2), cr.parallel(step, micro_batches=2, replicas=2)]
    for _ in range(3):
        losses = [float(one(state, x=X, y=Y)) for one, state in zip(steps, states, strict=True)]
        np.testing.assert_allclose(losses, losses[0], rtol=0.01)


def test_files_keep_it(tmp_path: Path, monkeypatch):
    step = step_of()
    state = step.init(**PARAMETERS)
    step(state, x=X, y=Y)
    np.savez(tmp_path / "state.npz", **state)
    checkpoints = cr.Checkpoints(tmp_path / "kept", step)
    checkpoints.save(state)
    found = checkpoints.load()
    assert found is not None
    cr.save_weights(tmp_path / "weights.safetensors", state.parameters)
    weights = cr.load_weights(tmp_path / "weights.safetensors")
    with np.load(tmp_path / "state.npz") as file:
        again = step.restore(file)
    for name in PARAMETERS:
        for one in (again[name], found.arrays[name], weights[name]):
            assert one.dtype == BF16
            np.testing.assert_array_equal(one, state[name])
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    for load in (checkpoints.load, lambda: cr.load_weights(tmp_path / "weights.safetensors")):
        with pytest.raises(UnsupportedError, match="ml_dtypes, which is not installed"):
            load()


def test_float32_is_cast_to_it_and_said():
    wide = {name: one.astype(np.float32) for name, one in PARAMETERS.items()}
    with pytest.warns(CastWarning, match=r"(?s)cast to bfloat16.*ml_dtypes\.bfloat16\)"):
        assert step_of().init(**wide)["W1"].dtype == BF16


@pytest.mark.peers
def test_gradients_are_those_of_pytorch_but_for_roundings():
    torch = pytest.importorskip("torch")
    given = {"x": X, **PARAMETERS}
    own = {name: torch.tensor(a.astype(np.float32)).bfloat16() for name, a in given.items()}
    for name in PARAMETERS:
        own[name].requires_grad_()
    h = torch.relu(own["x"] @ own["W1"] + own["b1"])
    torch.nn.functional.cross_entropy((h @ own["W2"]).float(), torch.tensor(Y)).backward()
    run = cr.backward(cr.trace(mlp), wrt=tuple(PARAMETERS)).run(x=X, y=Y, **PARAMETERS)
    for name in PARAMETERS:
        expected = own[name].grad.float().numpy()
        got = run[f"dJ/d{name}"].astype(np.float32)
        assert own[name].grad.dtype == torch.bfloat16
        assert np.max(np.abs(got - expected)) <= 2**-6 * np.max(np.abs(expected))
