"""Functions that move, join, part, choose and sort elements, with PyTorch's signatures."""

from __future__ import annotations

import itertools

import numpy as np


def size_of(given):
    """A shape given as one sequence or as several numbers."""
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else given


def squeeze(x, dim=None):
    if dim is None:
        return np.squeeze(x)
    axes = [a for a in (dim if isinstance(dim, (list, tuple)) else [dim]) if np.ndim(x)]
    axes = tuple(a % np.ndim(x) for a in axes if np.shape(x)[a] == 1)
    return np.squeeze(x, axes) if axes else x


def expand(x, *shape):
    shape = size_of(shape)
    own = (*(1,) * (len(shape) - np.ndim(x)), *np.shape(x))
    return np.broadcast_to(x, tuple(o if s == -1 else s for s, o in zip(shape, own, strict=True)))


def roll(x, shifts, dims=None):
    return np.roll(x, shifts, dims or None if isinstance(dims, (list, tuple)) else dims)


def rot90(x, k=1, dims=(0, 1)):
    return np.rot90(x, k, dims)


def repeat_interleave(x, repeats, dim=None, output_size=None):
    return np.repeat(x, repeats, dim)


def take_along_dim(x, indices, dim=None):
    if dim is None:
        return np.take_along_axis(np.ravel(x), np.ravel(indices), 0)
    shape = np.broadcast_shapes(
        *(tuple(1 if a == dim else n for a, n in enumerate(np.shape(v))) for v in (x, indices))
    )

    def fitted(v):
        return np.broadcast_to(
            v, tuple(np.shape(v)[a] if a == dim else n for a, n in enumerate(shape))
        )

    return np.take_along_axis(fitted(x), fitted(indices), dim)


def diagonal(x, offset=0, dim1=0, dim2=1):
    return np.diagonal(x, offset, dim1, dim2)


def cat(tensors, dim=0):
    parts = [t for t in tensors if np.shape(t) != (0,)] or list(tensors)
    return np.concatenate(parts, axis=dim)


def sort(x, dim=-1, descending=False, stable=False):
    if np.ndim(x) == 0:
        return x, np.zeros((), np.int64)
    places = np.argsort(-x if descending else x, axis=dim, kind="stable")
    return np.take_along_axis(x, places, dim), places


def argsort(x, dim=-1, descending=False, stable=False):
    return sort(x, dim, descending)[1]


def tensor_split(x, parts, dim=0):
    where = parts if isinstance(parts, int) else np.atleast_1d(np.asarray(parts)).tolist()
    where = int(np.asarray(parts)) if np.ndim(parts) == 0 else where
    return np.array_split(x, where, dim)


def split(x, size, dim=0):
    length = np.shape(x)[dim]
    ends = np.cumsum(size)[:-1] if isinstance(size, (list, tuple)) else range(size, length, size)
    return np.split(x, list(ends), dim)


def unbind(x, dim=0):
    moved = np.moveaxis(x, dim, 0)
    return [moved[i] for i in range(np.shape(moved)[0])]


def masked_fill(x, mask, value):
    return np.where(mask, value, x)


def meshgrid(*tensors, indexing="ij"):
    tensors = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    return np.meshgrid(*tensors, indexing=indexing)


def take(x, indices):
    return np.take(np.ravel(x), indices)


def index_select(x, dim, indices):
    return np.reshape(x, ()) if np.ndim(x) == 0 else np.take(x, np.atleast_1d(indices), axis=dim)


def flatten(x, start_dim=0, end_dim=-1):
    shape = np.shape(x) or (1,)
    first, last = start_dim % len(shape), end_dim % len(shape)
    middle = int(np.prod(shape[first : last + 1]))
    return np.reshape(x, (*shape[:first], middle, *shape[last + 1 :]))


def filled_like(function):
    def call(x, *value, **options):
        return function(x, *value)

    return call


def of_sequence(function):
    def call(*tensors):
        given = (
            tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
        )
        return function(given)

    return call


