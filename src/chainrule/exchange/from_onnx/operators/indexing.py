"""ONNX's operators that read and write at places: gather, scatter, one-hot, top k."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.exchange.from_onnx.call import Call, has_sizes
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes.sizes import Size


def gather(call: Call, x: Any, places: Any) -> Any:
    axis = call.axis(call.get("axis", 0), x.ndim)
    return np.take(_beside(call, x, places), _integers(places), axis)


def _beside(call: Call, x: Any, places: Any) -> Any:
    """x as a value of the graph, if the places are one: NumPy asks only the first for its rules."""
    return call.traced(x) if isinstance(places, Traced) else x


def _integers(places: Any) -> Any:
    return places if places.dtype == np.int64 or has_sizes(places) else places.astype(np.int64)


def _from_the_front(places: Any, length: Any) -> Any:
    return np.where(places < 0, places + length, places)


def gather_elements(call: Call, x: Any, places: Any) -> Any:
    axis = call.axis(call.get("axis", 0), x.ndim)
    return np.take_along_axis(_cut(x, places, axis), _integers(places), axis)


def _cut(x: Any, places: Any, axis: int) -> Any:
    """x without what `places`, which may be shorter on other axes, does not reach."""
    cut = tuple(
        slice(None) if i == axis or x.shape[i] == n else slice(0, n)
        for i, n in enumerate(places.shape)
    )
    return x if all(one == slice(None) for one in cut) else x[cut]


def gather_nd(call: Call, x: Any, places: Any) -> Any:
    """The last axis of `places` holds positions; the first `batch_dims` axes go together."""
    batch, last = call.get("batch_dims", 0), places.shape[-1]
    if isinstance(last, Size) or not 0 <= batch <= batch + last <= x.ndim:
        call.refuse(f"with positions of {last} numbers in {x.ndim} axes, {batch} of them together")
    index = [_integers(places[..., one]) for one in range(last)]
    rows = []
    for axis in range(batch):
        fits = [1] * (places.ndim - 1)
        fits[axis] = x.shape[axis]
        rows.append(np.reshape(call.positions(x.shape[axis]), tuple(fits)))
    return _beside(call, x, places)[tuple([*rows, *index])]


WRITES = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}


def _written(call: Call, x: Any, where: Any, updates: Any) -> Any:
    method = WRITES.get(call.get("reduction", "none"))
    if method is None:
        call.refuse(f"reduction {call.get('reduction')!r}")
    return getattr(call.traced(x).at[where], method)(updates)


def scatter_elements(call: Call, x: Any, places: Any, updates: Any) -> Any:
    axis = call.axis(call.get("axis", 0), x.ndim)
    places = _integers(places)
    where: list[Any] = []
    for i, length in enumerate(places.shape):
        fits = [1] * places.ndim
        fits[i] = length
        where.append(np.reshape(call.positions(length), tuple(fits)))
    where[axis] = _from_the_front(places, x.shape[axis])
    return _written(call, x, tuple(where), updates)


def scatter_nd(call: Call, x: Any, places: Any, updates: Any) -> Any:
    last = places.shape[-1]
    if isinstance(last, Size) or last > x.ndim:
        call.refuse(f"with positions of {last} numbers in {x.ndim} axes")
    places = _integers(places)
    where = tuple(_from_the_front(places[..., one], x.shape[one]) for one in range(last))
    return _written(call, x, where, updates)


def tensor_scatter(call: Call, past: Any, update: Any, starts: Any = None) -> Any:
    """Writes rows into a cache, from a start for each example, linearly or around its end."""
    axis = call.axis(call.get("axis", -2), past.ndim)
    length, count = past.shape[axis], update.shape[axis]
    rows = call.positions(count)
    if starts is None:
        starts = np.zeros(past.shape[0], np.int64)
    places = np.expand_dims(_integers(starts), 1) + rows
    if call.get("mode", "linear") == "circular":
        places = np.mod(places, length)
    moved, new = np.moveaxis(call.traced(past), axis, 1), np.moveaxis(update, axis, 1)
    batch = np.expand_dims(call.positions(past.shape[0]), 1)
    return np.moveaxis(moved.at[batch, places].set(new), 1, axis)


def one_hot(call: Call, places: Any, depth: Any, values: Any) -> Any:
    """Ones (or the second value) at the places, along a new axis; nowhere for what is outside."""
    count = call.integer(
        depth.astype(np.int64) if isinstance(depth, np.ndarray) else depth, "depth"
    )
    axis = call.get("axis", -1)
    axis = axis + places.ndim + 1 if axis < 0 else axis
    wanted = np.expand_dims(places.astype(np.int64), axis)
    fits = [1] * (places.ndim + 1)
    fits[axis] = count
    classes = np.reshape(call.positions(count), tuple(fits))
    chosen = (wanted == classes) | (wanted + count == classes)
    return np.where(chosen, values[1], values[0])


def top_k(call: Call, x: Any, k: Any = None) -> Any:
    axis = call.axis(call.get("axis", -1), x.ndim)
    count = call.get("k") if k is None else call.integer(k, "k")
    if isinstance(x.shape[axis], int) and not 0 <= count <= x.shape[axis]:
        call.refuse(f"the first {count} of {x.shape[axis]}")
    if call.get("largest", 1):
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    place = [slice(None)] * x.ndim
    place[axis] = slice(0, count)
    first = order[tuple(place)]
    return np.take_along_axis(x, first, axis), first.astype(np.int64)


def compress(call: Call, x: Any, condition: Any) -> Any:
    chosen = np.flatnonzero(call.known(condition, "condition"))
    if call.get("axis") is None:
        return np.take(np.reshape(x, (-1,)), chosen, 0)
    return np.take(x, chosen, call.axis(call.get("axis"), x.ndim))


def nonzero(call: Call, x: Any) -> Any:
    return np.array(np.nonzero(call.known(x, "operand")), np.int64)


def unique(call: Call, x: Any) -> Any:
    axis = call.get("axis")
    values, first, inverse, counts = np.unique(
        call.known(x, "operand"), True, True, True, axis=axis
    )
    if not call.get("sorted", 1):
        order = np.argsort(first)
        back = np.argsort(order)
        values = np.take(values, order, 0 if axis is None else axis)
        first, inverse, counts = first[order], back[inverse.ravel()], counts[order]
    return values, first, inverse.ravel(), counts


def array_feature_extractor(call: Call, x: Any, places: Any) -> Any:
    found = np.take(x, _integers(np.reshape(places, (-1,))), x.ndim - 1)
    return found if x.ndim > 1 else np.reshape(found, (1, -1))


def binarize(call: Call, x: Any) -> Any:
    return (x > call.get("threshold", 0.0)).astype(x.dtype)


INDEXING: dict[str, Callable[..., Any]] = {
    "Compress": compress,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "NonZero": nonzero,
    "OneHot": one_hot,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
    "TopK": top_k,
    "Unique": unique,
}
OF_TABLES: dict[str, Callable[..., Any]] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarize,
}
