"""Calls of NumPy's reductions, cumulative functions, statistics and what is made of them."""

import numpy as np


def call(*args, **kwargs):
    """One way of calling a function; arrays are what is traced."""
    return args, kwargs


A = np.array([[1.5, -2.0, 0.5, 3.0], [2.0, 0.25, -1.0, 4.0], [0.75, 1.25, 2.5, -3.5]])
B = np.array([[0.5, 1.0, -1.5, 2.0], [3.0, 0.25, 1.0, -4.0], [1.75, -1.25, 0.5, 3.5]])
C = np.arange(24.0).reshape(2, 3, 4) / 8 - 1
V = np.array([1.0, -2.0, 3.0, 0.5])
ZEROS = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [2.0, 2.0, -1.0]])
TIED = np.array([[1.0, 0.0, 1.0, 0.0], [2.0, 2.0, 2.0, -1.0]])
NANS = np.array([[np.nan, 1.0, -2.0, np.nan], [0.5, 2.0, np.nan, 3.0], [np.nan] * 4])
EDGES = np.array([np.inf, 0.0, -np.inf, 1.0, -0.0])
EMPTY = np.zeros((0, 3))
SCALAR = np.array(2.5)
ONE = np.array([[[2.0], [3.0]]])
MASK = np.array([[True, False, True, False], [False, False, True, True], [True] * 4])
POINTS = np.array([0.0, 0.5, 0.5, 2.0, 4.0])
NUMBERS = np.array([0, 2, 1, 0, 2])


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


def along(*arrays):
    """Along each axis, and of all elements."""
    return [call(x, axis) for x in arrays for axis in (None, *range(-x.ndim, x.ndim))]


