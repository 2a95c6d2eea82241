"""Operators, methods and options of traced arrays are NumPy's, or they are refused by name."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

import copy
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule as cr
from chainrule.errors import ChainruleError, MissingMethodError, MutationError, ShapeError
from chainrule.frontend.hints.replacements import instead_of

X = np.array([[1.5, -2.0, 0.5], [2.0, 0.25, -1.0]])
Y = np.array([[2.0, 1.0, -1.5], [0.5, 4.0, 3.0]])
CUBE = np.arange(24.0).reshape(2, 3, 4)

METHODS = {
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "sum": lambda x: x.sum() + x.sum(0).sum() + x.sum(axis=-1, keepdims=True),
    "sum of a dtype": lambda x: x.sum(dtype=np.float32),
    "mean": lambda x: x.mean(1) + x.mean() + x.mean((0, 1), keepdims=True)[0],
    "max": lambda x: x.max(0) - x.min(0) + x.max() + x.min(axis=-1, keepdims=True),
    "argmax": lambda x: x.argmax(1) + x.argmax(),
    "reshape": lambda x: x.reshape(3, 2) @ x.reshape((2, -1)),
    "transpose": lambda x: x.transpose() @ x.transpose((0, 1)) @ x.transpose(1, 0),
    "transpose by None": lambda x: x.transpose(None),
    "swapaxes": lambda x: x.swapaxes(0, -1),
    "ravel": lambda x: x.ravel() - x.flatten(),
    "squeeze": lambda x: x[None].squeeze(0) + x[:, None].squeeze(),
    "astype": lambda x: x.astype(np.int32),
    "astype of a name, without copy": lambda x: x.astype("float32", copy=False),
    "astype of an annotation": lambda x: x.astype(cr.float16) if isinstance(x, np.ndarray) else x,
    "copy": lambda x: x.copy(),
    "shape": lambda x: x * x.shape[0] + x.ndim + x.size + len(x),
    "dtype": lambda x: x.astype(x.dtype),
    "iteration": lambda x: sum(row * i for i, row in enumerate(x)),
    "unpacking": lambda x: [row for a, *rest in x for row in (a, *rest)][1],
    "abs": lambda x: abs(x) + +x + -x,
    "and, or, not": lambda x: (x > 0) & (x < 1) | ~(x != 2) | True,
    "and, on the left": lambda x: np.array([True, False, True]) & (x > 0) ^ (x == 2),
    "chained": lambda x: (2 - x) / 2 * 3 ** (x - 1) @ np.ones((3, 1)),
    "matmul on the left": lambda x: np.ones((4, 2)) @ x,
    "a list": lambda x: [1, 2, 3] * x - [[1.0], [2.0]],
    "a NumPy scalar": lambda x: np.float32(2) * x + np.int8(1),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_gives_numpys_numbers(method):
    program = METHODS[method]
    got, want = cr.trace(program, X).run(x=X).outputs, np.asarray(program(X))
    if method == "astype of an annotation":
        assert np.array_equal(got, X)
        return
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert np.allclose(got, want, 1e-6 if want.dtype == np.float32 else 1e-14, 0)


def test_an_annotation_is_a_dtype():
    assert cr.trace(lambda x: x.astype(cr.float16), X).run(x=X).outputs.dtype == np.float16


def test_a_copy_of_a_container_holds_the_same_values():
    def program(params):
        deep, flat = copy.deepcopy(params), copy.copy(params["W"])
        return deep["W"] * flat

    assert np.array_equal(cr.trace(program, {"W": X}).run(params={"W": X}).outputs, X * X)


def test_in_place_operators_bind_the_name_anew():
    def program(x):
        y = x
        y += 1
        y *= x
        return y, x

    before = X.copy()
    changed, same = cr.trace(program, X).run(x=X).outputs
    assert np.array_equal(changed, (before + 1) * before)
    assert np.array_equal(same, before)
    assert np.array_equal(before, X)


def test_what_is_known_while_tracing_is_known():
    seen = {}

    def program(x):
        seen.update(shape=x.shape, ndim=x.ndim, size=x.size, dtype=x.dtype, text=f"{x} {x!r}")
        return x

    cr.trace(program, x=cr.float32["n", 3])
    n = cr.size("n")
    assert seen == {
        "shape": (n, 3),
        "ndim": 2,
        "size": 3 * n,
        "dtype": np.float32,
        "text": "<traced x (float32[n, 3])> <traced x (float32[n, 3])>",
    }


EINSUMS = [
    ("ij,jk->ik", X, Y.T), ("ij,jk", X, Y.T), ("ij->ji", X), ("ij", X), ("ji", X), ("ij->", X),
    ("ij->j", X), ("ii->i", X[:, :2]), ("ii", X[:, :2]), ("iij->j", np.stack([X, Y])[:, :2]),
    ("ij,ij->", X, Y), ("ij,ij->ij", X, Y), ("i,j->ij", X[0], Y[1]), ("i,i", X[0], Y[0]),
    ("bij,bjk->bik", CUBE, CUBE.transpose(0, 2, 1)), ("bij,kj->bik", CUBE, CUBE[0]),
    ("...ij->...ji", CUBE), ("...i,i", CUBE, CUBE[0, 0]), ("...,...", X, Y), ("i...->...", CUBE),
    ("...ij,...jk", CUBE, CUBE.transpose(0, 2, 1)), ("i...j,j->i...", CUBE, CUBE[0, 0]),
    ("ij,jk,kl->il", X, Y.T, X), ("i,ij,j", X[:, 0], X, X[0]), ("ij,kl->", X, Y),
    (" i j , j k -> i k ", X, Y.T), ("a,b,c->cab", X[0], X[1], Y[0]), (",ij", np.array(2.0), X),
    ("ij,j->ij", X, Y[0]), ("aab,bc->ac", np.stack([X, Y])[:, :2], Y.T), ("ijk->k", CUBE),
    ("ij,jk->ik", np.zeros((0, 3)), Y.T), ("ij,jk->ik", np.zeros((2, 0)), np.zeros((0, 4))),
    ("ij,jk->ik", X.astype(np.float32), Y.T), ("ij,jk", X.astype(np.int8), Y.T.astype(np.int16)),
]  # fmt: skip


@pytest.mark.parametrize(("subscripts", "arrays"), [(s, arrays) for s, *arrays in EINSUMS])
def test_einsum_gives_numpys_numbers(subscripts, arrays):
    graph = cr.trace(lambda arrays: np.einsum(subscripts, *arrays), tuple(arrays))
    got, want = graph.run(arrays=tuple(arrays)).outputs, np.einsum(subscripts, *arrays)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert np.allclose(got, want, 1e-13, 1e-13)


@given(st.data())
def test_random_einsums_give_numpys_numbers(data):
    sizes = dict(zip("abcd", (1, 2, 3, 0), strict=True))
    terms = data.draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    letters = sorted(set("".join(terms)))
    result = data.draw(st.permutations(letters).flatmap(lambda p: st.sampled_from([p, p[:1], []])))
    subscripts = f"{','.join(terms)}->{''.join(result)}"
    random = np.random.default_rng(0)
    arrays = tuple(random.normal(size=[sizes[c] for c in term]) for term in terms)
    graph = cr.trace(lambda arrays: np.einsum(subscripts, *arrays), arrays)
    got, want = graph.run(arrays=arrays).outputs, np.einsum(subscripts, *arrays)
    assert got.shape == want.shape
    # at most 2·3·1·0 to 27 products of three normal numbers in one sum
    assert np.allclose(got, want, 1e-12, 1e-12)


NOTHING = instead_of("tobytes")
REFUSED = [
    (lambda x: np.histogram(x), "np.histogram is not traced", instead_of("histogram")),
    (lambda x: np.fft.fft(x), "np.fft.fft is not traced", instead_of("fft.fft")),
    (lambda x: np.max(x, where=x > 0), "np.max(where=...) of x: float64[2, 3] without initial=", "the mask may select no element: give the result for that with initial="),
    (lambda x: np.sum(x, where=x), "where= is x: float64[2, 3]", "give a mask of booleans, for instance where=x > 0"),
    (lambda x: x.argmax(axis=0, mode="first"), "np.argmax(mode=...) is not traced", "leave mode= out, or write the operation with other functions"),
    (lambda x: np.add(x, x, dtype=np.float32), "np.add(dtype=...) is not traced", "leave dtype= out, or write the operation with other functions"),
    (lambda x: x.mean(order="C"), "np.mean(order=...) is not traced", "leave order= out, or write the operation with other functions"),
    (lambda x: x.var(dtype=int), "a variance in int64", "give a floating-point dtype, or convert the result with .astype(...)"),
    (lambda x: x.var(ddof=1, correction=1), "both ddof=1 and correction=1 are given", "they are two names for one number: give one"),
    (lambda x: np.argmin(x[:, :0], 1), "np.argmin of (slice): float64[2, 0], which has no elements", "the largest and smallest of nothing do not exist"),
    (lambda x: np.cumulative_sum(x), "np.cumulative_sum of x: float64[2, 3] without axis=", "an array of 2 axes needs axis="),
    (lambda x: np.quantile(x, x[0, 0]), "np.quantile of a traced q", "q must be known while tracing: a number, or an array that is not an argument"),
    (lambda x: np.quantile(x, 1.5), "np.quantile: q=1.5", "q is from 0 to 1"),
    (lambda x: np.percentile(x, 50, weights=x), "np.percentile(weights=...) is not traced", "leave weights= out, or repeat the elements"),
    (lambda x: np.average(x, weights=x[0]), "np.average of x: float64[2, 3] with the weights (reshape): float64[3]", "weights of another shape than the array need axis="),
    (lambda x: np.average(x, 0, x[0]), "np.average over axis=0 of x: float64[2, 3] with the weights (reshape): float64[3]", "weights have the shape of the array, or the sizes of the axes that are averaged"),
    (lambda x: np.diff(x, -1), "np.diff: n=-1", "the order is 0 or more"),
    (lambda x: np.diff(x, axis=2), "np.diff: axis=2 does not exist: x: float64[2, 3] has 2 axes", "give an integer from -2 to 1"),
    (lambda x: np.gradient(x, edge_order=2), "np.gradient(edge_order=2) along axis 0 of x: float64[2, 3]", "at least 3 elements are needed"),
    (lambda x: np.gradient(x, 1.0, 2.0, 3.0), "np.gradient: 3 spacings for 2 axes", "give one for all axes, or one for each"),
    (lambda x: np.convolve(x, x), "np.convolve of x: float64[2, 3] and x: float64[2, 3]", "it takes two arrays of one axis each, and not empty"),
    (lambda x: np.convolve(x[0], x[1], "all"), "np.convolve: mode='all'", "one of full, same, valid"),
    (lambda x: np.interp(x, [0, 1], [2, 3], period=1), "np.interp(period=1) is not traced", "leave period= out, and repeat the points on both sides"),
    (lambda x: np.digitize(x, x[0]), "np.digitize with the edges (reshape): float64[3]", "it must be known whether they rise or fall; for rising edges use np.searchsorted"),
    (lambda x: np.digitize(x, [0, 2, 1]), "np.digitize: the edges int64[3] are not monotonic", "sort them"),
    (lambda x: np.bincount(x[0].astype(int)), "np.bincount of (cast): int64[3], whose largest element is not known", "give the length of the result, such as minlength=10"),
    (lambda x: np.where(x > 0), "np.where with one argument is not traced", instead_of("nonzero")),
    (lambda x: np.subtract.reduce(x), "np.subtract.reduce is not traced", "of .reduce these are: np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or"),
    (lambda x: x.searchsorted(2), ".searchsorted of x (float64[2, 3]) is not traced", "call np.searchsorted(...)"),
    (lambda x: x.tobytes(), ".tobytes of x (float64[2, 3]) is not traced", NOTHING),
    (lambda x: x.sum(3), "axis=3 does not exist: x: float64[2, 3] has 2 axes", "give an integer from -2 to 1"),
    (lambda x: x.sum((0, -2)), "axis=(0, -2) names an axis of x: float64[2, 3] twice", "name each axis once"),
    (lambda x: x.astype(complex), "x: float64[2, 3] cannot become complex128", "use real floating-point, integer or boolean dtypes"),
    (lambda x: x.reshape(4, -1), "cannot reshape x: float64[2, 3] to [4, -1]: it has 6 elements", "the products of the sizes must be equal; one size may be -1"),
    (lambda x: np.reshape(x, 6, order="B"), "np.reshape(order='B')", 'use order="C" or "F"'),
    (lambda x: x.transpose(0), "axes=(0,) is no permutation of the 2 axes of x: float64[2, 3]", "name each axis once"),
    (lambda x: np.moveaxis(x, (0, 1), 0), "np.moveaxis: 2 axes have 1 destinations", "give one destination for each source"),
    (lambda x: np.squeeze(x, 0), "cannot squeeze axis 0 of x: float64[2, 3]: its size is not 1", "only axes of literal size 1 can be squeezed; index the others, x[0]"),
    (lambda x: np.broadcast_to(x, (3, 2)), "cannot broadcast x: float64[2, 3] to [3, 2]", "from the last axis on, the sizes must be equal or a literal 1"),
    (lambda x: np.pad(x, 1, mode="median"), "np.pad(mode='median') is not traced", "use constant, edge, reflect, symmetric, wrap, linear_ramp, maximum, minimum or mean"),
    (lambda x: np.einsum("ij,jk", x), "np.einsum('ij,jk'): 2 operands are described, 1 are given", "one letter for each axis, commas between operands, -> before the result"),
    (lambda x: np.einsum("ij,ij", x, x.T), "np.einsum('ij,ij'): axis i is 2 and 3 long ((transpose): float64[3, 2])", "each letter stands for one size"),
    (lambda x: np.max(x[:0]), "np.max over axis 0 of (slice): float64[0, 3], which has no elements", "the largest and smallest of nothing do not exist"),
    (lambda x: np.concatenate([x, x[:, :2]]), "np.concatenate along axis 0: x: float64[2, 3] and (slice): float64[2, 2] differ in another axis", "all axes but the joined one must be equal"),
    (lambda x: x @ x, "x: float64[2, 3] @ x: float64[2, 3]: the inner sizes differ, 3 and 2", "the last axis of the left array must equal the second-last of the right one; perhaps one of them needs .T"),
    (lambda x: x @ 2, "@ needs arrays of at least one axis: x: float64[2, 3] @ (full): float64[]", "multiply by a number with *"),
    (lambda x: x + "a", "a traced array meets 'a', a str", "use NumPy arrays and Python numbers"),
    (lambda x: x == None, "a traced array meets None, a NoneType", "use NumPy arrays and Python numbers; ask for None with `is None`"),  # noqa: E711
    (lambda x: x + np.ones(3, complex), "arrays of dtype complex128 cannot be traced", "complex numbers are not traced: use the real and the imaginary part as two real arrays"),
    (lambda x: x & True, "& is defined on booleans and integers only, not on x: float64[2, 3]", "compare first (x > 0), or convert with .astype(bool)"),
    (lambda x: np.negative(x > 0), "np.negative is not defined for (greater): bool[2, 3]", "convert with .astype(...) first"),
    (lambda x: x.astype(np.int8) + 300, "the Python integer 300 does not fit int8", "convert the array with .astype(...) to a wider dtype"),
    (lambda x: x.astype(int) ** -1, "integers to the negative power -1 are not integers: (cast): int64[2, 3]", "convert the base with .astype(float) first"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "what", "hint"), REFUSED)
def test_what_is_not_traced_is_refused_with_its_place(program, what, hint):
    with pytest.raises(ChainruleError) as caught:
        cr.trace(program, X)
    assert (caught.value.what, caught.value.hint) == (what, hint)
    assert f"{__file__}:{program.__code__.co_firstlineno}, in <lambda>" in caught.value.where
    assert "^" in caught.value.where


@pytest.mark.parametrize(
    "write",
    [
        lambda x, out: np.add(x, x, out=out),
        lambda x, out: np.add(x, x, out),
        lambda x, out: np.sum(x, axis=0, out=out),
        lambda x, out: np.add.at(out, 0, x),
        lambda x, out: operator.setitem(x, 0, 1),
    ],
)
def test_nothing_is_written_into(write):
    out = np.zeros((2, 3))
    with pytest.raises(MutationError):
        cr.trace(lambda x: write(x, out), X)
    assert not out.any()


def test_python_may_ask_for_methods():
    def program(x):
        assert not hasattr(x, "tobytes")
        assert not hasattr(x, "no_such_thing")
        assert getattr(x, "flat", None) is None
        return x

    cr.trace(program, X)
    with pytest.raises(AttributeError, match="no attribute 'no_such_thing'"):
        cr.trace(lambda x: x.no_such_thing, X)
    with pytest.raises(MissingMethodError):
        cr.trace(lambda x: x.flat, X)


def test_named_sizes_that_differ_do_not_meet():
    with pytest.raises(ShapeError) as caught:
        cr.trace(lambda x, y: x + y, x=cr.float64["n 3"], y=cr.float64["m 3"])
    assert caught.value.what == (
        "add: the shapes of x: float64[n, 3] and y: float64[m, 3] do not broadcast: "
        "axis -2 is n and m"
    )
    assert caught.value.hint.endswith("declare n and m as one size if they are the same")
