"""The primitive `argsort`, from which all sorting is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Flat, Library, Primitive, Sample, every_other_axis
from chainrule.primitives.python import Python, Written

ANY = (-2.0, 2.0)
INDEX = np.dtype(np.int64)


def _argsort_type(x: ArrayType, *, axis: int) -> ArrayType:
    if not 0 <= axis < x.ndim:
        raise TypeError(f"axis {axis} is no axis of {x}")
    return array_type(INDEX, x.shape)


def _scratch(out: Node, x: np.ndarray) -> int:
    """One row of the elements, and one of their positions, where these do not lie side by side."""
    shape, axis = out.type.shape, out.param("axis")
    length = x.shape[axis]
    if length < 2 or not x.size:
        return 0
    positions_apart = any(size != 1 for size in shape[axis + 1 :])
    elements_apart = x.strides[axis] != x.itemsize
    return length * (elements_apart * x.itemsize + positions_apart * INDEX.itemsize)


def _merging(out: Node, x: np.ndarray) -> int:
    """The positions of half a row, by which runs are merged, for a moment twice; short words are
    counted, which takes the positions of a row."""
    return INDEX.itemsize * x.shape[out.param("axis")] if x.size else 0


def _written(out: Node, writing: Any, x: Written) -> Written:
    axis = out.param("axis")
    shown = "" if axis == out.ndim - 1 else f", axis={axis}"
    return Written(f"np.argsort({x.text}{shown}, stable=True)")


def _tied(x: Any, *, axis: int) -> Any:
    """Which of the elements in order equal the next one."""
    return np.diff(np.sort(x, axis), axis=axis) == 0


argsort = Primitive(
    name="argsort",
    doc="The places of the elements along an axis from the smallest to the largest, NaN last; "
    "equal elements keep their order.",
    inputs=("x",),
    result_type=_argsort_type,
    evaluate=lambda xp, x, *, axis: xp.asarray(xp.argsort(x, axis=axis, stable=True), dtype=INDEX),
    derivative=Flat(),
    batch=lambda size, inputs, batched, out: argsort(inputs[0], axis=out.param("axis") + 1),
    kernel=Library(),
    flops=lambda out: out.type.size,
    scratch=_scratch,
    library_bytes=_merging,
    independent=every_other_axis,
    latex=Latex(r"\operatorname{{argsort}}_{{{axis}}}({x})", ATOM, (0,)),
    samples=(
        Sample(((5,),), (ANY,), (("axis", 0),)),
        Sample(((2, 3),), (ANY,), (("axis", 1),)),
        Sample(((3, 1, 2),), (ANY,), (("axis", 0),)),
        Sample(((0, 2),), (ANY,), (("axis", 0),)),
        Sample(((4,),), ("int:3",), (("axis", 0),)),
    ),
    kink=_tied,
    python=Python(_written, noun="order"),
)

SORTING = (argsort,)
