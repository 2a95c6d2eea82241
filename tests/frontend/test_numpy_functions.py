"""Every NumPy function that is traced gives NumPy's numbers, dtype and shape, option by option."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
from calls_elementwise import ELEMENTWISE
from calls_linalg import LINALG
from calls_movement import MOVEMENT
from calls_reductions import REDUCTIONS

import chainrule as cr
from chainrule.errors import ChainruleError
from chainrule.frontend.functions.elementwise import UFUNCS
from chainrule.numpy.names import TABLE

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_numpy_page.py"
A = np.array([[1.5, -2.0, 0.5, 3.0], [2.0, 0.25, -1.0, 4.0], [0.75, 1.25, 2.5, -3.5]])
B = np.array([[0.5, 1.0, -1.5, 2.0], [3.0, 0.25, 1.0, -4.0], [1.75, -1.25, 0.5, 3.5]])
C = np.arange(24.0).reshape(2, 3, 4) / 8 - 1
V = np.array([1.0, -2.0, 3.0, 0.5])
ONE = np.array([[[2.0], [3.0]]])
EMPTY = np.zeros((0, 3))
SCALAR = np.array(2.5)
MASK = np.array([[True, False, True, False], [False, False, True, True], [True] * 4])
PLACES = np.array([[0, 2], [1, -1]])


def call(*args, **kwargs):
    """One way of calling a function; arrays of numbers, also in lists, are what is traced."""
    return args, kwargs


def reductions(*arrays):
    """A reduction over all axes, one, several, none, negative ones, kept and not."""
    axes = (None, 0, -1, (0, 1), (), (-1, 0))
    return [
        call(array, axis=axis, keepdims=keep)
        for array in arrays
        for axis in axes
        for keep in (False, True)
        if array.ndim > 1
    ] + [call(array) for array in arrays]


CALLS = {
    np.bitwise_and: [call(MASK, MASK[0]), call(MASK, True)],
    np.bitwise_or: [call(MASK, MASK[0]), call(False, MASK)],
    np.bitwise_xor: [call(MASK, MASK[1]), call(True, MASK)],
    np.invert: [call(MASK)],
    np.sum: [*reductions(A, C, EMPTY), call(A, 0), call(A, 0, np.float32), call(A, dtype=int)],
    np.max: reductions(A, C, V, SCALAR),
    np.min: reductions(A, C, V, SCALAR),
    np.mean: [*reductions(A, C, SCALAR), call(EMPTY, axis=1)],
    np.var: [*reductions(A, C), call(A, ddof=1), call(A, 1, ddof=2, keepdims=True)],
    np.std: [*reductions(A, C), call(A, ddof=1), call(A * 0, axis=1)],
    np.argmax: [call(A), call(A, 0), call(A, -1, keepdims=True), call(C, keepdims=True), call(V)],
    np.reshape: [call(A, 12), call(A, (2, -1)), call(A, [-1]), call(EMPTY, (3, 0)), call(V, -1)],
    np.ravel: [call(A), call(C), call(SCALAR)],
    np.transpose: [call(A), call(C, (1, 0, 2)), call(C, (-1, 0, 1)), call(V), call(SCALAR)],
    np.matrix_transpose: [call(A), call(C)],
    np.swapaxes: [call(C, 0, 2), call(C, -1, 1), call(A, 0, 0)],
    np.moveaxis: [call(C, 0, -1), call(C, (0, 1), (1, 0)), call(C, (0, 1), (-1, 0)), call(C, 2, 0)],
    np.expand_dims: [call(A, 0), call(A, -1), call(A, (0, 2)), call(SCALAR, 0)],
    np.squeeze: [call(ONE), call(ONE, 0), call(ONE, (0, 2)), call(ONE, -1), call(A)],
    np.broadcast_to: [call(V, (3, 4)), call(SCALAR, (2, 0)), call(SCALAR, 3), call(ONE, (2, 2, 5))],
    np.concatenate: [
        call([A, B]),
        call((A, B), axis=1),
        call([A, B, A], -1),
        call([A, B], axis=None),
        call([A]),
        call([A, EMPTY[:, :0].reshape(0, 4)]),
    ],
    np.stack: [call([A, B]), call((A, B), axis=-1), call([A, B], 1), call([SCALAR, SCALAR])],
    np.where: [call(MASK, A, B), call(MASK, A, 0), call(A > 0, 1.5, B), call(MASK, A, V)],
    np.matmul: [
        call(A, B.T),
        call(A, V),
        call(V, V),
        call(V[:3], A),
        call(C, A.T),
        call(C, np.swapaxes(C, 1, 2)),
        call(V[:3], C),
        call(C, V),
        call(A, np.swapaxes(C, 1, 2)),
        call(EMPTY, A),
    ],
    np.clip: [
        call(A, -1, 1),
        call(A, 0, None),
        call(A, None, 0.5),
        call(A, min=0.5),
        call(A, V, 2),
        call(A, a_max=1, a_min=0),
        call(A, max=1, min=0),
    ],
    np.positive: [call(A)],
    np.copy: [call(A)],
    np.shape: [call(C)],
    np.ndim: [call(C)],
    np.size: [call(C)],
    **ELEMENTWISE,
    **LINALG,
    **MOVEMENT,
    **REDUCTIONS,
}
DTYPES = [*dict.fromkeys(np.dtype(code) for code in "?bhilqBHIQefd")]  # l and q are often one
ROUNDING = 8  # ulps of the result's dtype; none of the sums here has more than 24 terms
NARROW = {np.dtype(code) for code in "?bhBH"}
WHOLE = {np.dtype(code) for code in "?bhilqBHIQ"}
UNSIGNED = {np.dtype(code) for code in "BHIQ"}
# What docs/numpy.md says is not as in NumPy: per function, the dtypes for which some call differs.
DIFFERENT = {
    np.clip: UNSIGNED,
    np.linalg.cond: {np.dtype(bool)},
    np.positive: {np.dtype(bool)},
}


def mapped(value, change):
    """The value with `change` of each of its arrays in place of it."""
    if isinstance(value, np.ndarray):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, change) for item in value)
    return value


def as_dtype(value, dtype):
    """Arrays of floats in this dtype; of their absolute values where it has no negative numbers."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        with np.errstate(invalid="ignore", over="ignore"):  # integers of what is not finite
            return np.asarray(np.abs(value) if dtype.kind in "ub" else value).astype(dtype)
    return value


