"""Operations without a native kernel take what reports say, to the byte, and little beside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from every_sample import for_every_sample
from measured_memory import aligned_nbytes, constants_nbytes, peaks_of

import chainrule as cr
from chainrule.errors import EvaluationError
from chainrule.execute.native.runtime.launch import Launcher
from chainrule.graph.graph import Graph
from chainrule.graph.types import type_of
from chainrule.plan.pieces import PIECE_NBYTES
from chainrule.plan.roles import Role, roles_of
from chainrule.primitives.primitive import Partials, Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing.samples import graph_of, sample_arrays

pytestmark = pytest.mark.usefixtures("only_what_numpy_sees")
DTYPES = ("float16", "float32", "float64", "int64", "uint8", "bool")


def errors_of(graph: Graph, arrays: dict[str, np.ndarray]) -> list[int]:
    """The bytes that three calls take more than the report says."""
    report = graph.memory(executor="native")
    there = sum(array.nbytes for array in arrays.values()) + constants_nbytes(report)
    expected = report.main.peak_nbytes - there + aligned_nbytes(report, recycled_results=True)

    def prepare() -> Callable[[], Any]:
        return lambda: graph.run(arrays, keep="outputs", executor="native")

    return [peak - expected for peak in peaks_of(prepare)]


def arrays_of(sample: Sample, dtype: str) -> list[np.ndarray]:
    """The arrays of a sample, those of numbers in this dtype."""
    return [one.astype(dtype) if one.dtype == np.float64 else one for one in sample_arrays(sample)]


@pytest.mark.sweep(41)
@pytest.mark.parametrize(
    "primitive", [one for one in PRIMITIVES if one.inputs], ids=lambda one: one.name
)
def test_an_operation_without_a_kernel_takes_what_its_report_says(primitive: Primitive) -> None:
    def check_dtype(primitive: Primitive, sample: Sample, dtype: str) -> None:
        try:
            arrays = arrays_of(sample, dtype)
            graph = graph_of(primitive, [type_of(one) for one in arrays], dict(sample.params))
        except TypeError:
            return
        out = graph["out"]
        if roles_of(graph)[out] is not Role.FOREIGN or not out.type.size:
            return
        if isinstance(primitive.derivative, Partials) and not out.type.is_float:
            return  # of real numbers: the front end casts others before
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(primitive.evaluate(np, *arrays, **dict(sample.params)))
        except (np.linalg.LinAlgError, OverflowError, TypeError, ValueError):
            return
        if value.dtype != out.dtype:
            return  # the front end casts the operands before
        given = {item.name: array for item, array in zip(graph.inputs, arrays, strict=True)}
        assert errors_of(graph, given) == [0, 0, 0], dtype

    def check(primitive: Primitive, sample: Sample) -> None:
        for dtype in DTYPES:
            check_dtype(primitive, sample, dtype)

    for_every_sample(
        primitive, check, lambda primitive, sample: all(0 not in shape for shape in sample.shapes)
    )


RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(600, 700))
STACK = RANDOM.normal(size=(300, 30, 30))
WORDS = RANDOM.integers(0, 9, size=(600, 700))
LARGE: dict[str, tuple[Any, np.ndarray]] = {
    "sorted columns": (lambda x: np.sort(x, axis=0), X),
    "sorted rows of a transpose": (lambda x: np.sort(x.T, axis=1), X),
    "sorted rows of a reshaped transpose": (
        lambda x: np.argsort(np.reshape(x.T, (350, 1200)), axis=1),
        X,
    ),
    "float16": (lambda x: np.exp(x) * x.T[:600, :600].sum() + 1, X.astype(np.float16)),
    "products of integers": (lambda x: x[:, :90] @ x.T[:90], WORDS),
    "products of transposed integers": (lambda x: x[:90].T @ x[:90], WORDS),
    "products of float16": (lambda x: x[:, :40] @ x.T[:40], X.astype(np.float16)),
    "contracted integers": (lambda x: np.einsum("ij,ik->jk", x, x), WORDS[:90]),
    "factors": (lambda x: np.linalg.svd(x, full_matrices=False)[0], STACK),
    "values": (lambda x: np.linalg.svd(np.swapaxes(x, -1, -2), compute_uv=False), STACK),
    "inverses of float32": (lambda x: np.linalg.inv(x), STACK.astype(np.float32)),
    "one inverse": (lambda x: np.linalg.inv(x[:500, :500]), X),
    "running sums of float16": (lambda x: np.cumsum(x, axis=0), X.astype(np.float16)),
    "sinc": (lambda x: np.sinc(x.T), X),
    "sums of float16": (lambda x: np.sum(x, axis=0), X.astype(np.float16)),
    "taken float16": (lambda x: x[np.arange(600)[::-1]], X.astype(np.float16)),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", LARGE)
def test_large_arrays_take_what_their_report_says(name: str) -> None:
    function, array = LARGE[name]
    assert errors_of(cr.trace(function, x=array), {"x": array}) == [0, 0, 0]


AT_ONCE = ("one inverse", "contracted integers", "sums of float16", "taken float16")


@pytest.mark.parametrize("name", [name for name in LARGE if name not in AT_ONCE])
def test_what_numpy_makes_beside_the_result_is_small(name: str) -> None:
    function, array = LARGE[name]
    schedule = cr.trace(function, x=array).compile().plan().schedule
    copied = array.nbytes if "reshaped" in name else 0
    assert schedule.allocated_nbytes <= copied + 1.1 * PIECE_NBYTES


# An array that could be written over while it is read ---------------------------------------------


@pytest.mark.parametrize("refused", [False, True])
def test_an_array_that_may_be_taken_is_not_written_before_all_is_read(refused: bool) -> None:
    graph = cr.trace(lambda x: np.linalg.pinv(x[::-1]), x=STACK)
    launcher = Launcher(graph, [graph["out"]], {graph["x"]: graph["out"]})
    x = STACK.copy()
    if refused:
        x[0] = np.nan
        before = x.copy()
        with pytest.raises(EvaluationError, match="SVD did not converge"):
            launcher({graph["x"]: x})
        assert np.array_equal(x, before, equal_nan=True)
    else:
        made = launcher({graph["x"]: x})
        assert made is not None
        assert np.array_equal(made.get(graph["out"], x), np.linalg.pinv(STACK[::-1]))
