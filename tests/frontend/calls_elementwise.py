"""Calls of NumPy's elementwise functions that are no single primitive."""

import numpy as np


def call(*args, **kwargs):
    """One way of calling a function; arrays are what is traced."""
    return args, kwargs


A = np.array([[1.5, -2.0, 0.5, 3.0], [2.0, 0.25, -1.0, 4.0], [0.75, 1.25, 2.5, -3.5]])
B = np.array([[0.5, 1.0, -1.5, 2.0], [3.0, 0.25, 1.0, -4.0], [1.75, -1.25, 0.5, 3.5]])
V = np.array([1.0, -2.0, 3.0, 0.5])
EMPTY = np.zeros((0, 3))
SCALAR = np.array(2.5)
MASK = B > 0.5
EDGES = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.5, -2.5, 1e300])
OTHERS = np.array([1.0, np.nan, -np.inf, -1.5, np.inf, -np.inf, np.nan, 0.5, np.inf, -1e300])
ELEMENTWISE = {
    np.logaddexp: [
        call(A, B),
        call(A * 300, V),
        call(A, 0.0),
        call(1, A),
        call(EDGES, OTHERS),
        call(EMPTY, 1),
    ],
    np.logaddexp2: [call(A, B), call(A * 300, V), call(A, 2), call(EDGES, OTHERS)],
    np.fmax: [call(A, B), call(A, V), call(A, 1), call(EDGES, OTHERS), call(SCALAR, 0)],
    np.fmin: [call(A, B), call(A, V), call(A, 1), call(EDGES, OTHERS), call(SCALAR, 0)],
    np.heaviside: [call(A, B), call(EDGES, OTHERS), call(EDGES, 0.5), call(0, A), call(A, 1)],
    np.deg2rad: [call(A), call(SCALAR), call(EDGES)],
    np.radians: [call(A * 100)],
    np.rad2deg: [call(A), call(SCALAR)],
    np.degrees: [call(A)],
    np.float_power: [call(abs(A), B), call(A, 2), call(A, -1), call(abs(A), 0.5), call(2, A)],
    np.sinc: [call(A), call(SCALAR), call(EDGES[:4]), call(EMPTY), call(A / 1e9)],
    np.reciprocal: [call(A), call(SCALAR), call(EDGES[:4])],
    np.square: [call(A), call(SCALAR)],
    np.angle: [call(A), call(A, True), call(A, deg=True), call(EDGES[2:]), call(SCALAR)],
    np.conjugate: [call(A)],
    np.real: [call(A), call(SCALAR)],
    np.imag: [call(A), call(SCALAR)],
    np.real_if_close: [call(A), call(A, tol=1000)],
    np.isnan: [call(A), call(EDGES), call(SCALAR)],
    np.isinf: [call(A), call(EDGES), call(EMPTY)],
    np.isfinite: [call(A), call(EDGES), call(SCALAR)],
    np.isposinf: [call(A), call(EDGES)],
    np.isneginf: [call(A), call(EDGES)],
    np.signbit: [call(A), call(EDGES[:6]), call(SCALAR)],
    np.logical_xor: [call(A, B), call(MASK, A), call(MASK, True), call(EDGES, V[0]), call(1, A)],
    np.isclose: [
        call(A, A + 1e-9),
        call(A, V, atol=1.0),
        call(A, 2.0, 0.5),
        call(1, A, rtol=0, atol=0.5),
        call(EDGES, OTHERS),
        call(EDGES, OTHERS, equal_nan=True),
    ],
    np.nan_to_num: [
        call(A),
        call(EDGES),
        call(EDGES, nan=7.5, posinf=1.0, neginf=-1),
        call(EDGES, True, 2),
        call(SCALAR),
    ],
    np.round: [
        call(A),
        call(A * 1.37, 1),
        call(A * 37, decimals=-1),
        call(A, 2),
        call(EDGES),
        call(SCALAR),
        call(V * 15, -1),
    ],
    np.around: [call(A), call(A * 1.37, 1), call(A, decimals=3)],
    np.fix: [call(A), call(EDGES)],
    np.modf: [call(A), call(EDGES), call(SCALAR)],
    np.divmod: [call(A, B), call(A, 2), call(7, B), call(A, V), call(EDGES, OTHERS)],
}
