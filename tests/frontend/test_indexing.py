"""x[...] on traced arrays is NumPy's x[...], for known and for named sizes, with its derivative."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import chainrule as cr
from chainrule.errors import (
    DataDependentError,
    IndexOutOfRangeError,
    MutationError,
    ShapeError,
    SizeError,
    UnsupportedError,
)

NAMES = cr.sizes("a b c d")
slices = st.builds(
    slice,
    st.none() | st.integers(-7, 7),
    st.none() | st.integers(-7, 7),
    st.none() | st.sampled_from([1, -1, 2, -2, 3, -3, 7, -7]),
)


def index_arrays(length):
    """Arrays of places on an axis, of shapes that broadcast with each other."""
    shapes = st.sampled_from([(), (1,), (3,), (2, 1), (2, 3), (0,), (1, 0)])
    if length == 0:
        return st.just(np.zeros((0,), np.int64))
    return shapes.flatmap(
        lambda shape: st.lists(st.integers(-length, length - 1), min_size=6, max_size=6).flatmap(
            lambda places: st.sampled_from([np.int64, np.int8, np.int32]).map(
                lambda dtype: np.array(places[: int(np.prod(shape))], dtype).reshape(shape)
            )
        )
    )


def items(length):
    """What may stand for one axis."""
    masks = st.lists(st.booleans(), min_size=length, max_size=length).map(
        lambda mask: np.array(mask, bool)
    )
    kinds = [slices, slices, index_arrays(length), masks]
    if length:
        kinds.append(st.integers(-length, length - 1))
        kinds.append(st.integers(-length, length - 1).map(np.int64))
    return st.one_of(kinds)


@st.composite
def indexed(draw, sizes):
    """An array's shape and a key for it."""
    shape = tuple(draw(st.lists(st.sampled_from(sizes), max_size=4)))
    key, axis, has_ellipsis = [], 0, False
    while axis < len(shape) and (has_ellipsis or draw(st.integers(0, 9))):
        kind = draw(st.integers(0, 9))
        if kind == 0:
            key.append(None)
        elif kind == 1 and not has_ellipsis:
            key.append(Ellipsis)
            axis, has_ellipsis = draw(st.integers(axis, len(shape))), True
        else:
            key.append(draw(items(shape[axis])))
            axis += 1
    return shape, tuple(key)


def numpys(x, key):
    """NumPy's answer; None where it has none (index arrays that do not broadcast)."""
    try:
        return x[key]
    except IndexError:
        return None


def check(graph, x, key):
    want = numpys(x, key)
    got = graph.run(x=x).outputs
    assert got.shape == want.shape
    assert np.array_equal(got, want)
    bound = graph.bound({name: x.shape["abcd".index(name)] for name in graph.sizes})
    assert bound.outputs[0][1].shape == want.shape


def counting(shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)


SEPARATED = np.array([True, True, False, True, False])


@given(indexed((0, 1, 2, 3, 5)))
@example(((), ()))
@example(((), (None, Ellipsis)))
@example(((3, 5, 2), (slice(None, 6, 2), SEPARATED, Ellipsis, -2, None)))
@example(((3, 5, 2), (slice(None), 1, None, np.array([0, 1]))))
@example(((2, 3, 4), (np.array([[0], [1]]), slice(1, None), np.array([3, 0]))))
@example(((2, 3), (np.array([[True, False, True], [False, True, True]]),)))
def test_an_index_gives_numpys_elements(case):
    shape, key = case
    x = counting(shape)
    if numpys(x, key) is None:
        with pytest.raises(ShapeError, match="do not broadcast"):
            cr.trace(lambda x: x[key], x)
        return
    check(cr.trace(lambda x: x[key], x), x, key)


