"""`x.at[key].set(value)` and its like give what NumPy's assignments and `ufunc.at` leave behind."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_indexing import indexed, numpys

import chainrule as cr
from chainrule.errors import (
    DTypeError,
    GradientCheckError,
    IndexOutOfRangeError,
    ShapeError,
    UnsupportedError,
)
from chainrule.testing import check_gradients

UFUNCS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "mul": np.multiply,
    "divide": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}
EVERY = ("set", *UFUNCS)
KEYS = {
    "an integer": 0,
    "integers": (1, 2, -1),
    "a slice": (slice(None), slice(2, None, -2)),
    "a new axis": (None, 2, ..., None),
    "Ellipsis": (..., slice(1, 4)),
    "nothing": slice(0, 0),
    "everything": (),
    "no places": np.zeros(0, int),
    "places": [2, 0],
    "places, one of them twice": [0, 2, 0],
    "places of two axes": ([0, 1, 0, -4], slice(None), [2, 3, 2, 2]),
    "places after a slice": (slice(1, 3), [1, 1], slice(None, None, 2)),
    "places behind": (..., [4, 4, 1, 4]),
    "places that broadcast": (np.array([[0], [3]]), np.array([1, 1])),
    "a place, an integer and a new axis": (1, [0, 0], None, 2),
    "an array of one place": np.array(2),
    "a mask": np.array([True, False, True, True]),
}


def random(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape)


X = random(4, 3, 5)


def assigned(how, x, key, value):
    """What NumPy makes of a copy of x."""
    out = x.copy()
    if how == "set":
        out[key] = value
    else:
        UFUNCS[how].at(out, key, value)
    return out


def program(how, key):
    return lambda x, value: getattr(x.at[key], how)(value)


@pytest.mark.sweep(11)
@pytest.mark.parametrize("how", EVERY)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_the_numbers_are_numpys(key, how):
    for value in (random(*X[key].shape), np.array(2.5), random(*X[key].shape[-1:])):
        got = cr.trace(program(how, key), X, value).run(x=X, value=value).outputs
        want = assigned(how, X, key, value)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=0 if how == "set" else 1e-14)


@given(indexed((0, 1, 2, 3)), st.sampled_from(EVERY))
def test_every_key_that_reads_also_sets(case, how):
    shape, key = case
    x = np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)
    assume(numpys(x, key) is not None)
    value = -np.arange(1.0, 1 + x[key].size).reshape(x[key].shape) / 2
    got = cr.trace(program(how, key), x, value).run(x=x, value=value).outputs
    np.testing.assert_allclose(got, assigned(how, x, key, value), rtol=1e-14)


@pytest.mark.sweep(61)
@pytest.mark.parametrize("how", EVERY)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_derivatives_are_those_of_finite_differences(key, how):
    value = np.abs(random(*X[key].shape)) + 0.5
    for seed in range(8):
        try:
            return check_gradients(
                lambda x, value: np.sin(getattr(x.at[key], how)(value)) * x, X, value, seed=seed
            )
        except GradientCheckError as error:
            if "cannot decide" not in str(error):
                raise
    return pytest.fail("finite differences cannot decide in any direction")


@pytest.mark.parametrize("how", EVERY)
def test_places_may_be_traced(how):
    def change(x, i, j, value):
        return getattr(x.at[i, :, j], how)(value)

    i, j = np.array([0, 2, 0, 3]), np.array([[1, 1, 1, -2], [4, 1, 4, 1]])
    value = random(*X[i, :, j].shape)
    graph = cr.trace(change, X, i, j, value)
    for compiled in (graph.run, graph.compile()):
        found = compiled(x=X, i=i, j=j, value=value)
        found = found if isinstance(found, np.ndarray) else found.outputs
        np.testing.assert_allclose(found, assigned(how, X, (i, slice(None), j), value), rtol=1e-14)


def test_the_last_of_several_values_stays_and_alone_has_a_derivative():
    def last(x, i, value):
        return np.sum(x.at[i].set(value) * np.arange(1.0, 5.0))

    i = np.array([2, 0, 2, 2, 0])
    gradients = cr.grad(last, wrt=("x", "value"))(np.zeros(4), i, np.ones(5))
    assert np.array_equal(gradients[0], [0, 2, 0, 4])
    assert np.array_equal(gradients[1], [0, 0, 0, 3, 1])


@pytest.mark.parametrize("how", ["min", "max"])
def test_ties_share_the_derivative(how):
    def extreme(x, value):
        return np.sum(getattr(x.at[1], how)(value))

    gradients = cr.grad(extreme, wrt=("x", "value"))(np.ones(3), np.array(1.0))
    assert np.array_equal(gradients[0], [1, 0.5, 1]) and gradients[1] == 0.5


def test_named_sizes():
    def change(x, i, value):
        return x.at[i].set(value).at[1:, -1].add(2).at[[0, 0]].multiply(3)

    graph = cr.trace(change, x=cr.float64["n k"], i=cr.int64["m"], value=cr.float64["m k"])
    for n, m in ((2, 1), (4, 7)):
        x, i, value = random(n, 3), np.arange(m) % n, random(m, 3)
        want = x.copy()
        want[i] = value
        want[1:, -1] += 2
        want[0] *= 9
        got = graph.run(x=x, i=i, value=value).outputs
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_a_traced_mask_takes_a_number():
    x = np.array([[-1.0, 4.0], [0.25, -9.0]])
    masked = {
        "set": np.where(x > 0, 7, x),
        "add": np.where(x > 0, x + 7, x),
        "multiply": np.where(x > 0, x * 7, x),
        "max": np.where(x > 0, 7, x),
        "power": np.where(x > 0, np.abs(x) ** 7, x),
    }
    for how, want in masked.items():
        got = cr.trace(lambda x: getattr(x.at[x > 0], how)(7), x).run(x=x).outputs  # noqa: B023
        np.testing.assert_allclose(got, want, rtol=1e-15)
    rows = cr.trace(lambda x: x.at[x[:, 0] > 0].set(0), x).run(x=x).outputs
    assert np.array_equal(rows, [[-1, 4], [0, 0]])
    roots = cr.grad(lambda x: np.sum(x.at[x > 0].power(0.5)))(x)
    np.testing.assert_allclose(roots, np.where(x > 0, 0.5 / np.sqrt(np.abs(x)), 1), rtol=1e-15)


def test_get_power_and_apply():
    x = np.arange(1.0, 7).reshape(2, 3)
    for change, want in (
        (lambda x: x.at[1].get(), x[1]),
        (lambda x: x.at[:, 1:].power(2), np.hstack([x[:, :1], x[:, 1:] ** 2])),
        (lambda x: x.at[0].apply(np.sqrt), np.stack([np.sqrt(x[0]), x[1]])),
        (lambda x: x.at[[0, 0]].power(2), np.stack([x[0] ** 2, x[1]])),
    ):
        np.testing.assert_allclose(cr.trace(change, x).run(x=x).outputs, want, rtol=1e-15)


def test_the_dtype_is_that_of_the_array():
    for dtype in (np.float32, np.float16, np.int64, np.uint8, np.bool_):
        x = np.ones((2, 3), dtype)
        for value in (True, np.ones(3, dtype)) + (1,) * (dtype is not np.bool_):
            got = cr.trace(lambda x: x.at[0].set(value), x).run(x=x).outputs  # noqa: B023
            assert got.dtype == dtype
    x = np.ones(3, np.float32)
    assert cr.trace(lambda x: x.at[0].add(np.float64(0.5)), x).run(x=x).outputs.dtype == np.float32
    many = np.array([250, 3], np.uint8)
    got = cr.trace(lambda x: x.at[[0, 0]].add(np.uint8(3)), many).run(x=many).outputs
    assert got.dtype == np.uint8 and np.array_equal(got, [0, 3])


def test_the_new_array_has_its_name_and_the_old_one_its_values():
    def change(x):
        h = x * 2
        z = h.at[0].set(1)
        return h, z

    run = cr.trace(change, np.ones(2)).run(x=np.ones(2))
    assert np.array_equal(run["h"], [2, 2]) and np.array_equal(run["z"], [1, 2])


REFUSED = [
    (lambda x: x.at[0].set(np.zeros(7)), ShapeError, "the value (constant): float64[7] does not broadcast to the elements of x: float64[4, 3] that change, of shape [3]", "from the last axis on, the sizes must be equal or a literal 1"),
    (lambda x: x.at[[0, 1]].add(np.zeros((3, 2))), ShapeError, "the value (constant): float64[3, 2] does not broadcast to the elements of x: float64[4, 3] that change, of shape [2, 3]", "from the last axis on, the sizes must be equal or a literal 1"),
    (lambda x: x.at[x > 0].set(x), UnsupportedError, "a traced mask (greater): bool[4, 3] of x: float64[4, 3] with the value x: float64[4, 3]", "a traced mask has the first axes of the array, and takes one number;\nchoose among arrays with np.where(mask, value, x)"),
    (lambda x: (x > 0).at[0].add(True), DTypeError, ".at[...].add: True cannot change elements of (greater): bool[4, 3]", "convert one of them with .astype(...) first"),
    (lambda x: x.astype(int).at[0].set(1.5), DTypeError, ".at[...].set: 1.5 cannot change elements of (cast): int64[4, 3]", "convert one of them with .astype(...) first"),
    (lambda x: x.astype(int).at[0].divide(2), DTypeError, ".at[...].divide: 2 cannot change elements of (cast): int64[4, 3]", "convert one of them with .astype(...) first"),
    (lambda x: x.astype(np.uint8).at[0].set(300), DTypeError, "the Python integer 300 does not fit uint8", "convert the array with .astype(...) to a wider dtype"),
    (lambda x: x.at[9].set(0), IndexOutOfRangeError, "index 9 is out of range for axis 0 of x: float64[4, 3]", "the axis has 4 elements"),
    (lambda x: x.at[0, 0, 0].set(0), ShapeError, "too many indices: 3 for x: float64[4, 3], which has 2 axes", "use at most one index for each axis, and one Ellipsis"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "kind", "what", "hint"), REFUSED)
def test_a_wrong_change_is_explained(change, kind, what, hint):
    with pytest.raises(kind) as caught:
        cr.trace(change, random(4, 3))
    assert (caught.value.what, caught.value.hint) == (what, hint)
    assert f"{__file__}:{change.__code__.co_firstlineno}, in <lambda>" in caught.value.where


def test_values_for_a_number_of_places_that_is_not_known_are_not_joined():
    with pytest.raises(UnsupportedError) as caught:
        cr.trace(lambda x, i: x.at[i].multiply(2.0), x=cr.float64["n"], i=cr.int64["m"])
    assert (
        caught.value.what == "values for m places, of which some may be the same, cannot be joined"
    )


def test_a_traced_place_outside_is_an_error_when_it_runs():
    graph = cr.trace(lambda x, i: x.at[i].set(0.0), np.zeros(3), np.array([0]))
    with pytest.raises(
        IndexOutOfRangeError, match=r"index 5 .* is out of range for an axis of length 3"
    ):
        graph.run(x=np.zeros(3), i=np.array([5]))
