"""Every primitive as an ONNX model gives what the reference executor does, in its samples."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.peers
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_onnxruntime import agrees, ran  # noqa: E402

import chainrule as cr  # noqa: E402
from chainrule.control.cond_node import cond  # noqa: E402
from chainrule.control.scan_node import scan  # noqa: E402
from chainrule.control.while_node import unwind, while_  # noqa: E402
from chainrule.exchange.to_onnx.programs import PROGRAMS  # noqa: E402
from chainrule.primitives.primitive import Primitive, Sample  # noqa: E402
from chainrule.primitives.registry import PRIMITIVES  # noqa: E402
from chainrule.primitives.sources import input_  # noqa: E402
from chainrule.testing.samples import sample_arrays, sample_graph  # noqa: E402

ALL = (*[one for one in PRIMITIVES if one is not input_], scan, cond, while_, unwind)


# Primitives that no operator of ONNX computes to the last digits but one.
QUICK = [
    one
    for one in ALL
    if one.name not in PROGRAMS or one.name in ("erfc", "lu", "solve", "eigvalsh")
]


def check_sample(primitive: Primitive, sample: Sample, dtype: str) -> None:
    arrays = sample_arrays(sample, dtype=dtype if sample.dtype.startswith("float") else None)
    try:
        graph = sample_graph(primitive, sample, arrays)
    except TypeError:
        return  # bodies of other types
    names = [item.name for item in graph.inputs]
    agrees(graph, dict(zip(names, arrays, strict=True)))


@pytest.mark.parametrize("primitive", QUICK, ids=lambda one: one.name)
def test_every_primitive_is_written(primitive: Primitive) -> None:
    for sample in primitive.samples[:1]:
        check_sample(primitive, sample, "float32")


@pytest.mark.slow
@pytest.mark.sweep(5)
@pytest.mark.parametrize("primitive", ALL, ids=lambda one: one.name)
def test_every_sample_is_written(primitive: Primitive) -> None:
    if primitive.name in PROGRAMS:  # which are long, two of them very long
        if primitive.name not in ("betaln", "bessel_derivative"):
            check_sample(primitive, primitive.samples[1], "float64")
        return
    for place, sample in enumerate(primitive.samples):  # the first was written in float32
        check_sample(primitive, sample, ("float64", "float32")[place % 2])


@pytest.mark.exhaustive
@pytest.mark.parametrize("primitive", ALL, ids=lambda one: one.name)
def test_every_sample_in_both_floats(primitive: Primitive) -> None:
    for sample in primitive.samples:
        for dtype in ("float32", "float64"):
            check_sample(primitive, sample, dtype)


def matrices(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "stack":
        return rng.normal(size=(2, 3, 5, 5))
    q, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    values = {"singular": [0, 0, 1, 2, 3, 3, 3, 5, 5, 5, 6, 1], "large": 1e6 * np.arange(1, 13)}
    return q @ np.diag(values[kind]) @ q.T


@pytest.mark.slow
@pytest.mark.sweep(3)
@pytest.mark.parametrize("kind", ["stack", "large", "singular"])
def test_matrices_of_other_sizes(kind: str) -> None:
    """Factors give the matrix, and have orthogonal columns, also where values are equal or 0."""
    x = matrices(kind)
    square = np.linalg.inv(x) if kind != "singular" else np.linalg.pinv(x, rtol=1e-12)

    def f(x):
        inverse = np.linalg.pinv(x, rtol=1e-12) if kind == "singular" else np.linalg.inv(x)
        values, vectors = np.linalg.eigh(x + np.swapaxes(x, -1, -2))
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        return inverse, values, vectors, u, s, vh, np.linalg.eigvalsh(x), cr.expm(x / 1e6)

    inverse, values, vectors, u, s, vh, others, power = ran(cr.trace(f, x=x).to_onnx(), {"x": x})

    def close(found: np.ndarray, wanted: np.ndarray) -> None:
        np.testing.assert_allclose(found, wanted, atol=1e-12 * np.max(np.abs(wanted)))

    def transposed(x: np.ndarray) -> np.ndarray:
        return np.swapaxes(x, -1, -2)

    unit = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    close(inverse, square)
    close(vectors * values[..., None, :] @ transposed(vectors), x + transposed(x))
    close(u * s[..., None, :] @ vh, x)
    for one in (vectors, u, transposed(vh)):
        close(transposed(one) @ one, unit)
    close(others, np.linalg.eigvalsh(x))
    close(power, np.asarray(cr.expm(x / 1e6)))
