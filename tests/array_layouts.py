"""The ways in which an array may lie in memory; one of no axes lies in all of them as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

Layout = Callable[[np.ndarray], np.ndarray]


def unaligned(x: np.ndarray) -> np.ndarray:
    memory = np.frombuffer(bytearray(b"\0" + x.tobytes()), np.uint8)[1:]
    found = memory.view(x.dtype).reshape(x.shape)
    assert not x.size or x.itemsize == 1 or not found.flags.aligned
    return found


def frozen(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.setflags(write=False)
    return x


def of_any_axes(layout: Layout) -> Layout:
    return lambda x: layout(x) if x.ndim else x


with_gaps = of_any_axes(lambda x: np.repeat(x, 2, axis=-1)[..., ::2])
backwards = of_any_axes(lambda x: x[..., ::-1].copy()[..., ::-1])
repeated = of_any_axes(lambda x: np.broadcast_to(x.flat[0], x.shape))  # all elements are the first

STRIDES: dict[str, Layout] = {
    "in C order": np.array,
    "in Fortran order": of_any_axes(np.asfortranarray),
    "with gaps": with_gaps,
    "backwards": backwards,
}
AWKWARD: dict[str, Layout] = {
    **{name: STRIDES[name] for name in list(STRIDES)[1:]},
    "of the other byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "at an odd address": unaligned,
    "read-only": frozen,
}


def layouts(array: np.ndarray) -> Iterator[np.ndarray]:
    """By strides: in order, transposed, with gaps, backwards, and with one element repeated."""
    for layout in (*STRIDES.values(), repeated):
        yield layout(array)
