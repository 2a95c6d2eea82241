"""Derivatives of orders 1 and 2 of every call in `calls_movement`, and of their named sizes."""

import calls_movement as calls
import numpy as np
import pytest
from test_numpy_functions import mapped, numpys

import chainrule as cr
from chainrule.errors import GradientCheckError, SizeError
from chainrule.testing import check_gradients

KINKED = (calls.TIED, calls.EDGES)  # where equal elements are, no derivative exists


def floats_of(args, kwargs):
    """The arrays of floats in a call."""
    found = []
    mapped([*args, *kwargs.values()], found.append)
    return [array for array in found if array.dtype == np.float64]


def program_of(function, args, kwargs):
    """The call as a function of its arrays of floats, made nonlinear where it is linear."""

    def program(arrays):
        given = iter(arrays)

        def changed(array):
            return next(given) if array.dtype == np.float64 else array

        positional = [mapped(arg, changed) for arg in args]
        named = {key: mapped(value, changed) for key, value in kwargs.items()}
        result = function(*positional, **named)
        results = result if isinstance(result, (list, tuple)) else [result]
        return [one * np.sin(one) for one in results]

    return program


def is_smooth(function, args, kwargs):
    """Whether the call gives float64 of floats without equal elements."""
    arrays = floats_of(args, kwargs)
    if any(array is kinked for array in arrays for kinked in KINKED):
        return False
    results = numpys(function, args, kwargs)
    results = results if isinstance(results, (list, tuple)) else [results]
    return bool(arrays) and all(np.asarray(one).dtype == np.float64 for one in results)


SMOOTH = [
    pytest.param(function, args, kwargs, id=f"{function.__name__}-{place}")
    for function, several in calls.MOVEMENT.items()
    for place, (args, kwargs) in enumerate(several)
    if is_smooth(function, args, kwargs)
]


def apart(array):
    """The array with no two elements equal, and none near a whole number of eighths."""
    noise = np.random.default_rng(array.size).uniform(0.01, 0.04, array.shape)
    return array + noise


@pytest.mark.sweep(79)
@pytest.mark.parametrize(("function", "args", "kwargs"), SMOOTH)
def test_derivatives_are_those_of_finite_differences(function, args, kwargs):
    program = program_of(function, args, kwargs)
    point = [apart(array) for array in floats_of(args, kwargs)]
    for seed in range(8):
        try:
            check_gradients(program, point, order=2, seed=seed)
            return
        except GradientCheckError as error:
            if "cannot decide" not in str(error):
                raise
    pytest.fail("finite differences cannot decide in any direction")


NAMED = {
    "sort": lambda x: np.sort(x, axis=0),
    "argsort": lambda x: np.argsort(x),
    "take_along_axis": lambda x: np.take_along_axis(x, np.argsort(x, 0), 0),
    "sort of all": lambda x: np.sort(x, axis=None),
    "take": lambda x: np.take(x, [0, -1], axis=1),
    "roll": lambda x: np.roll(x, 1, axis=0),
    "roll back": lambda x: np.roll(x, (-1, 2), axis=(0, 1)),
    "roll of all": lambda x: np.roll(x, 2),
    "roll by half": lambda x: np.roll(x, x.shape[1] // 2, axis=1),
    "flip": lambda x: np.flip(x),
    "rot90": lambda x: np.rot90(x, 3),
    "tile": lambda x: np.tile(x, (2, 1, 3)),
    "repeat": lambda x: np.repeat(x, 3, axis=1),
    "repeat as often as there are rows": lambda x: np.repeat(x, x.shape[0], axis=1),
    "rollaxis": lambda x: np.rollaxis(x, 1),
    "atleast_3d": lambda x: np.atleast_3d(x),
    "hstack": lambda x: np.hstack([x, x]),
    "column_stack": lambda x: np.column_stack([x, x[:, 0]]),
    "dstack": lambda x: np.dstack([x, x]),
    "block": lambda x: np.block([[x, x], [x, x * x]]),
    "append": lambda x: np.append(x, x),
    "delete": lambda x: np.delete(x, 1, axis=0),
    "array_split": lambda x: np.array_split(x, [1], axis=1)[1],
    "halves": lambda x: np.split(x, 2, axis=1)[1],
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, x[0])[1],
    "meshgrid": lambda x: np.meshgrid(x[0], x[:, 0])[0],
    "diagonal": lambda x: np.diagonal(x, 1),
    "diagonal below": lambda x: np.diagonal(x, -2),
    "trace": lambda x: np.trace(x),
    "diag": lambda x: np.diag(x[0], -1),
    "tril": lambda x: np.tril(x),
    "triu": lambda x: np.triu(x, 1),
    "vander": lambda x: np.vander(x[0], 3),
    "pad": lambda x: np.pad(x, ((1, 2), (0, 1)), constant_values=2),
    "pad edge": lambda x: np.pad(x, ((3, 2), (0, 7)), mode="edge"),
    "pad reflect": lambda x: np.pad(x, ((0, 1), (1, 1)), mode="reflect"),
    "pad symmetric": lambda x: np.pad(x, ((1, 2), (2, 1)), mode="symmetric"),
    "pad wrap": lambda x: np.pad(x, ((1, 2), (2, 1)), mode="wrap"),
    "pad maximum": lambda x: np.pad(x, 2, mode="maximum"),
    "linspace": lambda x: np.linspace(x, 0, 3, axis=-1),
    "zeros_like": lambda x: np.zeros_like(x, shape=(*x.shape, 2)) + x[..., None],
    "select": lambda x: np.select([x > 0, x > -1], [x, -x], x * x),
    "piecewise": lambda x: np.piecewise(x, [x > 0], [np.sqrt, np.exp]),
    "choose": lambda x: np.choose((x > 0).astype(int), [x, x * x]),
    "reshape in Fortran order": lambda x: np.reshape(x, -1, order="F"),
}