def numbers_of(function, args, kwargs):
    """The result of the function on traced arguments, in numbers."""
    inputs = []
    mapped([*args, *kwargs.values()], inputs.append)

    def program(arrays):
        given = iter(arrays)
        positional = [mapped(arg, lambda _: next(given)) for arg in args]
        named = {key: mapped(value, lambda _: next(given)) for key, value in kwargs.items()}
        return function(*positional, **named)

    return cr.trace(program, tuple(inputs)).run(arrays=tuple(inputs)).outputs


def numpys(function, args, kwargs):
    """NumPy's own result, or the exception that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs)
        except Exception as error:
            return error


def difference(got, want):
    """Why two results are not the same, or ''."""
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        return "".join(difference(a, b) for a, b in zip(got, want, strict=True))
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind != "f":
        return "" if np.array_equal(got, want) else f"{got} instead of {want}"
    wide, near = want.astype(np.float64), ROUNDING * np.finfo(want.dtype).eps
    scale = np.max(np.abs(wide), initial=0, where=np.isfinite(wide))
    same = np.allclose(got.astype(np.float64), wide, near, near * scale, equal_nan=True)
    return "" if same else f"{got} instead of {want}"


def disagreement(function, args, kwargs):
    """How the traced function differs from NumPy's, '' where it does not."""
    want = numpys(function, args, kwargs)
    try:
        got = numbers_of(function, args, kwargs)
    except ChainruleError as error:
        return "" if isinstance(want, Exception) else f"refused: {error.what}"
    return f"{want!r} expected" if isinstance(want, Exception) else difference(got, want)


def test_every_traced_function_is_called_here():
    named = {function for function in TABLE if not isinstance(function, str)}
    assert named - set(UFUNCS) == set(CALLS)


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_a_function_gives_numpys_numbers(function):
    """In its first call, and in every fifth of the others."""
    gives_numpys_numbers(function, CALLS[function][::5])


@pytest.mark.exhaustive
@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_every_call_gives_numpys_numbers(function):
    gives_numpys_numbers(function, CALLS[function])


def gives_numpys_numbers(function, calls):
    for args, kwargs in calls:
        assert not isinstance(numpys(function, args, kwargs), Exception), (args, kwargs)
        assert disagreement(function, args, kwargs) == "", (args, kwargs)


@pytest.mark.parametrize("function", list(CALLS)[::13], ids=lambda function: function.__name__)
def test_a_function_follows_numpys_dtypes(function):
    """Some functions in their first call; all of them, and their other calls, below."""
    found = without_numpys_dtypes(function, CALLS[function][:1])
    assert set(found) <= DIFFERENT.get(function, set()), found


@pytest.mark.slow
@pytest.mark.sweep(2)  # the quick one has a third of them
@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_every_function_follows_numpys_dtypes(function):
    """Each of its calls in a few dtypes, one after another."""
    found = without_numpys_dtypes(function, CALLS[function], every=12)
    assert set(found) <= DIFFERENT.get(function, set()), found


@pytest.mark.exhaustive
@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_every_option_follows_numpys_dtypes(function):
    found = without_numpys_dtypes(function, CALLS[function])
    assert set(found) == DIFFERENT.get(function, set()), found


def without_numpys_dtypes(function, calls, every=1):
    """The dtypes for which a call differs from NumPy's, and how; if `every` is 6, each call is
    tried in every sixth dtype, the next call in the next ones."""
    found = {}
    for number, (args, kwargs) in enumerate(calls):
        for dtype in DTYPES[number % every :: every]:
            new = mapped([args, list(kwargs.values())], lambda array: as_dtype(array, dtype))  # noqa: B023
            text = disagreement(function, new[0], dict(zip(kwargs, new[1], strict=True)))
            if text:
                found.setdefault(dtype, text)
    return found


def test_the_page_of_traced_functions_is_current():
    spec = importlib.util.spec_from_file_location("make_numpy_page", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), f"run python {SCRIPT}"
    assert set(DIFFERENT) <= set(script.NOTES)
