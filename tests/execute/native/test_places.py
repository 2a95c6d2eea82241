"""Where the extreme elements of rows are, as compiled loops: the first of equals, and of NaNs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executing import inputs_of, native, planned
from primitive_calls import expected, graph_of_calls

import chainrule as cr
from chainrule.execute.native.plan_to_ir.reducers import Reducer
from chainrule.execute.run import kept_nodes
from chainrule.primitives.reduce import argmax, argmin

pytestmark = pytest.mark.usefixtures("every_width")

RANDOM = np.random.default_rng(7)
DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]


def rows(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few values, so that many are equal; of floats the exceptional ones, too."""
    x = RANDOM.integers(-3, 4, shape).astype(dtype)
    if x.dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf, -0.0):
            x[RANDOM.random(shape) < 0.05] = value
    return x


def check(primitive: Any, x: np.ndarray, **options: Any) -> None:
    graph, inputs = graph_of_calls([(primitive, [x], {"axis": x.ndim - 1})])
    keep = [graph.outputs[0][1]]
    assert not planned(graph, keep).foreign
    got, wanted = native(graph, inputs, keep, **options), expected(graph, inputs, keep)
    assert got is not None
    np.testing.assert_array_equal(got[keep[0]], wanted[keep[0]], strict=True)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("primitive", [argmax, argmin], ids=lambda p: p.name)
@pytest.mark.parametrize("dtype", DTYPES)
def test_places_in_rows(primitive: Any, dtype: str) -> None:
    for shape in ((5,), (4, 2), (60, 37), (3, 5, 64), (9, 3, 16), (2, 1300)):
        check(primitive, rows(shape, dtype))


@pytest.mark.sweep(5)
@pytest.mark.parametrize("primitive", [argmax, argmin], ids=lambda p: p.name)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_one_value(primitive: Any, dtype: str) -> None:
    values = [0, 1]
    if np.dtype(dtype).kind == "f":
        values = [0.0, np.inf, -np.inf, np.nan]
    elif dtype != "bool":
        values = [np.iinfo(dtype).min, np.iinfo(dtype).max]
    for value in values:
        check(primitive, np.full((3, 40), value, dtype))


def test_threads_share_the_rows() -> None:
    check(argmin, rows((900, 200), "float32"), threads=2)


def test_places_of_what_is_computed() -> None:
    def nearest(x: Any, centers: Any) -> Any:
        return np.argmin(np.sum((x[:, None] - centers) ** 2, axis=2), axis=1)

    arrays = {"x": RANDOM.normal(size=(30, 3)), "centers": RANDOM.normal(size=(7, 3))}
    graph = cr.trace(nearest, **arrays)
    inputs, keep = inputs_of(graph, arrays), kept_nodes(graph, "outputs")
    assert not planned(graph, keep).foreign
    got = native(graph, inputs, keep)
    assert got is not None
    for node, value in expected(graph, inputs, keep).items():
        np.testing.assert_array_equal(got[node], value)


def test_the_other_extreme_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Reducer._better

    def wrong(self: Reducer, code: Any, new: Any, old: Any, mask: Any) -> Any:
        return right(Reducer(LARGEST, self.value), code, new, old, mask)

    graph, _ = graph_of_calls([(argmax, [np.ones(3)], {"axis": 0})])
    LARGEST = graph.outputs[0][1]
    monkeypatch.setattr(Reducer, "_better", wrong)
    with pytest.raises(AssertionError):
        check(argmin, RANDOM.normal(size=(4, 30)))  # of rows with NaN both are there