@pytest.mark.parametrize("program", NAMED.values(), ids=NAMED)
def test_named_sizes_give_numpys_numbers_once_they_are_known(program):
    graph = cr.trace(program, x=cr.float64["n m"])
    for shape in ((2, 2), (3, 4), (5, 2)):
        x = np.random.default_rng(3).normal(size=shape)
        want = program(x)
        got = graph.run(x=x).outputs
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-15)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", [name for name in NAMED if name != "argsort"])
def test_gradients_of_named_sizes_are_those_of_known_ones(name):
    def objective(x):
        return np.sum(np.sin(NAMED[name](x)))

    named = cr.backward(cr.trace(objective, x=cr.float64["n m"]), wrt="x")
    for shape in ((2, 2), (3, 4)):
        x = np.random.default_rng(4).normal(size=shape)
        known = cr.backward(cr.trace(objective, x), wrt="x").run(x=x)["dout/dx"]
        np.testing.assert_allclose(named.run(x=x)["dout/dx"], known, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    ("program", "shape", "text"),
    [
        (lambda x: np.roll(x, 3, axis=0), (2, 2), "np.roll needs an axis of at least 3 elements"),
        (lambda x: np.split(x, 2), (3, 2), "np.split: an axis of length n has no 2 equal parts"),
        (
            lambda x: np.pad(x, 2, mode="reflect"),
            (2, 9),
            "np.pad(mode='reflect') needs an axis of at least 3 elements",
        ),
        (lambda x: np.delete(x, 2, axis=0), (2, 2), "index 2 must lie inside axis 0"),
    ],
)
def test_a_size_that_does_not_fit_is_named_when_it_is_known(program, shape, text):
    graph = cr.trace(program, x=cr.float64["n m"])
    with pytest.raises(SizeError) as caught:
        graph.run(x=np.zeros(shape))
    assert text in caught.value.what


def test_functions_meet_no_number_outside_of_their_condition():
    def pieces(x):
        return np.sum(np.piecewise(x, [x > 0, x < -9], [np.log, np.sqrt]))

    for x in (np.array([2.0, -1.0, 0.0]), np.array([-1.0, -2.0])):
        with np.errstate(all="raise"):
            got = cr.grad(pieces)(x)
        assert np.array_equal(got, np.where(x > 0, 1 / np.where(x > 0, x, 1), 0))


def test_partitions_have_the_same_elements_on_both_sides():
    x = np.random.default_rng(0).normal(size=(3, 11))
    for kth in (0, 3, -1, [2, 7]):
        got = cr.trace(lambda x: np.partition(x, kth), x).run(x=x).outputs  # noqa: B023
        want = np.partition(x, kth)
        for bound in np.ravel(kth) % 11:
            assert np.array_equal(got[:, bound], want[:, bound])
            assert np.array_equal(np.sort(got[:, :bound]), np.sort(want[:, :bound]))
        places = cr.trace(lambda x: np.argpartition(x, kth), x).run(x=x).outputs  # noqa: B023
        assert np.array_equal(np.take_along_axis(x, places, 1), got)
