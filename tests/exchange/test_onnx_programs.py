"""Random programs there and back: what onnxruntime computes, and what is read again."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.peers
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_onnxruntime import agrees  # noqa: E402
from namespaces import with_gradients  # noqa: E402
from programs import Program, random_programs  # noqa: E402

import chainrule as cr  # noqa: E402
from chainrule.errors import UnsupportedError  # noqa: E402


def exported(program: Program, seed: int) -> None:
    """The values and gradients of a program, in ONNX and back."""
    graph, given = with_gradients(program, seed)
    arrays = {name: np.asarray(one) for name, one in given.items()}
    try:
        agrees(graph, arrays, rtol=1e-6)
    except UnsupportedError as error:
        assert "ONNX has no operator for" in str(error)
        return
    back = cr.from_onnx(graph.to_onnx(), parameters="all")
    numbers = {**back.parameters, **arrays}
    wanted = graph.run(given)
    found = back.graph.run({item.name: numbers[item.name] for item in back.graph.inputs})
    for name, _ in graph.outputs:
        one = wanted[name]
        largest = np.max(np.abs(one[np.isfinite(one)]), initial=0)
        np.testing.assert_allclose(found[name], one, rtol=1e-6, atol=1e-9 * float(largest))


@pytest.mark.slow
@random_programs(12)
def test_random_programs(program: Program, seed: int) -> None:
    exported(program, seed)


@pytest.mark.exhaustive
@random_programs(400)
def test_more_random_programs(program: Program, seed: int) -> None:
    exported(program, seed)
