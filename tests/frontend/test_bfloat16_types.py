"""bfloat16 as an annotation, in `astype`, and beside other dtypes."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

import chainrule as cr
from chainrule import bfloat16
from chainrule.errors import DTypeError, InputError, UnsupportedError
from chainrule.graph.dtypes import dtype_kind, finfo, promoted

BF16 = bfloat16.dtype
X = np.array([1.5, -2.0, 0.25], np.float32).astype(BF16)
OTHERS = "bool int8 uint8 int16 int32 int64 uint64 float16 float32 float64".split()


def result(function, *arrays):
    """What a traced function gives."""
    graph = cr.trace(function, *arrays)
    given = {item.name: array for item, array in zip(graph.inputs, arrays, strict=True)}
    return graph.run(given).outputs


def test_annotations_say_it():
    def f(x: bfloat16["n 3"], W: bfloat16["3 2"]):
        h = np.tanh(x @ W)
        return h

    graph = cr.trace(f)
    assert str(graph["h"].type) == "bfloat16[n, 2]"
    assert repr(bfloat16) == "chainrule.bfloat16"
    assert np.dtype(bfloat16) == BF16
    h = graph.run(x=np.ones((4, 3), BF16), W=np.ones((3, 2), BF16)).outputs
    assert h.dtype == BF16
    with pytest.raises(InputError, match=r"must be bfloat16\[n, 3\], got float32\[4, 3\]"):
        graph.run(x=np.ones((4, 3), np.float32), W=np.ones((3, 2), BF16))


@pytest.mark.parametrize("dtype", ["bfloat16", bfloat16, BF16, BF16.type], ids=str)
def test_astype_takes_its_name_and_its_types(dtype):
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, np.nan, np.inf, 3.4e38, 1e-40], np.float32)
    got = result(lambda x: x.astype(dtype), x)
    np.testing.assert_array_equal(got.view(np.uint16), x.astype(BF16).view(np.uint16))
    wide = result(lambda x: x.astype(np.float32), got)
    np.testing.assert_array_equal(wide, got.astype(np.float32))


@pytest.mark.parametrize("number", [2, 0.1, -3.5])
def test_a_number_of_pythons_widens_nothing(number):
    for function in (lambda x: x * number, lambda x: number - x, lambda x: np.maximum(x, number)):
        assert result(function, X).dtype == BF16
    expected = (X.astype(np.float32) * np.asarray(number, BF16).astype(np.float32)).astype(BF16)
    np.testing.assert_array_equal(result(lambda x: x * number, X), expected)


@pytest.mark.parametrize("other", OTHERS)
def test_with_other_dtypes_it_is_promoted_as_numpy_does_or_refused(other):
    y = np.ones(3, other)
    try:
        expected = np.result_type(BF16, y.dtype) if other != "float16" else np.dtype(np.float32)
    except TypeError:
        with pytest.raises(DTypeError, match=r"(?s)np.add is not defined for .*astype"):
            cr.trace(lambda x, y: x + y, X, y)
        with pytest.raises(DTypeError, match=r"np\.where: .* have no common dtype"):
            cr.trace(lambda x, y: np.where(x > 0, x, y), X, y)
        with pytest.raises(DTypeError, match="have no common dtype"):
            cr.trace(lambda x, y: np.concatenate([x, y]), X, y)
        return
    for function in (lambda x, y: x + y, lambda x, y: np.where(x > 0, x, y)):
        for pair in itertools.permutations((X, y)):
            assert result(function, *pair).dtype == expected
    assert result(lambda x, y: x < y, X, y).dtype == bool
    assert promoted(BF16, y.dtype) == expected


def test_comparisons_indices_and_shapes():
    np.testing.assert_array_equal(result(lambda x: x > 0, X), [True, False, True])
    np.testing.assert_array_equal(result(lambda x: x[np.array([2, 0])], X), X[[2, 0]])
    np.testing.assert_array_equal(result(lambda x: np.pad(x, 1), X), np.pad(X, 1))
    np.testing.assert_array_equal(result(lambda x: np.sort(x), X), np.sort(X))
    assert result(lambda x: np.full_like(x, 0.1), X)[0] == np.asarray(0.1, BF16)
    for mean in (np.mean, np.var, np.median, lambda x: np.quantile(x, 0.3), cr.logsumexp):
        assert result(lambda x, mean=mean: mean(x) / x.shape[0], X).dtype == BF16


def test_what_a_dtype_is_asked():
    assert dtype_kind(BF16) == "f"
    assert float(finfo(BF16).eps) == 2**-7
    assert dtype_kind(np.dtype("V2")) == "V"
    assert finfo(np.float32).eps == np.finfo(np.float32).eps


def test_lapack_has_none():
    with pytest.raises(DTypeError, match=r"(?s)LAPACK has no bfloat16.*astype\(np.float32\)"):
        cr.trace(lambda x: np.linalg.inv(x), np.ones((2, 2), BF16))


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UnsupportedError, match=r"ml_dtypes.*\n.*pip install 'chainrule\[bfloat16"):
        cr.trace(lambda x: x, x=bfloat16["3"])
    with pytest.raises(UnsupportedError, match="not installed"):
        cr.trace(lambda x: x.astype("bfloat16"), np.ones(3))