@given(indexed((1, 2, 3, 5)), st.lists(st.booleans(), min_size=4, max_size=4))
def test_an_index_of_named_sizes_gives_numpys_elements_once_they_are_known(case, named):
    shape, key = case
    x = counting(shape)
    assume(numpys(x, key) is not None)
    axes = [NAMES[i] if named[i] else size for i, size in enumerate(shape)]
    check(cr.trace(lambda x: x[key], x=cr.float64[tuple(axes)]), x, key)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x[x.shape[0] // 2 :],
        lambda x: x[: x.shape[0] - 1],
        lambda x: x[x.shape[0] - 1],
        lambda x: x[-x.shape[0]],
        lambda x: x[1 : x.shape[0] // 3 : 2],
        lambda x: x[x.shape[0] - 2 :: -1],
        lambda x: x[-x.shape[0] : -1],
        lambda x: x[(x.shape[0] - 1) // 2],
    ],
)
def test_sizes_stand_in_indices(read):
    graph = cr.trace(read, x=cr.float64["n"])
    for n in (1, 2, 3, 7, 12):
        if n > 1 or not graph.conditions:
            x = counting((n,))
            assert np.array_equal(graph.run(x=x).outputs, read(x))


def test_an_end_of_unknown_sign_counts_from_the_front():
    def rest(x, y):
        return x[x.shape[0] - y.shape[0] :]

    graph = cr.trace(rest, x=cr.float64["n"], y=cr.float64["m"])
    assert np.array_equal(graph.run(x=counting((5,)), y=np.zeros(2)).outputs, [3.0, 4.0])
    with pytest.raises(SizeError, match=r"the end -m \+ n of a slice must not be negative"):
        graph.run(x=counting((2,)), y=np.zeros(5))


def test_traced_indices_are_read_when_the_graph_runs():
    def pick(x, i, j):
        return x[i, :, j]

    x, i, j = counting((2, 3, 4)), np.array([1, 0, -1]), np.array([[0], [3]])
    graph = cr.trace(pick, x, i, j)
    for step in (0, 1):
        run = graph.run(x=x, i=i - step, j=j - step)
        assert np.array_equal(run.outputs, pick(x, i - step, j - step))
    scalar = cr.trace(lambda x, i: x[i], x, np.array(1)).run(x=x, i=np.array(-2))
    assert np.array_equal(scalar.outputs, x[-2])
    several = cr.trace(lambda x, i: x[[i, 0]], x, np.array(1)).run(x=x, i=np.array(-1))
    assert np.array_equal(several.outputs, x[[-1, 0]])


GRADIENTS = {
    "an integer": ((3, 2), -1),
    "a slice": ((5, 2), slice(4, None, -2)),
    "nothing": ((5,), slice(3, 3)),
    "an integer, a slice and a new axis": ((3, 5), (1, None, slice(1, 4))),
    "places, one of them twice": ((4, 2), np.array([[0, 3], [3, -1]])),
    "a mask": ((4, 2), np.array([True, False, True, True])),
    "places separated by a slice": ((3, 2, 4), ([0, 2], slice(None), [[1], [1]])),
    "a place and an integer": ((3, 2, 4), (slice(None), np.array([1, 1, 0]), 3)),
    "Ellipsis": ((2, 3, 2), (..., np.array([1, 0, 1]))),
}


@pytest.mark.parametrize(("shape", "key"), GRADIENTS.values(), ids=GRADIENTS)
def test_the_gradient_through_an_index_is_that_of_finite_differences(shape, key):
    random = np.random.default_rng(0)
    x = random.normal(size=shape)
    weights = random.normal(size=x[key].shape)

    def f(x):
        return np.sum(np.sin(x)[key] * weights)

    step = 1e-6
    want = np.empty(shape)
    for place in np.ndindex(*shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        want[place] = (f(up) - f(down)) / (2 * step)
    # central differences: step² f'''/6 < 1e-12, and rounding 1e-16/step = 1e-10 of sums of 12 terms
    assert np.allclose(cr.grad(f)(x), want, rtol=1e-8, atol=2e-9)


REFUSED = [
    ((5,), lambda x: x[7], IndexOutOfRangeError, "index 7 is out of range for axis 0 of x: float64[5]", "the axis has 5 elements"),
    ((5,), lambda x: x[0, 0], ShapeError, "too many indices: 2 for x: float64[5], which has 1 axes", "use at most one index for each axis, and one Ellipsis"),
    ((5,), lambda x: x[..., ...], ShapeError, "more than one Ellipsis for x: float64[5], which has 1 axes", "use at most one index for each axis, and one Ellipsis"),
    ((5,), lambda x: x[::0], ShapeError, "the step of a slice must be an integer other than 0, got 0", "use 1, or -1 to reverse"),
    (("n",), lambda x: x[:: x.shape[0]], ShapeError, "the step of a slice must be an integer other than 0, got n", "use 1, or -1 to reverse"),
    ((5,), lambda x: x[:1.5], ShapeError, "the end of a slice must be an integer, got 1.5", "use an integer, or a size such as x.shape[0]"),
    ((5,), lambda x: x[1.5], ShapeError, "an index must be an integer, slice, None, Ellipsis or array, got 1.5", "convert it with int(...)"),
    ((5,), lambda x: x["a"], ShapeError, "an index must be an integer, slice, None, Ellipsis or array, got 'a'", "use integers"),
    ((5,), lambda x: x[np.zeros(2)], ShapeError, "an index must be of integers, got (constant): float64[2]", "convert it with .astype(np.int64)"),
    ((5,), lambda x: x[x], ShapeError, "an index must be of integers, got x: float64[5]", "convert it with .astype(np.int64)"),
    ((5,), lambda x: x[x > 0], UnsupportedError, "a traced boolean mask as an index would give an array whose shape depends on its values", "keep the shape and choose with np.where(mask, x, 0)"),
    ((5,), lambda x: x[True], UnsupportedError, "the boolean True as an index is not traced", "use x[None] for a new axis, or an array of booleans as a mask"),
    ((5,), lambda x: x[[True, False]], ShapeError, "a boolean mask of length 2 must fit axis 0 of x: float64[5]", "a mask must have the shape of the array"),
    ((5,), lambda x: x[: x[0]], DataDependentError, "an integer of float64[]: its numbers do not exist while the program is traced", "use a Python int, or x.shape[0] for a size"),
    ((5, 5), lambda x: x[[0, 1], [0, 1, 2]], ShapeError, "the index arrays: the shapes of (constant): int64[2] and (constant): int64[3] do not broadcast: axis -1 is 2 and 3", "axes are compared from the last one; one of the two must be equal or a literal 1"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "program", "kind", "what", "hint"), REFUSED)
def test_a_wrong_index_is_explained(shape, program, kind, what, hint):
    with pytest.raises(kind) as caught:
        cr.trace(program, x=cr.float64[shape])
    assert (caught.value.what, caught.value.hint) == (what, hint)
    assert f"{__file__}:{program.__code__.co_firstlineno}, in <lambda>" in caught.value.where
    assert "^" in caught.value.where


def test_an_index_that_may_be_outside_is_checked_when_the_size_is_known():
    graph = cr.trace(lambda x: x[3], x=cr.float64["n"])
    assert graph.run(x=counting((4,))).outputs == 3
    with pytest.raises(SizeError) as caught:
        graph.run(x=counting((2,)))
    assert caught.value.what == (
        "index 3 must lie inside axis 0 of x: float64[n], of length n; not so for n=2"
    )


def test_a_mask_of_a_named_axis_is_checked_when_the_size_is_known():
    mask = np.array([True, False, True])
    graph = cr.trace(lambda x: x[mask], x=cr.float64["n"])
    assert np.array_equal(graph.run(x=counting((3,))).outputs, [0, 2])
    with pytest.raises(SizeError, match="a boolean mask of length 3 must fit axis 0 of x"):
        graph.run(x=counting((2,)))


def test_assigning_to_an_index_is_refused():
    def assign(x):
        x[0] = 1
        return x

    with pytest.raises(MutationError, match=r"item assignment to x \(float64\[3\]\)"):
        cr.trace(assign, np.zeros(3))
