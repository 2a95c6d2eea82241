"""What functions that sort, choose, move, join and make arrays refuse, and `cr.array`."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import (
    DTypeError,
    InputError,
    MissingMethodError,
    ShapeError,
    UnsupportedError,
)

X = np.arange(6.0).reshape(2, 3)
OF_VALUES = "the shape of its result would depend on values, which do not exist while tracing;\nkeep the shape, and choose with np.where(condition, x, 0)"
IN_PLACE = "traced arrays are values: x = x.at[key].set(value)"
REFUSED = [
    (lambda x: np.sort(x, order="a"), UnsupportedError, "sorting with order='a' is not traced", "leave order= out: traced arrays have no fields"),
    (lambda x: np.sort(x, axis=2), ShapeError, "axis=2 does not exist: x: float64[2, 3] has 2 axes", "give an integer from -2 to 1"),
    (lambda x: np.partition(x, 3), ShapeError, "kth=3 is no place on an axis of length 3 of x: float64[2, 3]", "give an integer from -3 to 2"),
    (lambda x: np.take_along_axis(x, x, 0), ShapeError, "np.take_along_axis of x: float64[2, 3] at x: float64[2, 3]", "give integer indices, in an array with as many axes as the first"),
    (lambda x: np.take(x, 0, mode="near"), InputError, "np.take(mode='near')", 'use "raise", "clip" or "wrap"'),
    (lambda x: np.take(x, None), InputError, "np.take(indices=None)", "give integers"),
    (lambda x: np.reshape(x, (True, 6)), UnsupportedError, "np.reshape(x: float64[2, 3], (True, 6)): the size True is a boolean, not an integer", "check the types and the values of the arguments"),
    (lambda x: np.broadcast_to(x, (True, 2, 3)), UnsupportedError, "np.broadcast_to(x: float64[2, 3], (True, 2, 3)): the size True is a boolean, not an integer", "check the types and the values of the arguments"),
    (lambda x: np.compress(x[0] > 0, x, 1), UnsupportedError, "a traced condition would give an array whose shape depends on its values", "keep the shape and choose with np.where(condition, x, 0)"),
    (lambda x: np.select([x], [x]), DTypeError, "np.select: the condition x: float64[2, 3] is not boolean", "compare first (x > 0), or convert with .astype(bool)"),
    (lambda x: np.select([x > 0], [x, x]), InputError, "np.select: 1 conditions and 2 choices", "give one choice for each condition"),
    (lambda x: np.piecewise(x, [x > 0], [1, 2, 3]), InputError, "np.piecewise: 1 conditions and 3 functions", "give one function for each condition, and optionally one for all other elements"),
    (lambda x: np.choose(x, [x]), UnsupportedError, "np.choose(x: float64[2, 3], mode='raise') is not traced", 'give integers, and mode="raise", "clip" or "wrap"'),
    (lambda x: np.roll(x, (1, 2, 3), (0, 1)), ShapeError, "np.roll: 3 shifts of 2 axes", "give one shift for each axis"),
    (lambda x: np.rot90(x, axes=(0, -2)), ShapeError, "np.rot90: axes=(0, -2) are one axis", "name two axes"),
    (lambda x: np.repeat(x, x.astype(int)), UnsupportedError, "np.repeat with traced repeats would give an array whose shape depends on its values", "use a number or a NumPy array of numbers that is known while tracing"),
    (lambda x: np.repeat(x, [1, 2], 1), ShapeError, "np.repeat: 2 repeats for an axis of 3 elements", "give one number, or one for each element of an axis of known length"),
    (lambda x: np.rollaxis(x, 0, 4), ShapeError, "np.rollaxis: start=4 for an array of 2 axes", "give an integer from -2 to 2"),
    (lambda x: np.insert(x, x[0].astype(int), 0), UnsupportedError, "np.insert at traced positions", "use positions that are known while tracing, or choose with np.where"),
    (lambda x: np.split(x, 2, 1), InputError, "np.split: an axis of length 3 has no 2 equal parts", "give the positions at which to split"),
    (lambda x: np.dsplit(x, 2), InputError, "np.dsplit of x: float64[2, 3], which has 2 axes", "it takes arrays of 3 or more axes"),
    (lambda x: np.meshgrid(x, indexing="ji"), InputError, "np.meshgrid(indexing='ji')", 'use "xy" or "ij"'),
    (lambda x: np.concatenate([x], dtype=int), DTypeError, "x: float64[2, 3] is not joined as int64", "convert the arrays with .astype(...) first"),
    (lambda x: np.diagonal(x[0]), ShapeError, "np.diagonal of (reshape): float64[3], which has 1 axes", "a diagonal needs two axes; np.diag makes a matrix of a vector"),
    (lambda x: np.diagonal(x, 0, 1, -1), ShapeError, "np.diagonal: axis1=1 and axis2=-1 are one axis", "name two axes"),
    (lambda x: np.diag(x[None]), ShapeError, "np.diag of (reshape): float64[1, 2, 3], which has 3 axes", "give a vector or a matrix; np.diagonal takes more axes"),
    (lambda x: np.vander(x), ShapeError, "np.vander of x: float64[2, 3], which has 2 axes", "give a vector"),
    (lambda x: np.pad(x, -1), InputError, "np.pad: pad_width=-1 has a negative number", "remove elements with a slice, x[1:]"),
    (lambda x: np.pad(x, ((1, 2), (3, 4), (5, 6))), ShapeError, "np.pad: pad_width=((1, 2), (3, 4), (5, 6)) for an array of 2 axes", "give a number, a pair, or a pair for each axis"),
    (lambda x: np.pad(x, 1, "maximum", stat_length=2), UnsupportedError, "np.pad(mode='maximum', stat_length=...) is not traced", "leave stat_length= out"),
    (lambda x: np.linspace(x, 1, -1), InputError, "num=-1 samples", "give a number of samples from 0 on"),
    (lambda x: np.linspace(x, 1, 3, dtype=int), UnsupportedError, "samples of dtype int64 between traced ends", "take floats, and convert them with .astype(...)"),
    (lambda x: np.apply_along_axis(np.sum, 0, x[:, :0]), ShapeError, "np.apply_along_axis of (slice): float64[2, 0], which has no rows along axis 0", "give an array with rows: the function is called once for each"),
    (lambda x: np.nonzero(x), UnsupportedError, "np.nonzero is not traced", OF_VALUES),
    (lambda x: np.where(x > 0), UnsupportedError, "np.where with one argument is not traced", OF_VALUES),
    (lambda x: np.unique(x), UnsupportedError, "np.unique is not traced", OF_VALUES),
    (lambda x: np.put_along_axis(x, x, x, 0), UnsupportedError, "np.put_along_axis is not traced", IN_PLACE),
    (lambda x: x.put(0, 1), MissingMethodError, ".put of x (float64[2, 3]) is not traced", IN_PLACE),
    (lambda x: x.sort(), MissingMethodError, ".sort of x (float64[2, 3]) is not traced", "call np.sort(...)"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "kind", "what", "hint"), REFUSED)
def test_what_is_refused_is_explained(program, kind, what, hint):
    with pytest.raises(kind) as caught:
        cr.trace(program, X)
    assert (caught.value.what, caught.value.hint) == (what, hint)
    assert f"{__file__}:{program.__code__.co_firstlineno}, in <lambda>" in caught.value.where


def test_rows_of_a_number_that_is_not_known_are_refused():
    for program, what in (
        (
            lambda x: np.apply_along_axis(np.sum, 1, x),
            "np.apply_along_axis of x: float64[n, 3], whose number of rows is not known",
        ),
        (
            lambda x: np.insert(x, [0, 1], 0, axis=0),
            "np.insert at several positions of axis 0 of x: float64[n, 3], whose length is n",
        ),
        (
            lambda x: np.delete(x, [0, 1], axis=0),
            "np.delete at several positions of axis 0 of x: float64[n, 3], whose length is n",
        ),
    ):
        with pytest.raises(UnsupportedError) as caught:
            cr.trace(program, x=cr.float64["n 3"])
        assert caught.value.what == what


def test_array_takes_nested_lists_of_traced_and_other_numbers():
    def table(a, b, v):
        M = cr.array([[a, b, 1.0], [v[0], v[1], 2], [3, a * b, -v[0]]])
        return M, cr.array([v, [1.0, 2.0]]), cr.array([a, 2], dtype=np.float32), cr.array(v)

    a, b, v = np.float64(1.5), np.float64(-2.0), np.array([0.5, 4.0])
    run = cr.trace(table, a, b, v).run(a=a, b=b, v=v)
    want = [np.array([[a, b, 1], [0.5, 4, 2], [3, a * b, -0.5]]), np.array([v, [1, 2]])]
    for got, expected in zip(run.outputs, [*want, np.array([a, 2], np.float32), v], strict=True):
        assert got.dtype == expected.dtype and np.array_equal(got, expected)
    assert np.array_equal(run["M"], want[0])
    assert np.array_equal(cr.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    gradient = cr.grad(lambda v: np.sum(cr.array([[v[0], v[0]], [v[1], 1.0]]) ** 2))(v)
    assert np.array_equal(gradient, [2.0, 8.0])


def test_lists_of_different_lengths_are_no_array():
    with pytest.raises(ShapeError, match="differ in another axis"):
        cr.trace(lambda x: cr.array([x[0], [1.0]]), X)


def test_methods_are_those_of_arrays():
    for program in (
        lambda x: x.reshape(3, 2, order="F"),
        lambda x: x.ravel("F"),
        lambda x: x.flatten(order="C"),
        lambda x: x.take([0, 2], axis=1),
        lambda x: x.repeat(2, axis=0),
        lambda x: x.diagonal(1),
        lambda x: x.trace(-1),
        lambda x: x.argsort(axis=0),
        lambda x: x.argpartition([0, 1, 2]),
        lambda x: x.compress([True, False], axis=0),
        lambda x: x.clip(1, 3),
        lambda x: x.swapaxes(0, 1).squeeze(),
        lambda x: (x > 2).astype(int).choose([x, -x]),
    ):
        got, want = cr.trace(program, X).run(x=X).outputs, program(X)
        assert got.dtype == want.dtype and np.array_equal(got, want)