def at_least(function):
    def call(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
            return [function(t) for t in tensors[0]]
        return function(*tensors)

    return call


def chunk(x, parts, dim=0):
    if np.ndim(x) == 0:
        return [x]
    length = np.shape(x)[dim]
    return split(x, max(-(-length // parts), 1), dim)


def block_diag(*blocks):
    blocks = [np.atleast_2d(block) for block in blocks]
    rows = []
    for i, block in enumerate(blocks):
        height = np.shape(block)[0]
        others = [np.zeros((height, np.shape(other)[1])) for other in blocks]
        rows.append([block if i == j else other for j, other in enumerate(others)])
    return np.block(rows)


def combinations(x, r=2, with_replacement=False):
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(np.shape(x)[0]), r)), np.int64)
    return x[np.reshape(places, (-1, r))]


def cartesian_prod(*tensors):
    if len(tensors) == 1:
        return tensors[0]
    return np.stack([np.ravel(part) for part in np.meshgrid(*tensors, indexing="ij")], axis=1)


def diag_embed(x, offset=0, dim1=-2, dim2=-1):
    below, beside = max(-offset, 0), max(offset, 0)
    pads = [(0, 0)] * (np.ndim(x) - 1)
    square = x[..., None] * np.eye(np.shape(x)[-1])
    placed = np.pad(square, [*pads, (below, beside), (beside, below)])
    return np.moveaxis(placed, (-2, -1), (dim1, dim2))


def unflatten(x, dim, sizes):
    dim %= np.ndim(x)
    return np.reshape(x, (*np.shape(x)[:dim], *sizes, *np.shape(x)[dim + 1 :]))


def shifts(x, dim, sign):
    """The steps and axes by which np.roll does what np.fft.fftshift does."""
    axes = range(np.ndim(x)) if dim is None else dim if isinstance(dim, (list, tuple)) else [dim]
    axes = tuple(axes)
    return tuple(sign * (np.shape(x)[a] // 2) for a in axes), axes


def same(x, *args, **options):
    return np.copy(x)


def reshaped(x, *shape):
    return np.reshape(x, size_of(shape))


def permuted(x, dims):
    return np.transpose(x, dims)


def swapped(x, a, b):
    return np.swapaxes(x, a, b) if np.ndim(x) else x


TABLE = {
    "reshape": reshaped,
    "ravel": lambda x: np.ravel(x),
    "flatten": flatten,
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "t": lambda x: np.transpose(x),
    "permute": permuted,
    "transpose": swapped,
    "movedim": lambda x, a, b: np.moveaxis(x, a, b),
    "squeeze": squeeze,
    "unsqueeze": lambda x, dim: np.expand_dims(x, dim),
    "expand": expand,
    "broadcast_to": lambda x, shape: expand(x, shape),
    "broadcast_tensors": lambda *tensors: np.broadcast_arrays(*tensors),
    "flip": lambda x, dims: np.flip(x, tuple(dims)),
    "fliplr": lambda x: np.fliplr(x),
    "flipud": lambda x: np.flipud(x),
    "roll": roll,
    "rot90": rot90,
    "tile": lambda x, dims: np.tile(x, dims),
    "repeat": lambda x, *sizes: np.tile(x, size_of(sizes)),
    "repeat_interleave": repeat_interleave,
    "take": take,
    "take_along_dim": take_along_dim,
    "index_select": index_select,
    "diag": lambda x, k=0: np.diag(x, k),
    "diagflat": lambda x, offset=0: np.diagflat(x, offset),
    "diagonal": diagonal,
    "linalg.diagonal": lambda x, offset=0, dim1=-2, dim2=-1: np.diagonal(x, offset, dim1, dim2),
    "trace": lambda x: np.trace(x),
    "tril": lambda x, k=0: np.tril(x, k),
    "triu": lambda x, k=0: np.triu(x, k),
    "cat": cat,
    "stack": lambda tensors, dim=0: np.stack(tensors, dim),
    "hstack": of_sequence(np.hstack),
    "vstack": of_sequence(np.vstack),
    "dstack": of_sequence(np.dstack),
    "column_stack": of_sequence(np.column_stack),
    "atleast_1d": at_least(np.atleast_1d),
    "atleast_2d": at_least(np.atleast_2d),
    "atleast_3d": at_least(np.atleast_3d),
    "tensor_split": tensor_split,
    "split": split,
    "split_with_sizes": split,
    "hsplit": lambda x, where: np.hsplit(x, where),
    "vsplit": lambda x, where: np.vsplit(x, where),
    "dsplit": lambda x, where: np.dsplit(x, where),
    "unbind": unbind,
    "meshgrid": meshgrid,
    "sort": sort,
    "msort": lambda x: np.sort(x, axis=0) if np.ndim(x) else x,
    "argsort": argsort,
    "masked_fill": masked_fill,
    "__getitem__": lambda x, key: x[key],
    **dict.fromkeys(("clone", "contiguous", "alias_copy", "resolve_conj", "resolve_neg"), same),
    **dict.fromkeys(("view", "view_copy"), reshaped),
    **dict.fromkeys(("view_as", "reshape_as"), lambda x, y: np.reshape(x, np.shape(y))),
    "unflatten": unflatten,
    "expand_as": lambda x, y: np.broadcast_to(x, np.shape(y)),
    "expand_copy": expand,
    "permute_copy": permuted,
    "squeeze_copy": squeeze,
    "unsqueeze_copy": lambda x, dim: np.expand_dims(x, dim),
    "transpose_copy": swapped,
    "t_copy": lambda x: np.transpose(x),
    "H": lambda x: np.conj(x.T),
    "mH": lambda x: np.conj(x.mT),
    "diagonal_copy": diagonal,
    "diag_embed": diag_embed,
    "chunk": chunk,
    "unsafe_chunk": chunk,
    "unsafe_split": split,
    "split_with_sizes_copy": split,
    "unbind_copy": unbind,
    "block_diag": block_diag,
    "combinations": combinations,
    "cartesian_prod": cartesian_prod,
    "fill": lambda x, value: np.full_like(x, value),
    "zero_": lambda x: np.zeros_like(x),
    "fft.fftshift": lambda x, dim=None: np.roll(x, *shifts(x, dim, 1)),
    "fft.ifftshift": lambda x, dim=None: np.roll(x, *shifts(x, dim, -1)),
    "zeros_like": filled_like(np.zeros_like),
    "ones_like": filled_like(np.ones_like),
    "full_like": filled_like(np.full_like),
}
