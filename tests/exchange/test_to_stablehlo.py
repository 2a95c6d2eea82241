"""Graphs as StableHLO programs of `jax.export` give the numbers of the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, int64
from chainrule.errors import InputError, UnsupportedError

jax = pytest.importorskip("jax")
export = pytest.importorskip("jax.export")
pytest.importorskip("flatbuffers")

pytestmark = pytest.mark.peers


def objective(x: float32["n 4"], y: int64["n"], W1: float32["4 8"], W2: float32["8 3"], decay=1e-3):
    h = np.tanh(x @ W1)
    o = h @ W2
    J = cr.cross_entropy(o, y) + decay / 2 * np.sum(W1**2)
    return J


def called(content: bytes, arrays: Any) -> Any:
    with jax.enable_x64(True):
        return export.deserialize(bytearray(content)).call(**arrays)


def test_a_training_step_runs_as_a_program_of_jax(tmp_path: Path):
    rng = np.random.default_rng(0)
    weights = {
        "W1": rng.normal(size=(4, 8)).astype("float32"),
        "W2": rng.normal(size=(8, 3)).astype("float32"),
    }
    batch = {"x": rng.normal(size=(5, 4)).astype("float32"), "y": rng.integers(0, 3, 5)}
    step = cr.training_step(objective, ("W1", "W2"), cr.sgd(0.1, momentum=0.9))
    state = step.init(weights)
    numbers = {
        one.name: np.asarray(one.default, one.node.dtype)
        for one in step.graph.inputs
        if isinstance(one.default, (int, float))
    }
    content = step.graph.bind(n=5).to_stablehlo(tmp_path / "step.mlir", parameters=numbers)
    assert "stablehlo.dot_general" in (tmp_path / "step.mlir").read_text()
    arrays = {name: np.array(array) for name, array in state.items()}
    for _ in range(3):
        found = called(content, {**batch, **arrays})
        arrays = {one.name: np.asarray(found[one.next_name]) for one in step.persistent}
        J = step(state, batch)
        np.testing.assert_allclose(found["J"], J, rtol=1e-5)
    assert not found["failed"]  # which says whether a label is out of range
    for name, array in state.items():
        np.testing.assert_allclose(arrays[name], array, rtol=2e-5, atol=1e-6)
    wrong = called(content, {**batch, "y": np.full(5, 3), **arrays})
    assert wrong["failed"]


def test_loops_and_gradients_are_exported(tmp_path: Path):
    def net(x: float32["5 3"], W: float32[3, 3]):
        last, hs = cr.scan(lambda h, row: (np.tanh(h @ W + row),) * 2, np.zeros(3, np.float32), x)
        y = cr.cond(np.sum(last) > 0, lambda: np.sum(hs**2), lambda: np.sum(hs))
        return y

    graph = cr.backward(cr.trace(net), wrt="W")
    W = np.eye(3, dtype=np.float32) / 2
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    graph.to_stablehlo(tmp_path / "net.bin", parameters={"W": W})
    found = called((tmp_path / "net.bin").read_bytes(), {"x": x})
    run = graph.run(x=x, W=W)
    assert list(found) == ["dy/dW", "failed", "y"] and not found["failed"]
    np.testing.assert_allclose(found["dy/dW"], run["dy/dW"], rtol=1e-5)


def test_what_no_program_has_is_refused():
    graph = cr.trace(objective)
    with pytest.raises(UnsupportedError, match=r"has n\n.*graph\.bind\(n=256\)\.to_stablehlo"):
        graph.to_stablehlo()
    with pytest.raises(InputError, match="the parameter W1 is float64"):
        graph.bind(n=2).to_stablehlo(parameters={"W1": np.ones((4, 8))})


def test_without_jax_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    from chainrule.execute.xla import jax_here

    jax_here.jax_here.cache_clear()
    monkeypatch.setattr(jax_here, "refusal", lambda: "needs JAX, which is not installed")
    try:
        with pytest.raises(UnsupportedError, match="needs JAX, which is not installed"):
            cr.trace(objective).bind(n=2).to_stablehlo()
    finally:
        jax_here.jax_here.cache_clear()
