"""Every elementwise function computes in NumPy's dtype and gives NumPy's numbers (NEP 50)."""

import itertools
import operator
import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import DTypeError, EvaluationError
from chainrule.frontend.functions.elementwise import UFUNCS

DTYPES = [
    np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
]
NUMBERS = [True, 2, -3, 300, 1.5, -0.0, float("inf")]
BINARY = [ufunc for ufunc in UFUNCS if ufunc.nin == 2]
OPERATORS = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.true_divide,
    operator.pow: np.power,
    operator.eq: np.equal,
    operator.ne: np.not_equal,
    operator.lt: np.less,
    operator.le: np.less_equal,
    operator.gt: np.greater,
    operator.ge: np.greater_equal,
}


def values(dtype, turn):
    """Some numbers of this dtype: with its extremes, and for floats what is not finite."""
    if dtype.kind == "b":
        return np.array([[True, False, True, False, True], [True, True, False, False, True]])[turn]
    if dtype.kind == "f":
        return np.array([1.5, -2.0, 0.0, np.inf, np.nan], dtype)[[*range(turn, 5), *range(turn)]]
    info = np.iinfo(dtype)
    # 52 bits: beyond them int64 and uint64 meet as float64, in NumPy too except in comparisons.
    low, high = max(info.min, -(2**52)), min(info.max, 2**52)
    return np.array([1, 2, 0, low, high], dtype)[[*range(turn, 5), *range(turn)]]


def numpys(function, *arguments):
    """NumPy's result, or the exception that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(function(*arguments))
        except (TypeError, ValueError, OverflowError) as error:
            return error


def disagreement(function, arguments):
    """How the function differs on traced arrays from NumPy's, or None."""
    want = numpys(function, *arguments)
    arrays = tuple(a for a in arguments if isinstance(a, np.ndarray))

    def program(arrays):
        given = iter(arrays)
        return function(*(next(given) if isinstance(a, np.ndarray) else a for a in arguments))

    try:
        got = cr.trace(program, arrays).run(arrays=arrays).outputs
    except (DTypeError, EvaluationError) as error:
        return None if isinstance(want, Exception) else f"{arguments}: {error}"
    if isinstance(want, Exception):
        return f"{arguments}: NumPy refuses: {want}"
    if got.dtype != want.dtype:
        return f"{arguments}: {got.dtype} instead of {want.dtype}"
    # the very same NumPy loop runs; only for integer powers NumPy has other loops of its own
    near = 4 * np.finfo(want.dtype).eps if want.dtype.kind == "f" else 0
    same = got.shape == want.shape and np.allclose(got, want, near, 0, equal_nan=True)
    return None if same else f"{arguments}: {got} instead of {want}"


def check(function, cases):
    with np.errstate(all="ignore"):
        found = [text for case in cases if (text := disagreement(function, case))]
    assert not found, "\n".join(found[:5])


@pytest.mark.sweep(19)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: ufunc.__name__)
def test_arrays_of_all_dtypes_meet_as_in_numpy(ufunc):
    pairs = itertools.product(DTYPES, repeat=ufunc.nin)
    check(ufunc, [[values(dtype, turn) for turn, dtype in enumerate(pair)] for pair in pairs])


@pytest.mark.sweep(17)
@pytest.mark.parametrize("ufunc", BINARY, ids=lambda ufunc: ufunc.__name__)
def test_python_numbers_never_widen_an_array(ufunc):
    cases = []
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        if ufunc is np.power and dtype.kind == "b" and number == 2 and number is not True:
            continue  # docs/numpy.md: int8, as NumPy's x ** 2, where np.power(x, 2) is int64
        cases += [(values(dtype, 0), number), (number, values(dtype, 0))]
    check(ufunc, cases)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("symbol", OPERATORS, ids=lambda symbol: symbol.__name__)
def test_an_operator_is_its_function_both_ways_round(symbol):
    cases = []
    for dtype in DTYPES:
        x = values(dtype, 0)
        cases += [(x, values(dtype, 1)), (x, 2), (2, x), (x, 0.5), (0.5, x)]
        cases += [(x, x[:1]), (x[:1], x), (x[0:1].reshape(()), x)]
    check(symbol, cases)
    x, y = np.array([1.0, 2.0]), np.array([[2.0], [1.0]])
    # an array of numbers beside a traced one, on the left and on the right
    for program in (lambda x: symbol(x, y), lambda x: symbol(y, x)):
        assert np.array_equal(cr.trace(program, x).run(x=x).outputs, program(x))


def test_named_scalars_never_widen_an_array():
    def program(x, rate=0.5, count=3):
        return x * rate, x + count, rate * count, np.maximum(count, x), x**rate

    for dtype in DTYPES:
        x = values(dtype, 0)
        with np.errstate(all="ignore"):
            want = program(x)
        got = cr.trace(program, x).run(x=x).outputs
        assert [one.dtype for one in got] == [np.asarray(one).dtype for one in want], dtype


def test_a_size_never_widens_an_array():
    graph = cr.trace(lambda x: (x * x.shape[0], x / x.shape[0]), x=cr.float32["n"])
    product, quotient = graph.run(x=np.ones(4, np.float32)).outputs
    assert (product.dtype, quotient.dtype) == (np.float32, np.float32)
    assert (product[0], quotient[0]) == (4, 0.25)
    whole = cr.trace(lambda x: (x * x.shape[0], x / x.shape[0]), x=cr.uint8["n"])
    product, quotient = whole.run(x=np.ones(4, np.uint8)).outputs
    # as np.arange(4, dtype=np.uint8) / 4
    assert (product.dtype, quotient.dtype) == (np.uint8, np.float64)
