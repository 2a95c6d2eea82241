"""Windows added back into an array, as compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executing import Call, check_bits, gradient_of, native, planned
from primitive_calls import expected, graph_of_calls

import chainrule as cr
from chainrule.plan.loops import windows
from chainrule.plan.work import NestWork
from chainrule.primitives.windows import fold_windows, positions_of

pytestmark = pytest.mark.usefixtures("every_width", "fences")

RANDOM = np.random.default_rng(11)


def fold_call(
    batch: tuple[int, ...],
    lengths: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    dilation: tuple[int, ...] | None = None,
    dtype: str = "float32",
) -> Call:
    """A call that adds random windows of an array of shape (*batch, *lengths)."""
    stride, dilation = stride or (1,) * len(window), dilation or (1,) * len(window)
    positions: Any = positions_of(lengths, window, stride, dilation)
    g = (RANDOM.uniform(-2, 2, (*batch, *positions, *window)) * 50).astype(dtype)
    return fold_windows, [g], {"stride": stride, "dilation": dilation, "shape": batch + lengths}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_windows_of_one_axis(dtype: str) -> None:
    calls = [
        fold_call(batch, (length,), (window,), (stride,), (dilation,), dtype)
        for batch in ((), (2, 1, 2))
        for length in (1, 7, 37)
        for window in (1, 2, 5)
        for stride in (1, 2)
        for dilation in (1, 3)
        if dilation * (window - 1) < length
    ]
    check_bits(calls)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_windows_of_two_axes(dtype: str) -> None:
    calls = [
        fold_call(batch, lengths, window, stride, dilation, dtype)
        for batch, lengths in (((), (7, 9)), ((2, 3), (6, 33)))
        for window in ((3, 3), (2, 5), (4, 1))
        for stride in ((1, 1), (2, 5), (3, 1))
        for dilation in ((1, 1), (3, 1))
        if all(d * (w - 1) < n for n, w, d in zip(lengths, window, dilation, strict=True))
    ]
    check_bits(calls)


def test_odd_windows() -> None:
    check_bits(
        [
            fold_call((), (6, 7), (6, 7)),  # one window: the whole
            fold_call((4,), (1, 1), (1, 1)),
            fold_call((0, 2), (5, 5), (3, 3)),
            fold_call((2, 0), (4,), (2,)),
            fold_call((2,), (9, 4), (3, 2), (3, 2)),  # side by side
            fold_call((2,), (10, 9), (3, 2), (3, 4)),  # with gaps
            fold_call((2,), (6,), (3,), (2,)),  # as many as elements, but one is in two of them
            fold_call((1, 1), (3, 4, 5), (2, 2, 2), (1, 2, 1)),
            fold_call((3,), (500,), (400,)),
        ]
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_share_the_planes(dtype: str) -> None:
    call = fold_call((8, 5), (40, 41), (3, 3), (2, 1), dtype=dtype)
    graph, _ = graph_of_calls([call])
    (work,) = planned(graph, [graph.outputs[0][1]], threads=2).works
    assert isinstance(work, NestWork)
    assert [one.parts for one in work.layouts] == [2, 2]
    assert work.layouts[-1].row_count == 40  # planes: no two threads add to one
    check_bits([call], threads=2)


def test_one_plane_is_not_shared() -> None:
    graph, _ = graph_of_calls([fold_call((), (200, 201), (3, 3))])
    plan = planned(graph, [graph.outputs[0][1]], threads=2)
    assert "but it has 1 row" in str(plan)


def test_windows_side_by_side_are_written_once() -> None:
    graph, _ = graph_of_calls([fold_call((2,), (9, 4), (3, 2), (3, 2))])
    (work,) = planned(graph, [graph.outputs[0][1]]).works
    assert isinstance(work, NestWork) and len(work.layouts) == 1


def test_windows_that_are_taken_to_be_apart_are_seen(monkeypatch: Any) -> None:
    monkeypatch.setattr(windows, "windows_meet", lambda node: False)
    with pytest.raises(AssertionError):
        check_bits([fold_call((2,), (9,), (3,))])


CONVOLUTIONS = {
    "plain": ((2, 3, 9, 8), (4, 3, 3, 2), {}),
    "padded": ((2, 3, 9, 17), (4, 3, 3, 3), {"padding": 1}),
    "dilated": ((2, 3, 9, 17), (4, 3, 3, 3), {"padding": (2, 0), "dilation": (2, 3)}),
    "strided": ((2, 3, 9, 17), (4, 3, 3, 3), {"padding": 1, "stride": 2}),
    "grouped": ((2, 6, 9, 17), (4, 3, 3, 3), {"padding": 1, "groups": 2}),
    "by channel": ((2, 4, 9, 17), (4, 1, 3, 3), {"groups": 4}),
    "grouped and strided": ((2, 6, 9, 17), (4, 3, 3, 3), {"groups": 2, "stride": (1, 3)}),
    "of the whole": ((2, 3, 9, 8), (4, 3, 9, 8), {}),
    "1 x 1": ((2, 3, 5, 4), (4, 3, 1, 1), {}),
    "along a sequence": ((2, 3, 30), (4, 3, 5), {"padding": 2}),
    "along a sequence, strided": ((2, 3, 30), (4, 3, 5), {"stride": 3, "dilation": 2}),
    "of a volume": ((2, 3, 4, 6, 9), (4, 3, 2, 3, 2), {"padding": 1, "stride": (1, 2, 1)}),
    "transposed": ((2, 3, 9, 17), (3, 4, 3, 2), {"padding": 1}),
    "transposed, strided": ((2, 3, 6, 9), (3, 4, 3, 2), {"stride": 2, "output_padding": 1}),
    "transposed, grouped": ((2, 6, 5, 9), (6, 2, 3, 3), {"groups": 2, "stride": (1, 3)}),
    "transposed, of a volume": ((2, 3, 3, 4, 5), (3, 4, 2, 3, 2), {"stride": (2, 1, 2)}),
}


def in_dtypes() -> list[Any]:
    """Each in one of the dtypes; in the other it is exhaustive."""
    return [
        pytest.param(name, dtype, marks=pytest.mark.exhaustive if (n + d) % 2 else ())
        for n, name in enumerate(CONVOLUTIONS)
        for d, dtype in enumerate(("float32", "float64"))
    ]


@pytest.mark.peers
@pytest.mark.sweep(3)
@pytest.mark.parametrize(("name", "dtype"), in_dtypes())
def test_gradients_of_convolutions_are_pytorchs(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    shape, kernel, options = CONVOLUTIONS[name]
    function = f"conv{'_transpose' * name.startswith('transposed')}{len(shape) - 2}d"
    ours, theirs = getattr(cr, function), getattr(torch, function)
    arrays = {
        "x": RANDOM.normal(size=shape).astype(dtype),
        "W": RANDOM.normal(size=kernel).astype(dtype),
    }
    graph, inputs, keep = gradient_of(lambda x, W: np.sum(np.sin(ours(x, W, **options))), arrays)
    assert not planned(graph, keep, threads=2).foreign
    reference = expected(graph, inputs, keep)
    got = native(graph, inputs, keep, threads=2)
    assert got is not None
    tensors = [torch.from_numpy(one).requires_grad_() for one in arrays.values()]
    total = torch.sum(torch.sin(theirs(*tensors, **options)))
    wanted = [total.detach().numpy(), *(g.numpy() for g in torch.autograd.grad(total, tensors))]
    # Sums of some 200 numbers: rounding errors of a few ulp of the largest, of which some cancel.
    rtol = 2e-5 if dtype == "float32" else 2e-14
    for node, truth in zip(keep, wanted, strict=True):
        limit = rtol * max(float(np.max(np.abs(truth))), 10.0)
        np.testing.assert_allclose(got[node], truth, rtol=rtol, atol=limit)
        np.testing.assert_allclose(reference[node], truth, rtol=rtol, atol=limit)


POOLS = {
    "max": lambda x: cr.max_pool2d(x, 2),
    "max, overlapping": lambda x: cr.max_pool2d(x, 3, stride=2, padding=1),
    "max, dilated": lambda x: cr.max_pool2d(x, (2, 3), stride=1, dilation=2),
    "mean": lambda x: cr.avg_pool2d(x, 2),
    "mean, overlapping": lambda x: cr.avg_pool2d(x, 3, stride=2, padding=1),
    "mean, of what is there": lambda x: cr.avg_pool2d(x, 3, padding=1, count_include_pad=False),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_gradients_of_pooling_are_the_references(pool: Any, dtype: str) -> None:
    arrays = {"x": RANDOM.normal(size=(3, 4, 12, 17)).astype(dtype)}
    graph, inputs, keep = gradient_of(lambda x: np.sum(np.sin(pool(x))), arrays)
    assert not planned(graph, keep, threads=2).foreign
    got, wanted = native(graph, inputs, keep, threads=2), expected(graph, inputs, keep)
    assert got is not None
    rtol = 1e-5 if dtype == "float32" else 1e-14
    for node in keep:
        np.testing.assert_allclose(got[node], wanted[node], rtol=rtol, atol=rtol * 10)


@pytest.mark.parametrize(
    ("length", "window", "stride", "is_joined"),
    [(12, 3, 3, True), (13, 3, 3, False), (12, 3, 2, False), (12, 2, 3, False)],
)
def test_windows_that_lie_side_by_side_are_joined_on_the_way_back(
    length: int, window: int, stride: int, is_joined: bool
) -> None:
    def pooled(x: Any) -> Any:
        return np.sum(np.tanh(cr.max_pool2d(x, (2, window), stride=(2, stride))))

    graph = cr.backward(cr.trace(pooled, x=cr.float64["n", "c", 8, length]), wrt="x")
    assert is_joined != any(node.primitive is fold_windows for node in graph.nodes)
