"""Running sums, products and extremes, and recurrences, as compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executing import Call, check_bits, gradient_of, inputs_of, native, planned
from primitive_calls import expected, graph_of_calls

import chainrule as cr
from chainrule.execute.run import kept_nodes
from chainrule.plan.loops import nest
from chainrule.plan.work import NestWork
from chainrule.primitives.cumulative import CUMULATIVE, cumprod, cumsum, recurrence

pytestmark = pytest.mark.usefixtures("every_width", "fences")

RANDOM = np.random.default_rng(11)


def running_call(
    shape: tuple[int, ...], axis: int, reverse: bool, dtype: str, primitive: Any = recurrence
) -> Call:
    wide = 1.2 if primitive is recurrence else 0.4  # products of many stay in range
    arrays = [(RANDOM.uniform(-wide, wide, shape) * 3).astype(dtype) for _ in primitive.inputs]
    return primitive, arrays, {"axis": axis, "reverse": reverse}


# Lines of up to 64 numbers and of more, in blocks; as many rows as lanes, fewer and more.
LINES = [(4, 64), (3, 65), (7, 66), (16, 129), (17, 130), (33, 194), (5, 1, 300), (2, 9, 257, 1)]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "uint8"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("primitive", CUMULATIVE, ids=lambda one: one.name)
def test_what_comes_from_the_element_before(dtype: str, reverse: bool, primitive: Any) -> None:
    shapes = [(1,), (2,), (33,), (3, 1), (1, 5), (4, 2), (6, 3), (7, 19), (5, 40), (3, 9, 4)]
    shapes += [(2, 5, 1), (0, 3), (3, 0), (2, 0, 2), (4, 33, 17), *LINES]
    calls = [
        running_call(shape, axis, reverse, dtype, primitive)
        for shape in shapes
        for axis in range(len(shape))
    ]
    with np.errstate(all="ignore"):
        check_bits(calls)


@pytest.mark.parametrize("primitive", CUMULATIVE, ids=lambda one: one.name)
def test_recurrences_that_threads_share(primitive: Any) -> None:
    calls = [running_call((60, 50, 7), axis, True, "float32", primitive) for axis in (1, 2)]
    calls += [
        running_call(shape, len(shape) - 1, reverse, "float32", primitive)
        for shape in ((37, 1000), (3, 4000), (5000, 70), (2, 40, 333))
        for reverse in (False, True)
    ]
    check_bits(calls, threads=2)


@pytest.mark.parametrize("reverse", [False, True])
def test_blocks_of_a_line_are_one_threads(reverse: bool) -> None:
    call = running_call((40, 1000), 1, reverse, "float32", cumsum)
    graph, _ = graph_of_calls([call])
    (work,) = planned(graph, [graph.outputs[0][1]], threads=2).works
    assert isinstance(work, NestWork)
    blocks = work.layouts[-1]
    assert blocks.nest.rows == (40, 15) and blocks.lanes is not None
    assert blocks.parts == 2 and blocks.turns == -(-40 // blocks.width)


@pytest.mark.parametrize("length", [0, 1])
def test_a_line_of_one_number_beside_what_is_computed_again(length: int) -> None:
    def of(x: Any, w: Any, k: Any) -> Any:
        c = np.cumsum(x, axis=1)
        return (x * 2) @ w, c, np.cumsum(k, axis=1), np.cumsum(k, axis=1, dtype=k.dtype)

    arrays = {
        "x": RANDOM.normal(size=(40, length)).astype(np.float32),
        "w": RANDOM.normal(size=(length, 7)).astype(np.float32),
        "k": RANDOM.integers(0, 9, (40, length)).astype(np.int32),
    }
    got, wanted = cr.compile(of, executor="native")(**arrays), of(**arrays)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_what_is_read_may_be_computed_on_the_way() -> None:
    def running(x: Any, y: Any) -> Any:
        c = np.cumsum(np.exp(x) * y, axis=1)
        d = np.cumprod(np.flip(np.tanh(x + y), 1), axis=1)
        e = np.cumsum(x.T, axis=0)
        return c, d, e

    arrays = {name: RANDOM.normal(size=(21, 150)) for name in ("x", "y")}
    graph = cr.trace(running, **arrays)
    inputs, keep = inputs_of(graph, arrays), kept_nodes(graph, "outputs")
    assert not planned(graph, keep).foreign
    got, wanted = native(graph, inputs, keep), expected(graph, inputs, keep)
    assert got is not None
    for node in keep:
        np.testing.assert_allclose(got[node], wanted[node], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reverse", [False, True])
def test_zeros_have_their_signs_and_nans_their_places(dtype: str, reverse: bool) -> None:
    odd = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, -3e38], dtype)
    mixed = RANDOM.choice(odd, (19, 140))
    zeros = RANDOM.choice(np.array([-0.0, 0.0], dtype), (19, 140), p=[0.97, 0.03])
    params = {"axis": 1, "reverse": reverse}
    single = [one for one in CUMULATIVE if len(one.inputs) == 1]
    with np.errstate(all="ignore"):
        check_bits([(one, [mixed], params) for one in single])
    for primitive in (cumsum, cumprod):
        graph, inputs = graph_of_calls([(primitive, [zeros], params)])
        ((_, node),) = graph.outputs
        got, wanted = native(graph, inputs, [node]), expected(graph, inputs, [node])
        assert got is not None
        np.testing.assert_array_equal(np.signbit(got[node]), np.signbit(wanted[node]))
        assert np.signbit(wanted[node]).any() and not np.signbit(wanted[node]).all()


def test_more_lanes_than_a_recurrence_allows_are_seen(monkeypatch: Any) -> None:
    monkeypatch.setattr(nest.NestLayout, "_lanes_apart", lambda self: 64)
    with pytest.raises(AssertionError):
        check_bits([running_call((7, 3), 0, False, "float32")])


def test_the_gradient_of_a_running_product_is_compiled() -> None:
    x = RANDOM.uniform(0.5, 1.5, (4, 50))
    graph, inputs, keep = gradient_of(lambda x: np.sum(np.sin(np.cumprod(x, axis=1))), {"x": x})
    assert not planned(graph, keep).foreign
    got, wanted = native(graph, inputs, keep), expected(graph, inputs, keep)
    assert got is not None
    np.testing.assert_allclose(got[keep[-1]], wanted[keep[-1]], rtol=1e-13, atol=1e-13)
    h = 1e-6
    for row, column in ((0, 0), (1, 17), (3, 49)):
        ends = []
        for step in (h, -h):
            moved = x.copy()
            moved[row, column] += step
            ends.append(np.sum(np.sin(np.cumprod(moved, axis=1))))
        slope = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(got[keep[-1]][row, column], slope, rtol=1e-6, atol=1e-7)
