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
TURNED = (2, 4, 5, 4), (4, 3, 3, 2)


def twice(y: Any) -> Any:
    return y + np.mean(y[:, :, 2:, 1:-1])


CASES = {
    "plain": (lambda x, k: cr.conv2d(x, k), IMAGES),
    "padded": (lambda x, k: cr.conv2d(x, k, padding=1), IMAGES),
    "strided, rows are left": (lambda x, k: cr.conv2d(x, k, stride=(3, 2)), IMAGES),
    "dilated": (lambda x, k: cr.conv2d(x, k, dilation=(2, 3), stride=2), IMAGES),
    "one channel": (lambda x, k: cr.conv2d(x, k), ((1, 1, 6, 6), (1, 1, 2, 2))),
    "strided and padded": (lambda x, k: cr.conv2d(x, k, stride=(2, 3), padding=(2, 1)), IMAGES),
    "all at once": (
        lambda x, k: cr.conv2d(x, k, stride=(2, 1), padding=(1, 3), dilation=(3, 2)),
        IMAGES,
    ),
    "strided further than the window": (lambda x, k: cr.conv2d(x, k, stride=4), IMAGES),
    "with zeros between": (lambda x, k: cr.conv_transpose2d(x, k, stride=2), TURNED),
    "a part": (lambda x, k: cr.conv2d(x, k, padding=2)[:, :, 1:-1:2, 2:], IMAGES),
    "a part, and all": (lambda x, k: twice(cr.conv2d(x, k, padding=1)), IMAGES),
    "of one place": (lambda x, k: cr.conv2d(x, k, stride=3), ((2, 3, 7, 7), (4, 3, 1, 1))),
    "groups": (lambda x, k: cr.conv2d(x, k, groups=2), ((2, 4, 6, 5), (6, 2, 3, 3))),
    "groups, strided": (
        lambda x, k: cr.conv2d(x, k, groups=2, stride=2, padding=1),
        ((2, 4, 6, 5), (6, 2, 3, 3)),
    ),
    "in one dimension": (lambda x, k: cr.conv1d(x, k, stride=2), ((2, 3, 12), (4, 3, 3))),
    "in one dimension, padded": (
        lambda x, k: cr.conv1d(x, k, stride=3, padding=2, dilation=2),
        ((2, 3, 12), (4, 3, 3)),
    ),
    "pooled": (lambda x, k: cr.max_pool2d(cr.conv2d(x, k), 3, stride=2), IMAGES),
}

SLOW = {
    "strided further than the window",
    "a part, and all",
    "of one place",
    "groups, strided",
    "in one dimension, padded",
}


def curved(f: Any, x: Any, k: Any) -> Any:
    """With second derivatives."""
    J = np.sum(np.tanh(f(x, k)))
    return J + np.sum(cr.grad(lambda x: np.sum(np.tanh(f(x, k))), wrt=0)(x) ** 2)


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in CASES]
)
def test_values_and_derivatives_agree(name: str) -> None:
    f, shapes = CASES[name]
    x, k = arrays(*shapes)
    both = cr.value_and_grad(lambda x, k: curved(f, x, k), wrt=(0, 1))
    graph = cr.compile(both, executor="reference")
    (J, want), (found, got) = graph(x, k), cr.compile(both, executor="xla")(x, k)
    np.testing.assert_allclose(found, J, rtol=1e-5)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5 * np.abs(other).max())


def lowered(f: Any) -> str:
    """What XLA is given for a function of an image and a kernel."""
    from chainrule.execute.xla import jax_here
    from chainrule.execute.xla.xla_executor import XLA

    x, k = (cr.float32[shape] for shape in IMAGES)
    graph = cr.trace(f, x=x, k=k)
    made = XLA.prepare(graph, [node for _, node in graph.outputs], {})
    with jax_here.wide():
        given = [np.zeros(one.shape, one.dtype) for one in made.given]
        return made.code.jitted.lower(*given).as_text(dialect="hlo")


def test_a_convolution_copies_no_windows() -> None:
    text = lowered(lambda x, k: cr.conv2d(x, k, padding=1))
    assert "convolution(" in text and "gather(" not in text and "pad(" not in text


def test_gradients_of_a_strided_convolution_are_two_more() -> None:
    """Without the positions that its kernel does not reach, or the border that padding takes."""

    def objective(x: Any, k: Any) -> Any:
        return np.sum(np.tanh(cr.conv2d(x, k, stride=2, padding=1)))

    text = lowered(lambda x, k: list(cr.grad(objective, wrt=(0, 1))(x, k)))
    made = [line.split() for line in text.splitlines() if " convolution(" in line]
    shapes = [words[words.index("=") + 1].split("{")[0] for words in made]
    assert sorted(shapes) == ["f32[2,3,11,9]", "f32[2,4,6,5]", "f32[3,4,3,2]"]
