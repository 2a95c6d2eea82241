"""`cr.at(x)[key].set(value)` is the same on NumPy arrays, traced arrays, and both together."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import DTypeError, MissingMethodError, MutationError, ShapeError

X = np.random.default_rng(0).normal(size=(4, 3))
KEYS: dict[str, Any] = {
    "an integer": 1,
    "a slice": slice(1, None, 2),
    "places, one of them twice": [0, 2, 0],
    "a pair": (2, 1),
    "pairs": ([0, 1, 0], [2, 2, 2]),
    "a mask": np.array([True, False, True, True]),
    "a column": (slice(None), 0),
    "Ellipsis": (..., 1),
    "nothing": slice(0, 0),
    "everything": (),
}
HOW = ("set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max")


@pytest.mark.sweep(5)
@pytest.mark.parametrize(("name", "how"), [*itertools.product(KEYS, HOW)])
def test_numbers_are_changed_as_traced_arrays_are(name: str, how: str) -> None:
    key, before = KEYS[name], X.copy()
    value = np.random.default_rng(1).uniform(1, 2, np.shape(X[key]))
    x = np.abs(X) if how == "power" else X
    got = getattr(cr.at(x)[key], how)(value)
    wanted = cr.trace(lambda x, v: getattr(x.at[key], how)(v), x, value).run(x=x, v=value).outputs
    assert type(got) is np.ndarray and got.dtype == x.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-15)
    assert not np.shares_memory(got, X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("how", ("set", "add", "max"))
def test_what_is_traced_may_be_the_array_the_place_or_the_value(how: str) -> None:
    i, v = np.array(2), np.array([5.0, 6.0, 7.0])

    def function(x: Any, i: Any, v: Any) -> Any:
        return getattr(cr.at(x)[i], how)(v)

    wanted = function(X, i, v)
    for some in itertools.product((False, True), repeat=3):
        given = {n: a for n, a, t in zip("xiv", (X, i, v), some, strict=True) if t}
        if not given:
            continue
        fixed = {n: a for n, a in (("x", X), ("i", i), ("v", v)) if n not in given}
        names = ", ".join(given)
        scope: dict[str, Any] = {"function": function, **fixed}
        exec(f"def program({names}):\n    return function(x, i, v)", scope)
        run = cr.trace(scope["program"], **given).run(given)
        np.testing.assert_array_equal(run.outputs, wanted)


def test_a_constant_table_is_read_at_a_traced_place_and_has_a_gradient() -> None:
    table = np.arange(12.0).reshape(4, 3)

    def J(x: Any, i: Any) -> Any:
        return np.sum(cr.at(table)[i].get() * x**2)

    x = np.array([1.0, 2.0, 3.0])
    assert J(x, 2) == cr.trace(J, x, np.array(2)).run(x=x, i=np.array(2)).outputs
    np.testing.assert_array_equal(cr.grad(J)(x, np.array(2)), 2 * table[2] * x)
    with pytest.raises(IndexError):
        cr.at(table)[7].get()


def test_numbers_refuse_what_traced_arrays_refuse() -> None:
    whole = np.arange(3)
    for kind, change in (
        (DTypeError, lambda x: cr.at(x)[0].set(1.5)),
        (DTypeError, lambda x: cr.at(x)[0].divide(2)),
        (DTypeError, lambda x: cr.at(x > 1)[0].add(True)),
        (ShapeError, lambda x: cr.at(x)[:2].set(np.arange(3))),
        (MissingMethodError, lambda x: cr.at(x)[0].assign(3)),
    ):
        with pytest.raises(kind):
            change(whole)
        with pytest.raises(kind):
            cr.trace(change, whole)
    with pytest.raises(MutationError, match="changes an array in place"):
        cr.at(whole)[0] = 3
    assert cr.at(np.ones(2, np.float32))[0].set(2.5).dtype == np.float32
    np.testing.assert_array_equal(cr.at([1, 2])[1].apply(lambda v: v * 3), [1, 6])
