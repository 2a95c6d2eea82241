"""bfloat16 in what is said of a graph: memory to the byte, source that runs, equations, ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy_memory import peak_nbytes

import chainrule as cr
from chainrule.explain.memory.report import memory_of_step
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing import simulate

BF16 = cr.bfloat16.dtype
RANDOM = np.random.default_rng(0)


def objective(x: Any, y: Any, params: Any) -> Any:
    W, weight, bias = params
    h = cr.layer_norm(x @ W, weight, bias)
    a = cr.softmax(h @ h.T) @ cr.gelu(h)
    J = cr.cross_entropy(a @ W + h, y) + np.mean(a**2)
    return J


def given(n: int, dtype: Any = BF16) -> dict[str, Any]:
    W = RANDOM.standard_normal((8, 8)).astype(dtype)
    x = RANDOM.standard_normal((n, 8)).astype(dtype)
    params = [W, np.ones(8, dtype), np.zeros(8, dtype)]
    return {"params": params, "x": x, "y": RANDOM.integers(0, 8, n)}


@pytest.mark.parametrize("saved", [None, "bfloat16"])
@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float32)], ids=str)
def test_a_step_takes_what_its_report_says(dtype, saved, only_what_numpy_sees):
    arrays = given(64, dtype)
    params, batch = arrays.pop("params"), arrays
    types: dict[str, Any] = {"params": params, **batch}
    step = cr.training_step(
        objective, "params", cr.adam(), executor="reference", saved=saved, **types
    )
    state, report = step.init(params=params), memory_of_step(step, {})
    assert report.training is not None
    simulate(report.training.usage.schedule)
    there = sum(array.nbytes for array in (*batch.values(), *state.arrays.values()))
    there += report.training.usage.given_nbytes - sum(
        item.type.nbytes for item in report.training.graph.inputs
    )  # constants
    step(state, batch)
    assert peak_nbytes(lambda: step(state, batch)) == report.training.peak_nbytes - there


def mlp(x: cr.bfloat16["n 6"], W1: cr.bfloat16["6 5"], W2: cr.bfloat16["5 4"], rate: float = 0.25):
    z = x @ W1
    h = np.maximum(z, 0) * rate
    J = np.sum((h @ W2) ** 2)
    return J


ARRAYS = {
    name: RANDOM.standard_normal(shape).astype(BF16)
    for name, shape in {"x": (9, 6), "W1": (6, 5), "W2": (5, 4)}.items()
}


def test_the_source_has_the_same_bits():
    graph = cr.backward(cr.trace(mlp), wrt=("W1", "W2"))
    text = graph.python(name="mlp")
    assert "import ml_dtypes" in text
    assert "h = (t" in text
    scope: dict[str, Any] = {}
    exec(text, scope)
    for got, expected in zip(scope["mlp"](**ARRAYS), graph.run(ARRAYS).outputs, strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
    assert "ml_dtypes" not in cr.trace(lambda x: x * 2, np.ones(3)).python(comments=False)


def test_names_equations_and_pictures_are_those_of_float32():
    def wide(
        x: cr.float32["n 6"], W1: cr.float32["6 5"], W2: cr.float32["5 4"], rate: float = 0.25
    ):
        z = x @ W1
        h = np.maximum(z, 0) * rate
        J = np.sum((h @ W2) ** 2)
        return J

    graphs = [cr.backward(cr.trace(one), wrt=("W1", "W2")) for one in (mlp, wide)]
    assert list(graphs[0].names) == list(graphs[1].names)
    narrow, other = (str(graph.equations()) for graph in graphs)
    assert narrow == other
    one, other = (graph.draw().svg().count("<circle") for graph in graphs)
    assert one == other
    values = graphs[0].memory(n=100).values
    assert values["h"].nbytes == 100 * 5 * 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("primitive", PRIMITIVES[1:], ids=lambda one: one.name)
def test_the_source_of_every_primitive_has_the_same_bits(primitive):
    from test_python_source_bits import check_samples

    check_samples(primitive, [BF16])  # type: ignore[list-item]


@pytest.mark.peers
def test_onnx_computes_it_in_float32_between_casts():
    runtime = pytest.importorskip("onnxruntime")
    graph = cr.trace(
        lambda x, W: np.tanh(x.astype(BF16) @ W.astype(BF16)).astype(np.float32),
        x=cr.float32[9, 6],
        W=cr.float32[6, 5],
    )
    session = runtime.InferenceSession(graph.to_onnx())
    given = {name: ARRAYS[one].astype(np.float32) for name, one in (("x", "x"), ("W", "W1"))}
    (got,) = session.run(None, given)
    np.testing.assert_allclose(got, graph.run(given).outputs, rtol=2**-7)
