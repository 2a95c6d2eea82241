"""Calls of NumPy's functions that sort, choose, move, join, split and make arrays."""

import numpy as np


def call(*args, **kwargs):
    """One way of calling a function; arrays are what is traced."""
    return args, kwargs


A = np.array([[1.5, -2.0, 0.5, 3.0], [2.0, 0.25, -1.0, 4.0], [0.75, 1.25, 2.5, -3.5]])
B = np.array([[0.5, 1.0, -1.5, 2.0], [3.0, 0.25, 1.0, -4.0], [1.75, -1.25, 0.5, 3.5]])
C = np.arange(24.0).reshape(2, 3, 4) / 8 - 1
V = np.array([1.0, -2.0, 3.0, 0.5])
TIED = np.array([[1.0, 0.0, 1.0, 0.0], [2.0, 2.0, 2.0, -1.0]])
EDGES = np.array([np.inf, 0.0, -np.inf, np.nan, 1.0, -0.0])
ONE = np.array([[[2.0], [3.0]]])
EMPTY = np.zeros((0, 3))
SCALAR = np.array(2.5)
PLACES = np.array([[0, 2, 1], [1, -1, 1]])
NUMBERS = np.array([[0, 2, 1, 0], [1, 1, 2, 0], [2, 0, 0, 1]])

