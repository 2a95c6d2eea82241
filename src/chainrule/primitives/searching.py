"""The primitive of `np.searchsorted`: where values belong in a sorted array."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives import logic
from chainrule.primitives.movement import add_batch_axis, broadcast_to, reshape
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Flat, Library, Primitive, Sample
from chainrule.primitives.python import Python, Writing, Written
from chainrule.primitives.reduce import sum_

ANY = (-2.0, 2.0)
INDEX = np.dtype(np.int64)


def _type(a: ArrayType, v: ArrayType, *, side: str) -> ArrayType:
    if a.ndim != 1 or a.dtype != v.dtype or side not in ("left", "right"):
        raise TypeError(f"searchsorted takes one axis and one dtype, got {a} and {v}")
    return array_type(INDEX, v.shape)


def _batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    """With sorted elements of its own for each example, the elements before each value counted."""
    a, v = inputs
    if not batched[0]:
        return searchsorted(a, v, **dict(out.params))
    v = v if batched[1] else add_batch_axis(v, size)
    shape = (*v.type.shape, a.type.shape[1])
    v = broadcast_to(reshape(v, shape=(*v.type.shape, 1)), shape=shape)
    a = reshape(a, shape=(size, *(1,) * (len(shape) - 2), shape[-1]))
    a = broadcast_to(a, shape=shape)
    if out.param("side") == "left":
        is_before = logic.logical_or(
            logic.less(a, v), logic.logical_and(logic.equal(a, a), logic.not_equal(v, v))
        )
    else:
        is_before = logic.logical_or(logic.less_equal(a, v), logic.not_equal(v, v))
    count = logic.cast(is_before, dtype=INDEX, weak=False)
    return sum_(count, axes=(len(shape) - 1,))


def _scratch(out: Node, a: np.ndarray, v: np.ndarray) -> int:
    """What NumPy copies to have it in C order: v, and a where more elements are looked for."""
    strided = v.size <= a.size or a.flags.c_contiguous  # a may be read as it lies
    stays = v.flags.c_contiguous and v.flags.aligned
    return (not (strided and a.flags.aligned)) * a.nbytes + (not stays) * v.nbytes


def _written(out: Node, writing: Writing, a: Written, v: Written) -> Written:
    side = "" if out.param("side") == "left" else ", side='right'"
    return Written(f"np.searchsorted({a.text}, {v.text}{side})")


searchsorted = Primitive(
    name="searchsorted",
    doc="How many elements of the sorted a are before v: less than v, on the right also equal.",
    inputs=("a", "v"),
    result_type=_type,
    evaluate=lambda xp, a, v, *, side: xp.asarray(xp.searchsorted(a, v, side=side), dtype=INDEX),
    derivative=Flat(),
    batch=_batch,
    kernel=Library(),
    flops=lambda out: out.type.size,
    scratch=_scratch,
    independent=lambda out: tuple([(axis, (None, axis)) for axis in range(out.ndim)]),
    latex=Latex(r"\operatorname{{searchsorted}}({a}, {v})", ATOM, (0, 0)),
    samples=(
        *(
            # random elements are sorted where they are equal, or one
            Sample(shapes, (domain, ANY), (("side", side),))
            for shapes in (((3,), (4,)), ((3,), ()), ((2,), (2, 3)), ((0,), (2,)), ((3,), (0, 2)))
            for domain, side in (((0.5, 0.5), "left"), ((-0.5, -0.5), "right"))
        ),
        Sample(((1,), (9,)), ("int:3", "int:3"), (("side", "right"),)),
    ),
    kink=lambda a, v, *, side: np.isin(v, a),
    python=Python(_written, noun="places"),
)

SEARCHING = (searchsorted,)