FOLDS = {
    np.sum: [
        *reductions(A, C, EMPTY, SCALAR),
        *(call(A, 0), call(A, 0, np.float32), call(A, dtype=int), call(SCALAR, 0)),
        *(call(A, where=MASK), call(A, 1, where=MASK[0], initial=2), call(A, initial=-1.5)),
        *(call(A, 1, None, None, True), call(EDGES[[0, 1, 3]])),
    ],
    np.prod: [
        *reductions(A, ZEROS, C, EMPTY),
        *(call(SCALAR), call(SCALAR, 0), call(A, 0, np.float32), call(A, dtype=int)),
        *(call(A, where=MASK), call(A, 1, where=MASK[0], initial=2), call(A, initial=-1.5)),
    ],
    np.max: [
        *reductions(A, C, V, SCALAR),
        *(call(A, initial=2), call(A, 0, where=MASK, initial=-9), call(EMPTY, initial=0)),
        *(call(EMPTY, 1), call(NANS, 1), call(EDGES), call(SCALAR, -1)),
    ],
    np.min: [
        *reductions(A, C, V, SCALAR),
        *(call(A, initial=1), call(A, 1, where=MASK, initial=9), call(EMPTY, 0, initial=3)),
        *(call(EMPTY, 1), call(NANS, 0), call(EDGES)),
    ],
    np.amax: [*reductions(A), call(A, initial=2)],
    np.amin: [*reductions(A), call(A, 0, where=MASK, initial=1)],
    np.any: [
        *reductions(A, ZEROS * 0, MASK, EMPTY),
        *(call(NANS, 1), call(SCALAR), call(A > 2, where=MASK), call(ZEROS, 0, None, True)),
    ],
    np.all: [
        *reductions(A, ZEROS, MASK, EMPTY),
        *(call(NANS, 1), call(SCALAR), call(A, 1, where=MASK), call(ZEROS, 0, None, True)),
    ],
    np.count_nonzero: [*reductions(A, ZEROS, MASK)[:-3], call(NANS), call(SCALAR), call(EMPTY, 0)],
    np.argmax: [
        *(call(A), call(A, 0), call(A, -1, keepdims=True), call(C, keepdims=True), call(V)),
        *(call(TIED, 1), call(NANS, 1), call(SCALAR), call(SCALAR, 0), call(EMPTY, 1)),
    ],
    np.argmin: [
        *(call(A), call(A, 0), call(A, -1, keepdims=True), call(C, keepdims=True), call(V)),
        *(call(TIED, 1), call(NANS, 1), call(SCALAR), call(SCALAR, 0), call(EMPTY, 1)),
    ],
    np.ptp: [*(one for one in reductions(A, C) if one[1].get("axis") != ()), call(V), call(V, 0)],
}
WALKS = {
    np.cumsum: [
        *along(A, C, EMPTY, V),
        *(call(SCALAR), call(A, 1, np.float32), call(A, dtype=int), call(MASK, 0), call(NANS, 1)),
    ],
    np.cumprod: [
        *along(A, ZEROS, EMPTY, V),
        *(call(SCALAR), call(A, 1, np.float32), call(A, dtype=int), call(MASK, 0), call(NANS, 1)),
    ],
    np.cumulative_sum: [
        *(call(A, axis=0), call(A, axis=-1, include_initial=True), call(V), call(SCALAR)),
        *(call(A, axis=1, dtype=np.float32), call(MASK, axis=0, include_initial=True)),
    ],
    np.cumulative_prod: [
        *(call(A, axis=0), call(ZEROS, axis=-1, include_initial=True), call(V), call(SCALAR)),
        *(call(A, axis=1, dtype=np.float32), call(MASK, axis=0, include_initial=True)),
    ],
    np.nancumsum: [*along(NANS, A), call(A, 0, np.float32), call(MASK)],
    np.nancumprod: [*along(NANS, ZEROS), call(A, 0, np.float32), call(MASK)],
}
STATISTICS = {
    np.mean: [
        *reductions(A, C, SCALAR),
        *(call(EMPTY, axis=1), call(EMPTY, axis=0), call(A, dtype=np.float32), call(A, 0, int)),
        *(call(A, where=MASK), call(A, 1, where=MASK, keepdims=True), call(A, 0, None, None, True)),
        call(A, 1, where=MASK & False),
    ],
    np.var: [
        *reductions(A, C),
        *(call(A, ddof=1), call(A, 1, ddof=2, keepdims=True), call(A, correction=1)),
        *(call(A, 0, np.float32), call(A, where=MASK), call(A, 1, where=MASK, ddof=1)),
        *(call(A, mean=np.array(0.5)), call(A, 1, ddof=0.5), call(V[:1], ddof=1), call(EMPTY, 0)),
        call(A, 1, mean=np.array([[1.0], [2.0], [3.0]]), keepdims=True),
    ],
    np.std: [
        *reductions(A, C),
        *(call(A, ddof=1), call(A * 0, axis=1), call(A, 0, np.float32), call(A, correction=2)),
        *(call(A, where=MASK), call(A, 1, where=MASK, ddof=1), call(A, mean=np.array(0.5))),
        *(call(A, 1, ddof=0.5, keepdims=True), call(V[:1], ddof=1)),
    ],
    np.average: [
        *(call(A), call(A, 0), call(A, (0, 1), keepdims=True), call(A, 1, returned=True)),
        *(call(A, None, abs(B)), call(A, 1, weights=abs(V)), call(A, 1, [1, 2, 0, 1])),
        *(call(A, 0, abs(B), returned=True), call(C, (0, 2), abs(A[:2] + 9))),
        *(call(C, (2, 0), abs(A.T[:, :2] + 9), keepdims=True), call(V, weights=abs(V))),
    ],
    np.nansum: [*reductions(NANS, A), call(NANS, 0, np.float32), call(NANS, where=MASK, initial=2)],
    np.nanprod: [*reductions(NANS, ZEROS), call(NANS, where=MASK, initial=2), call(A, 0)],
    np.nanmax: [*reductions(NANS, A)[:-1], call(NANS, 0, initial=1), call(EDGES)],
    np.nanmin: [*reductions(NANS, A)[:-1], call(NANS, 1, where=MASK, initial=1), call(EDGES)],
    np.nanmean: [*reductions(NANS, A), call(NANS, 1, where=MASK), call(A, 0, np.float32)],
    np.nanvar: [*reductions(NANS, A), call(NANS, 0, ddof=1), call(NANS, 1, where=MASK)],
    np.nanstd: [*reductions(NANS, A), call(NANS, 0, ddof=1), call(NANS, 1, where=MASK)],
    np.nanargmax: [call(NANS), call(NANS[:2], 1), call(NANS[:2], 1, keepdims=True), call(A, 0)],
    np.nanargmin: [call(NANS), call(NANS[:2], 1), call(NANS[:2], 1, keepdims=True), call(A, 0)],
}
METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "weibull", "hazen", "inverted_cdf")
QUANTILES = {
    np.median: [
        *(one for one in reductions(A, C) if one[1].get("axis") != ()),
        call(V[:3]),
        *along(NANS, ZEROS),
        call(SCALAR),
        call(EDGES),
    ],
    np.quantile: [
        *(call(A, 0.3, axis, method=method) for axis in (None, 0, -1) for method in METHODS),
        *(call(C, [0.25, 0.9, 1], (0, 2), keepdims=keep) for keep in (False, True)),
        *(call(A, q, 1, keepdims=True) for q in (0, 1, 0.5, 1 / 3, [[0.1, 0.2]])),
        *(call(NANS, 0.5, 1), call(NANS, [0.1, 0.6], 0), call(SCALAR, 0.3), call(V, [0.0, 0.5])),
    ],
    np.percentile: [
        *(call(A, q, axis) for axis in (None, 0, 1) for q in (30, 12.5, 0, 100, [10, 55.5])),
        *(call(A, 40, method=method) for method in METHODS),
        call(NANS, 50, 1, keepdims=True),
    ],
    np.nanmedian: [*reductions(NANS)[:4], *along(NANS, A), call(MASK * 2), call(V)],
    np.nanquantile: [
        *(call(NANS, 0.3, axis, method=m) for axis in (None, 0, -1) for m in METHODS[:5]),
        *(call(NANS, [0.2, 1], 0, keepdims=True), call(A, 0.4, 1)),
        *(call(EMPTY, 0.3, axis) for axis in (None, 0, 1)),
        *(call(EMPTY, [0.2, 1], 0, keepdims=True), call(EMPTY.T, 0.5, 1)),
    ],
    np.nanpercentile: [call(NANS, 30, 1), call(NANS, [0, 75], None), call(A, 60, 0)],
}
NEIGHBOURS = {
    np.diff: [
        *(call(A, n, axis) for n in (0, 1, 2, 9) for axis in (0, -1)),
        *(call(V), call(C, axis=1), call(MASK), call(EMPTY, axis=0), call(V[:1])),
        *(call(V, prepend=0), call(A, prepend=A[:, :1], append=[[1], [2], [3]])),
        *(call(A, axis=0, append=2.5), call(A, 2, prepend=0, append=0)),
    ],
    np.ediff1d: [call(A), call(V, 9, [1, 2]), call(V, to_begin=0), call(V[:1]), call(EMPTY)],
    np.gradient: [
        *(call(V), call(A), call(C), call(A, 2.0), call(A, 2, 0.5), call(A, axis=-1)),
        *(call(V, [0, 1, 3, 7]), call(A, np.array([0.0, 1.0, 3.0]), 2.0), call(C, axis=(0, 2))),
        *(call(V, edge_order=2), call(V, [0, 1, 3, 7], edge_order=2), call(V, [1, 2, 3, 4])),
        *(call(A, axis=(1,)), call(A, np.array([0.5, 1.0, 4.0]), axis=0), call(V[:2])),
    ],
    np.trapezoid: [
        *(call(V), call(A), call(A, axis=0), call(A, dx=0.5), call(A, [0, 1, 3, 4])),
        *(call(A, V), call(A, B), call(A, B, axis=0), call(A, x=V[:3], axis=0), call(V[:1])),
    ],
    np.unwrap: [
        *(call(A * 3), call(A, axis=0), call(A, period=2.5), call(V * 4, 4.0), call(A, period=4)),
        call(V[:1]),
    ],
}
PAIRS = {
    np.cov: [
        *(call(A), call(A, rowvar=False), call(A, bias=True), call(A, ddof=0), call(V), call(V, V)),
        *(call(A, B), call(A, fweights=[1, 2, 3, 1]), call(A, aweights=abs(V)), call(V, A)),
        *(call(A, aweights=abs(V), ddof=0), call(A, fweights=[1, 0, 2, 1], aweights=abs(V))),
        call(A, dtype=np.float32),
    ],
    np.corrcoef: [
        *(call(A), call(A, rowvar=False), call(V), call(V, -V), call(A, B), call(V, A)),
        call(A, dtype=np.float32),
    ],
    np.convolve: [
        *(
            call(x, y, m)
            for x, y in ((V, A[0, :3]), (A[1, :2], V), (V, V), (V[:1], V))
            for m in ("full", "same", "valid")
        ),
        call(V, [1, 2]),
    ],
    np.correlate: [
        *(
            call(x, y, m)
            for x, y in ((V, A[0, :3]), (A[1, :2], V), (V, V), (V[:1], V))
            for m in ("full", "same", "valid")
        ),
        call(V, [1, 2]),
    ],
    np.searchsorted: [
        *(call(POINTS, x, side) for x in (A, V, SCALAR, NANS, 0.5) for side in ("left", "right")),
        *(call(POINTS[[4, 0, 2, 3, 1]], A, sorter=[1, 4, 2, 3, 0]), call([0, 1, 2], A)),
        *(call(EMPTY[:, 0], V), call(POINTS, [1, 2])),
    ],
    np.digitize: [
        *(call(A, edges, right) for edges in ([-1, 0, 2], [3.5, 0.5, 0.5, -9]) for right in (0, 1)),
        *(call(SCALAR, [1, 2]), call(NANS, [0, 1.0])),
    ],
    np.interp: [
        *(call(x, POINTS[[0, 1, 3, 4]], V) for x in (A, A[0], SCALAR, NANS)),
        *(call(A, [0, 1, 2], [5, 3, 4], left=-1, right=9), call(A, V[:1], V[1:2])),
        *(call(POINTS, POINTS[[0, 1, 3, 4]], V), call([0.1, 9], [0, 1], V[:2])),
    ],
    np.bincount: [
        *(call(NUMBERS, minlength=n) for n in (3, 7)),
        *(call(NUMBERS, POINTS, 3), call(NUMBERS[:0], minlength=2)),
        *(call([0, 1, 1, 5, 0], POINTS), call(NUMBERS, [1, 2, 3, 4, 5], minlength=3)),
    ],
}
REDUCTIONS = {**FOLDS, **WALKS, **STATISTICS, **QUANTILES, **NEIGHBOURS, **PAIRS}
