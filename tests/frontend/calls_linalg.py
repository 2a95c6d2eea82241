"""Ways of calling NumPy's products and numpy.linalg, by function."""

import numpy as np

RANDOM = np.random.default_rng(20)


def call(*args, **kwargs):
    """One way of calling a function; arrays of numbers, also in lists, are what is traced."""
    return args, kwargs


def numbers(*shape):
    """Multiples of a quarter, so that narrow dtypes hold them."""
    return RANDOM.integers(-8, 9, shape) / 4.0


def dominant(*shape):
    """Symmetric matrices, positive definite and well conditioned."""
    x = numbers(*shape)
    n = shape[-1]
    return np.round(x + x.mT) + 12 * n * np.eye(n)


A, B, C, V = numbers(3, 4), numbers(3, 4), numbers(2, 3, 4), np.array([1.0, -2.0, 3.0, 0.5])
W = np.array([2.0, 0.5, -1.0])
SQUARE, STACK = dominant(3, 3), dominant(2, 3, 3)
ONE = np.array([[4.0]])
NONE = np.zeros((0, 0))
SCALAR = np.array(2.5)
FOUR = np.arange(1.0, 17.0).reshape(4, 4) + 20 * np.eye(4)

TALL = np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0], [1.0, 1.0, 0.0]])

ORDERS_OF_VECTORS = (None, 1, 2, 3, 0, -1, 0.5, np.inf, -np.inf)
ORDERS_OF_MATRICES = (None, "fro", "f", "nuc", 1, -1, 2, -2, np.inf, -np.inf)

