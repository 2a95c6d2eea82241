"""Products of bfloat16 on devices that have instructions for them: the same values."""

from __future__ import annotations

import numpy as np
import pytest
from executors import needs_jax

import chainrule as cr
from chainrule.execute.xla import tracing

pytestmark = [needs_jax, pytest.mark.slow]
BF16 = cr.bfloat16.dtype


def test_products_read_bfloat16_and_add_up_in_float32(monkeypatch):
    monkeypatch.setattr(tracing, "has_narrow_products", lambda: True)
    made = []
    monkeypatch.setattr(
        tracing._Narrow,
        "matmul",
        lambda self, x, y: (
            made.append(x.dtype)
            or tracing.jax_here().numpy.matmul(x, y, preferred_element_type=np.float32)
        ),
    )

    def f(x: cr.bfloat16["3 5 6"], w: cr.bfloat16["3 6 7"], v: cr.bfloat16["7 2"]):
        return np.sum(np.tanh(np.einsum("bij,bjk->kbi", x, w).T @ v).astype(np.float32))

    random = np.random.default_rng(0)
    shapes = {"x": (3, 5, 6), "w": (3, 6, 7), "v": (7, 2)}
    given = {name: random.standard_normal(shape).astype(BF16) for name, shape in shapes.items()}
    graph = cr.backward(cr.trace(f), wrt=("x", "w", "v"))
    got, expected = graph.run(given, executor="xla").outputs, graph.run(given).outputs
    assert len(made) == 6
    assert set(made) == {BF16}
    for one, other in zip(got, expected, strict=True):
        scale = np.max(np.abs(other.astype(np.float64)))
        assert np.all(np.abs(one.astype(np.float64) - other.astype(np.float64)) <= 2**-7 * scale)
