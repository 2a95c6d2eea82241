"""Products of windows are convolutions on XLA, with the values of the reference executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("jax")]
RANDOM = np.random.default_rng(6)


@pytest.fixture(scope="module")
def jax() -> Any:
    return pytest.importorskip("jax")


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [RANDOM.normal(size=shape).astype(np.float32) for shape in shapes]


IMAGES = (2, 3, 11, 9), (4, 3, 3, 2)
CASES = {
    "plain": (lambda x, k: cr.conv2d(x, k), IMAGES),
    "padded": (lambda x, k: cr.conv2d(x, k, padding=1), IMAGES),
    "strided, rows are left": (lambda x, k: cr.conv2d(x, k, stride=(3, 2)), IMAGES),
    "dilated": (lambda x, k: cr.conv2d(x, k, dilation=(2, 3), stride=2), IMAGES),
    "one channel": (lambda x, k: cr.conv2d(x, k), ((1, 1, 6, 6), (1, 1, 2, 2))),
    "groups": (lambda x, k: cr.conv2d(x, k, groups=2), ((2, 4, 6, 5), (6, 2, 3, 3))),
    "in one dimension": (lambda x, k: cr.conv1d(x, k, stride=2), ((2, 3, 12), (4, 3, 3))),
    "pooled": (lambda x, k: cr.max_pool2d(cr.conv2d(x, k), 3, stride=2), IMAGES),
}


def curved(f: Any, x: Any, k: Any) -> Any:
    """With second derivatives."""
    J = np.sum(np.tanh(f(x, k)))
    return J + np.sum(cr.grad(lambda x: np.sum(np.tanh(f(x, k))), wrt=0)(x) ** 2)


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives_agree(name: str) -> None:
    f, shapes = CASES[name]
    x, k = arrays(*shapes)
    both = cr.value_and_grad(lambda x, k: curved(f, x, k), wrt=(0, 1))
    graph = cr.compile(both, executor="reference")
    (J, want), (found, got) = graph(x, k), cr.compile(both, executor="xla")(x, k)
    np.testing.assert_allclose(found, J, rtol=1e-5)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5 * np.abs(other).max())


def test_a_convolution_copies_no_windows() -> None:
    from chainrule.execute.xla import jax_here
    from chainrule.execute.xla.xla_executor import XLA

    x, k = (cr.float32[shape] for shape in IMAGES)
    graph = cr.trace(lambda x, k: cr.conv2d(x, k, padding=1), x=x, k=k)
    made = XLA.prepare(graph, [node for _, node in graph.outputs], {})
    with jax_here.wide():
        given = [np.zeros(one.shape, one.dtype) for one in made.given]
        text = made.code.jitted.lower(*given).compile().as_text()
    assert "convolution(" in text and "gather(" not in text