LINALG = {
    np.dot: [
        call(A, B.T),
        call(V, V),
        call(A, V),
        call(A, 2),
        call(SCALAR, A),
        call(A, C.mT),
        call(C, A.T),
        call(2.5, V),
        call(C, numbers(3, 4, 2)),
    ],
    np.tensordot: [
        call(A, B),
        call(A, B, 0),
        call(A, B, axes=(1, 1)),
        call(C, A, ((1, 2), (0, 1))),
        call(C, C, ((0, -1), (0, -1))),
        call(A, B.T, 1),
        call(C, A, [[1, 2], [0, 1]]),
        call(C, A, axes=([1], [0])),
        call(C, A, axes=([], [])),
        call(A, SCALAR, 0),
        call(A, B, np.int64(2)),
    ],
    np.inner: [call(A, B), call(V, V), call(A, 3.0), call(C, A), call(C, V), call(SCALAR, A)],
    np.outer: [call(V, A), call(V, V), call(SCALAR, V), call(V, 2.0), call(V[:0], V)],
    np.vdot: [call(A, B), call(V, V), call(SCALAR, SCALAR)],
    np.vecdot: [
        call(A, B),
        call(V, V),
        call(C, A),
        call(C, V),
        call(C, C, axis=0),
        call(C, C, axis=-2),
    ],
    np.kron: [
        call(A, B),
        call(V, V),
        call(V, A),
        call(C, A),
        call(A, C),
        call(SCALAR, V),
        call(A, 2),
        call(V[:0], V),
        call(C, C),
    ],
    np.cross: [
        call(W, W[::-1]),
        call(A.T, W),
        call(A, B, axis=0),
        call(A.T, B, axisb=0),
        call(A, B, axisa=0, axisb=0, axisc=0),
        call(C, C[::-1], 1, 1, 0),
    ],
    np.polyval: [
        call(V, A),
        call([1, 2, 3], A),
        call([0.5], V),
        call(V, SCALAR),
        call(V, 2.0),
        call(V[:0], A),
        call(V[:1], V),
    ],
    np.einsum: [
        call("ij,kj->ik", A, B),
        call("...i->...", C),
        call("ii->", SQUARE),
        call("ii->i", SQUARE),
        call("...ii->...", STACK),
        call("iij->j", np.stack([A[:, :3], B[:, :3], A[:, 1:]])),
        call("iii", STACK[:, :2, :2]),
        call("ij->", A),
        call("ij->j", A),
        call("ij", A),
        call("ji", A),
        call("...", A),
        call("", SCALAR),
        call(",ij->ij", SCALAR, A),
        call(",ij", 2.0, A),
        call("i,j,k->ijk", V, V, W),
        call("ij,ij,ij->i", A, A, B),
        call("ij,jk,kl->il", A, B.T, A, optimize=True),
        call("ij,jk,kl->il", A, B.T, A, optimize="greedy"),
        call("ij,jk,kl->il", A, B.T, A, optimize="optimal"),
        call("ij,jk,kl->il", A, B.T, A, optimize=["einsum_path", (1, 2), (0, 1)]),
        call("ij,jk", A, B.T, optimize=False),
        call("...ij,...jk->...ik", C, A.T),
        call("...i,...i->...", C[:, :1], A[:1]),
        call("ij,jk->ik", A[:, :1], B),
        call("j...k,lj...->lk...", C, C[:, :, :3].mT[:, :2, :3].transpose(1, 0, 2)),
        call("i j , k j", A, B),
        call("ij,k->k", A, V),
        call("k,nk->", V, A),
        call("...k,...nk->...", V, C),
        call(A, [0, 1], B, [2, 1], [0, 2]),
        call(A, [0, 1], B, [2, 1]),
        call(A, (1, 0)),
        call(C, [Ellipsis, 2], [Ellipsis]),
        call(C, [Ellipsis, 2], [2, Ellipsis]),
        call("ij,jk->ik", A[:0], B.T),
        call("ij,jk->ik", A[:, :0], B[:0]),
    ],
    np.linalg.norm: [
        *(call(V, ord=ord) for ord in ORDERS_OF_VECTORS),
        *(call(A, ord=ord, axis=1, keepdims=True) for ord in ORDERS_OF_VECTORS),
        *(call(C, ord=ord, axis=-2) for ord in ORDERS_OF_VECTORS),
        *(call(A, ord) for ord in ORDERS_OF_MATRICES),
        *(call(C, ord, axis=(2, 0)) for ord in ORDERS_OF_MATRICES),
        *(call(C, ord, (-2, -1), True) for ord in ORDERS_OF_MATRICES),
        *(call(A, keepdims=keep) for keep in (False, True)),
        call(C),
        call(C, keepdims=True),
        call(SCALAR),
        *(call(V * 0, ord=ord) for ord in ORDERS_OF_VECTORS),
        *(call(V[:0], ord=ord) for ord in (None, 1, 2, 3, 0, np.inf)),
    ],
    np.linalg.vector_norm: [
        *(call(C, ord=ord) for ord in ORDERS_OF_VECTORS),
        call(C),
        call(C, axis=(0, 2)),
        call(C, axis=(0, 2), ord=3, keepdims=True),
        call(C, axis=1, ord=1),
        call(A, keepdims=True),
    ],
    np.linalg.matrix_norm: [
        *(call(C, ord=ord) for ord in ORDERS_OF_MATRICES if ord),
        call(A, keepdims=True),
    ],
    np.linalg.cond: [
        *(call(STACK, p) for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc")),
        call(A),
        call(SQUARE * 0),
        call(STACK, -np.inf),
    ],
    np.linalg.solve: [
        call(SQUARE, W),
        call(SQUARE, A),
        call(STACK, A),
        call(STACK, C),
        call(STACK, W),
        call(SQUARE, C),
        call(ONE, ONE),
        call(NONE, NONE),
    ],
    np.linalg.inv: [call(SQUARE), call(STACK), call(ONE), call(NONE), call(STACK[:0])],
    np.linalg.det: [call(SQUARE), call(STACK), call(ONE), call(NONE), call(SQUARE * 0)],
    np.linalg.slogdet: [call(SQUARE), call(STACK), call(-SQUARE), call(NONE), call(SQUARE * 0)],
    np.linalg.cholesky: [call(SQUARE), call(STACK), call(ONE), call(NONE), call(STACK, upper=True)],
    np.linalg.eigh: [call(SQUARE), call(STACK, "U"), call(ONE), call(NONE)],
    np.linalg.eigvalsh: [call(SQUARE), call(STACK, UPLO="U"), call(ONE), call(NONE)],
    np.linalg.svd: [
        call(SQUARE),
        call(A, full_matrices=False),
        call(C.mT, False),
        call(A, compute_uv=False),
        call(ONE),
        call(A[:0], full_matrices=False),
    ],
    np.linalg.svdvals: [call(SQUARE), call(C), call(ONE), call(A[:0])],
    np.linalg.qr: [
        call(SQUARE),
        call(A),
        call(A.T),
        call(C, "reduced"),
        call(A, mode="r"),
        call(A, mode="complete"),
        call(ONE),
        call(A[:0]),
    ],
    np.linalg.pinv: [
        call(A),
        call(C),
        call(A.T, 0.3),
        call(SQUARE, rtol=0.5),
        call(SQUARE * 0),
    ],
    np.linalg.matrix_rank: [
        call(A),
        call(STACK),
        call(np.ones((3, 3))),
        call(FOUR, 15.0),
        call(STACK, W[:2]),
        call(FOUR, rtol=0.5),
        call(V),
        call(V * 0),
    ],
    np.linalg.lstsq: [
        call(TALL, V),
        call(TALL, FOUR),
        call(TALL[:3], W),
        call(TALL.T, W),
        call(TALL, V, 0.1),
        call(TALL, V, rcond=-1),
    ],
    np.linalg.multi_dot: [
        call([A, B.T]),
        call([A, B.T, A, B.T]),
        call([V, B.T, SQUARE, W]),
        call([A, B.T, W]),
    ],
    np.linalg.matrix_power: [
        *(call(SQUARE, n) for n in (0, 1, 2, 3, 5, -1, -2)),
        call(STACK, 2),
        call(STACK, 0),
    ],
    np.linalg.tensorinv: [
        call(FOUR.reshape(2, 2, 4), ind=2),
        call(FOUR.reshape(4, 2, 2), ind=1),
        call(FOUR.reshape(2, 2, 2, 2)),
    ],
    np.linalg.tensorsolve: [
        call(FOUR.reshape(2, 2, 2, 2), FOUR[:2, :2]),
        call(FOUR.reshape(4, 2, 2), V),
        call(FOUR.reshape(2, 4, 2), V, axes=(0, 2)),
    ],
    np.linalg.outer: [call(V, W)],
    np.linalg.tensordot: [call(A, B), call(C, A, axes=((1, 2), (0, 1)))],
    np.linalg.trace: [call(SQUARE), call(STACK, offset=1), call(C, offset=-1)],
    np.linalg.diagonal: [call(SQUARE), call(STACK, offset=1), call(C, offset=-1)],
    np.linalg.matmul: [call(A, B.T), call(C, A.T)],
    np.linalg.matrix_transpose: [call(A), call(C)],
    np.linalg.cross: [call(W, W[::-1]), call(A, B, axis=0)],
    np.linalg.vecdot: [call(A, B), call(C, A), call(C, C, axis=0)],
}
if hasattr(np, "matvec"):
    LINALG[np.matvec] = [call(A, V), call(C, V), call(C, numbers(2, 4)), call(A, numbers(5, 4))]
    LINALG[np.vecmat] = [call(W, A), call(W, C), call(numbers(2, 3), C), call(numbers(5, 3), A)]