SORTING = {
    np.argsort: [
        *(call(A, axis) for axis in (0, 1, -1, -2)),
        call(A, axis=None, kind="stable"),
        call(C, 1),
        call(TIED, stable=True),
        call(EMPTY, 0),
        call(EMPTY),
    ],
    np.sort: [
        *(call(A, axis) for axis in (0, 1, -1, None)),
        *(call(C, axis=axis) for axis in (0, 1, 2)),
        call(EDGES),
        call(EDGES, kind="quicksort"),
        call(TIED, stable=True),
        call(ONE, 1),
        call(EMPTY),
        call(EMPTY, None),
    ],
    np.take_along_axis: [
        call(A, PLACES[[0, 1, 0]], 1),
        call(A, PLACES[:1, [0, 1, 2, 2]], axis=0),
        call(V, PLACES[0], 0),
        call(A, PLACES[0], None),
        call(C, PLACES[:, :, None], axis=1),
        call(C, PLACES[:1, :, None], axis=1),
        call(A, PLACES[[0, 1, 0]]),
    ],
    # only with every place named is the order inside the parts NumPy's
    np.partition: [call(A, [0, 1, 2, 3]), call(A, [0, 1, 2], axis=0), call(V, (0, 1, 2, 3), None)],
    np.argpartition: [call(A, [0, 1, 2, 3]), call(A, [0, 1, 2], axis=0)],
    np.lexsort: [call((A[0], TIED[0])), call((TIED, TIED[:, ::-1]), axis=0), call((V,)), call(A)],
}
CHOOSING = {
    np.take: [
        call(A, PLACES),
        call(A, PLACES, axis=1),
        call(A, 1, 0),
        call(A, [0, 2], axis=-1),
        call(A, PLACES + 2, 1, mode="clip"),
        call(A, PLACES - 2, 1, mode="clip"),
        call(A, [[5, -7]], 0, mode="clip"),
        call(A, [[5, -7]], 0, mode="wrap"),
        call(A, [5, -7], mode="raise"),
        call(C, PLACES, axis=1),
    ],
    np.select: [
        call([A > 0, A > -1], [A, B]),
        call([A > 2, B > 0, A > 0], [A, V, 3.0], default=-1),
        call([A > 0], [V], 0.5),
        call([[True, False, True, False]], [A], default=B),
    ],
    np.piecewise: [
        call(A, [A < 0, A >= 1], [np.negative, np.sqrt]),
        call(A, [A < 0, A >= 1], [lambda x: x * x, 2, lambda x: x + 1]),
        call(V, V > 0, [1, 2]),
        call(A, [A < 3, A < 0], [2, np.exp]),
        call(SCALAR, [SCALAR > 3], [np.sqrt, 0]),
        call(EMPTY, [EMPTY > 0], [np.sqrt]),
        call(V, [[True, False, False, True]], [lambda x, by: x * by], 3),
    ],
    np.choose: [
        call(NUMBERS, [A, B, 1.0]),
        call(NUMBERS, (A, V, SCALAR)),
        call(NUMBERS + 1, [A, B], mode="clip"),
        call(NUMBERS + 1, [A, B], mode="wrap"),
        call(1, [A, V]),
    ],
    np.compress: [
        call([True, False, True], A, axis=0),
        call([False, True], A, 1),
        call([0, 1, 1], A),
        call([False] * 3, A, -1),
    ],
    np.extract: [call([[True] * 4, [False] * 4, [True, False] * 2], A), call([0, 1, 0, 1], V)],
}
MOVING = {
    np.roll: [
        call(A, 2),
        call(A, -1, axis=1),
        call(A, 7, 0),
        call(A, (1, -2), (0, 1)),
        call(A, 1, axis=(0, -1)),
        call(A, (1, 1), axis=0),
        call(A, 0, 0),
        call(EMPTY, 1, 0),
        call(EMPTY, 1),
        call(SCALAR, 1),
    ],
    np.flip: [call(A), call(A, 0), call(C, (0, -1)), call(C, axis=1), call(SCALAR), call(EMPTY)],
    np.fliplr: [call(A), call(C)],
    np.flipud: [call(A), call(V), call(EMPTY)],
    np.rot90: [
        *(call(A, k) for k in range(-2, 5)),
        *(call(C, k, axes) for k in (1, 2, 3) for axes in ((1, 2), (2, 0), (-1, 1))),
    ],
    np.tile: [
        call(A, 2),
        call(A, (2, 1, 3)),
        call(C, (2,)),
        call(V, [2, 2]),
        call(A, (0, 2)),
        call(SCALAR, 3),
        call(SCALAR, ()),
        call(EMPTY, (2, 2)),
    ],
    np.repeat: [
        call(A, 2),
        call(A, 3, axis=1),
        call(A, [1, 0, 2], 0),
        call(A, [2], axis=-1),
        call(A, (1, 2, 0, 3), 1),
        call(C, 0, 1),
        call(V, [0, 1, 2, 3]),
        call(SCALAR, 4),
        call(EMPTY, 2, 1),
    ],
    np.resize: [
        call(A, (2, 7)),
        call(A, 5),
        call(V, (3, 0)),
        call(EMPTY, (2, 2)),
        call(SCALAR, (2, 2)),
    ],
    np.rollaxis: [
        *(call(C, axis, start) for axis in (0, 1, 2, -1) for start in (0, 1, 2, 3, -1)),
        call(C, 2),
    ],
    np.atleast_1d: [call(SCALAR), call(V), call(SCALAR, A, 2.0)],
    np.atleast_2d: [call(SCALAR), call(V), call(A), call(C, V)],
    np.atleast_3d: [call(SCALAR), call(V), call(A), call(C), call(EMPTY, V)],
}
JOINING = {
    np.hstack: [call([A, B]), call((V, V)), call([SCALAR, V]), call([C, C])],
    np.vstack: [call([A, B]), call([V, V]), call([A, V]), call((SCALAR, SCALAR)), call([C, C])],
    np.dstack: [call([A, B]), call([V, V]), call((SCALAR, SCALAR)), call([C, C])],
    np.column_stack: [call([A, B]), call([V, V]), call((V, A.T)), call([SCALAR, SCALAR])],
    np.block: [
        call([[A, B], [B, A]]),
        call([A, B]),
        call([V, 2.0, SCALAR]),
        call([[A], [V]]),
        call([[[C], [C]]]),
        call(A),
        call([[1.0, V], [V, 1.0]]),
    ],
    np.append: [
        call(A, B),
        call(A, B, axis=0),
        call(A, B, 1),
        call(V, 2.0),
        call(A, [1.0, 2.0]),
        call([[1.0, 2, 3, 4]], A, axis=0),
    ],
    np.insert: [
        call(V, 1, 2.0),
        call(V, -1, SCALAR),
        call(V, 4, V),
        call(A, 1, V, axis=0),
        call(A, 1, 0, axis=1),
        call(A, [1], B, axis=0),
        call(A, [0, 2, 2], 5, axis=1),
        call(A, [3, 1], B[:, :2], 1),
        call(A, slice(0, 3, 2), V, 0),
        call(A, [1, 0], V[:2]),
        call(A, 1, B.T, axis=1),
        call(A, (), 7.0, 1),
        call(EMPTY, 0, V[:3], 0),
    ],
    np.delete: [
        call(V, 1),
        call(A, -1, axis=1),
        call(A, [0, 2], 0),
        call(A, slice(None, None, 2), 1),
        call(A, [True, False, True], axis=0),
        call(A, 5),
        call(A, [], 0),
    ],
    np.split: [
        call(A, 3),
        call(A, 2, axis=1),
        call(A, [1], 1),
        call(A, (1, 2)),
        call(A, [2, 9], axis=-1),
        call(A, [3, 1], axis=1),
        call(A, [-1], axis=1),
        call(EMPTY, 2),
    ],
    np.array_split: [
        call(A, 2),
        call(A, 3, axis=1),
        call(A, 6, 1),
        call(V, [1, 3]),
        call(C, 2, axis=-2),
        call(EMPTY, 2),
    ],
    np.hsplit: [call(A, 2), call(V, 2), call(A, [1, 2]), call(C, 3)],
    np.vsplit: [call(A, 3), call(A, [1]), call(C, 2)],
    np.dsplit: [call(C, 4), call(C, [1, 3])],
    np.unstack: [call(A), call(A, axis=1), call(C, axis=-2)],
    np.broadcast_arrays: [call(A, V), call(SCALAR, A, 1.0), call(V), call(ONE, V)],
    np.meshgrid: [
        call(V, V[:3]),
        call(V, V[:3], indexing="ij"),
        call(V, V[:3], sparse=True),
        call(V, V[:2], V[:3]),
        call(V, V[:2], V[:3], indexing="ij", sparse=True),
        call(V),
        call(SCALAR, V, copy=False),
    ],
}
DIAGONAL = {
    np.diagonal: [
        *(call(A, offset) for offset in (-3, -1, 0, 1, 3, 7)),
        call(C, 1, 1, 2),
        call(C, axis1=-1, axis2=0),
        call(C, -1, 2, 1),
        call(EMPTY),
    ],
    np.trace: [
        *(call(A, offset) for offset in (-1, 0, 2)),
        call(C),
        call(C, 1, 1, 2),
        call(C, axis1=-1, axis2=0, dtype=np.float32),
        call(EMPTY),
    ],
    np.diag: [call(one, k) for one in (A, V, V[:0]) for k in (-2, 0, 1)],
    np.diagflat: [call(A), call(V, 1), call(SCALAR, k=-2)],
    np.tril: [call(one, k) for one in (A, C, V) for k in (-1, 0, 2)] + [call(EMPTY)],
    np.triu: [call(one, k) for one in (A, C, V) for k in (-1, 0, 2)] + [call(EMPTY)],
    np.vander: [call(V), call(V, 3), call(V, increasing=True), call(V, 0), call(V, 1, True)],
}
PADDING = {
    np.pad: [
        call(A, 1),
        call(A, ((1, 0), (0, 2))),
        call(V, (2, 1)),
        call(A, [[1], [2]]),
        call(A, (3,)),
        call(A, ((3, 2),)),
        call(A, {0: 1, -1: (0, 2)}),
        call(A, 0),
        call(A, 2, "constant", constant_values=1.5),
        call(A, ((1, 2), (0, 3)), constant_values=((1, 2), (3, 4))),
        call(A, ((1, 2), (0, 3)), constant_values=(5, 6)),
        call(EMPTY, 1),
        call(A, ((1, 0), (0, 1)), constant_values=SCALAR),
        *(
            call(one, width, mode=mode)
            for mode in ("edge", "reflect", "symmetric", "wrap", "maximum", "minimum")
            for one, width in ((A, ((1, 2), (0, 3))), (V, (9, 5)), (C, ((0, 1), (2, 0), (1, 1))))
        ),
        call(A * 8, 2, "linear_ramp"),
        call(V, (3, 2), "linear_ramp", end_values=(5, -4)),
    ]
}
MAKING = {
    np.linspace: [
        call(SCALAR, 5.0),
        call(0, SCALAR, 7),
        call(SCALAR, V, 5),
        call(A, B, 3, axis=-1),
        call(V, 1, num=4, endpoint=False),
        call(V, 1, 3, retstep=True),
        call(SCALAR, SCALAR, 3),
        call(V, 2, 1),
        call(V, 2, 0),
        call(V, 2, 3, dtype=np.float32),
        call(A, V, 4, axis=1),
    ],
    np.logspace: [
        call(SCALAR, 1.0, 5),
        call(V, 2, 4, base=2),
        call(0, V, 4, False, 3.0, axis=1),
        call(0.0, 1.0, 3, base=abs(V)),
    ],
    np.geomspace: [
        call(abs(V) + 1, 8.0, 5),
        call(0.5, SCALAR, num=4, endpoint=False),
        call(-abs(A) - 1, -B - 9, 3, axis=-1),
        call(abs(V) + 1, 9, 4, dtype=np.float32),
        call(SCALAR, 3, 1),
        call(SCALAR, 3, 2),
    ],
    np.full_like: [
        call(A, 3),
        call(A, 2.5, np.float32),
        call(A, fill_value=V),
        call(A, 1, shape=(2, 3)),
        call(A, SCALAR, shape=5),
    ],
    np.zeros_like: [
        call(A),
        call(A, np.float32),
        call(A, dtype=int),
        call(A, shape=(2, 5)),
        call(A, order="K", subok=True),
    ],
    np.ones_like: [call(A), call(A, dtype=bool), call(A, shape=())],
}
ROWS = {
    np.apply_along_axis: [
        call(np.sort, 0, A),
        call(np.sum, 1, C),
        call(lambda row: row[:2] * row[1], -1, C),
        call(lambda row, by: np.outer(row, row * by), 1, C, 3),
        call(lambda row: 1.0, 0, V),
    ],
}
COMPARING = {
    np.array_equal: [
        call(A, A + 0),
        call(A, B),
        call(A, V),
        call(EDGES, EDGES),
        call(EDGES, EDGES, equal_nan=True),
        call(EMPTY, EMPTY),
    ],
    np.array_equiv: [call(A, A), call(V, np.stack([V, V])), call(A, V), call(A, V[:3])],
    np.allclose: [
        call(A, A + 1e-9),
        call(A, B),
        call(A, A + 0.1, atol=0.2),
        call(EDGES, EDGES),
        call(EDGES, EDGES, equal_nan=True),
    ],
}
MOVEMENT = {
    **COMPARING,
    **ROWS,
    **SORTING,
    **CHOOSING,
    **MOVING,
    **JOINING,
    **DIAGONAL,
    **PADDING,
    **MAKING,
    np.empty_like: [call(A, shape=(0, 2)), call(EMPTY)],  # elsewhere NumPy's numbers are arbitrary
}
