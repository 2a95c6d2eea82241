"""Cumulative sums, products, recurrences and extremes along an axis."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives import logic
from chainrule.primitives.families import same_type
from chainrule.primitives.indexing import gather, scatter_add
from chainrule.primitives.movement import (
    add_batch_axis,
    broadcast_to,
    concatenate,
    pad,
    reshape,
    slice_,
)
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import (
    Derivative,
    Explicit,
    Joint,
    Library,
    Linear,
    Primitive,
    Sample,
    every_other_axis,
)
from chainrule.primitives.python import Python, Writing, Written, dtype_text
from chainrule.primitives.python_functions import RECURRENCE
from chainrule.primitives.sources import positions, size_of, uniform

ANY = (-2.0, 2.0)
INDEX = np.dtype(np.int64)
INDEX_SCALAR = array_type(INDEX, ())
WIDENING = ("cumsum", "cumprod")  # NumPy's, of small integers
# Shapes with the axis, and whether it is walked from its end.
WALKS: tuple[tuple[tuple[int, ...], int, bool], ...] = (
    ((4,), 0, False),
    ((4,), 0, True),
    ((2, 3), 0, False),
    ((2, 1, 3), 2, True),
    ((2, 1, 3), 1, False),
    ((0, 2), 0, True),
    ((0, 2), 1, False),
)


def _axis_type(*types: ArrayType, axis: int, reverse: bool) -> ArrayType:
    out = same_type(*types)
    if not 0 <= axis < out.ndim:
        raise TypeError(f"axis {axis} is no axis of {out}")
    return array_type(out.dtype, out.shape)


def _samples(count: int) -> tuple[Sample, ...]:
    return tuple(
        Sample((shape,) * count, (ANY,) * count, (("axis", axis), ("reverse", reverse)))
        for shape, axis, reverse in WALKS
    )


def _batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    given = [x if has else add_batch_axis(x, size) for x, has in zip(inputs, batched, strict=True)]
    return out.primitive(*given, axis=out.param("axis") + 1, reverse=out.param("reverse"))


def part_along(x: Any, axis: int, start: int | Size, length: int | Size) -> Any:
    """`length` elements along an axis, from `start` on."""
    shape, begin = list(x.type.shape), [0] * x.ndim
    shape[axis], begin[axis] = length, start
    return slice_(x, start=tuple(begin), step=(1,) * x.ndim, shape=tuple(shape))


def moved_on(x: Any, axis: int, reverse: bool, first: float = 0.0) -> Any:
    """Each place has the element before it, the first one `first`; from the end where `reverse`."""
    length = x.type.shape[axis]
    if length == 0:
        return x
    kept = part_along(x, axis, 1 if reverse else 0, length - 1)
    if first == 0:
        start = tuple(int(not reverse and i == axis) for i in range(x.ndim))
        return pad(kept, start=start, step=(1,) * x.ndim, shape=x.type.shape)
    edge = tuple(1 if i == axis else size for i, size in enumerate(x.type.shape))
    ends = uniform(first, x.type.dtype, edge)
    return concatenate(*((kept, ends) if reverse else (ends, kept)), axis=axis)


def _cumulative(function: str) -> Any:
    """The evaluation by a function of the array namespace, into an array of its own."""
    of = attrgetter(function)

    def evaluate(xp: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        found = of(xp)
        if xp is np:
            out = np.empty(x.shape, x.dtype)
            ends = (np.flip(x, axis), np.flip(out, axis)) if reverse else (x, out)
            found(ends[0], axis=axis, dtype=x.dtype, out=ends[1])
            return out
        if not reverse:
            return found(x, axis=axis, dtype=x.dtype)
        return xp.flip(found(xp.flip(x, axis), axis=axis, dtype=x.dtype), axis)

    return evaluate


def _walked(function: str) -> Python:
    """`np.cumsum(x, axis=1)`; from the end, of the flipped array, flipped back."""

    def write(out: Node, writing: Writing, x: Written) -> Written:
        axis, dtype = out.param("axis"), ""
        if function in WIDENING and out.type.dtype.kind in "iub" and out.type.dtype.itemsize < 8:
            dtype = f", dtype={dtype_text(out.type.dtype)}"  # NumPy would widen it
        if not out.param("reverse"):
            return Written(f"np.{function}({x.text}, axis={axis}{dtype})")
        inner = f"np.{function}(np.flip({x.text}, {axis}), axis={axis}{dtype})"
        return Written(f"np.flip({inner}, {axis})")

    return Python(write, noun="running")


def _running(
    name: str,
    doc: str,
    derivative: Derivative,
    function: str = "",
    kink: Any = None,
) -> Primitive:
    function = function or name
    return Primitive(
        name=name,
        doc=doc,
        inputs=("x",),
        result_type=_axis_type,
        evaluate=_cumulative(function),
        independent=every_other_axis,
        derivative=derivative,
        batch=_batch,
        kernel=Library(),
        flops=lambda out: out.type.size,
        kink=kink,
        latex=Latex(rf"\operatorname{{{{{name}}}}}_{{{{{{axis}}}}}}({{x}})", ATOM, (0,)),
        samples=_samples(1),
        python=_walked(function),
    )


def _cumsum_transpose(g: Any, out: Any, x: Any) -> Any:
    return cumsum(g, axis=out.param("axis"), reverse=not out.param("reverse"))


cumsum = _running(
    "cumsum",
    "The sums of the elements so far along an axis, from its end where reverse.",
    Linear((_cumsum_transpose,)),
)


def _recurrence(xp: Any, a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    if xp is not np:
        return _recurrence_of_rows(xp, a, b, axis, reverse)
    out = np.empty(b.shape, b.dtype)
    out[...] = b
    factors, rows = np.moveaxis(a, axis, 0), np.moveaxis(out, axis, 0)
    if reverse:
        factors, rows = factors[::-1], rows[::-1]
    term = np.empty((1, *rows.shape[1:]), b.dtype)
    for k in range(1, len(rows)):
        np.multiply(factors[k : k + 1], rows[k - 1 : k], out=term)
        rows[k : k + 1] += term
    return out


def _recurrence_of_rows(xp: Any, a: Any, b: Any, axis: int, reverse: bool) -> Any:
    """The same in a namespace whose arrays do not change."""
    factors, terms = xp.moveaxis(a, axis, 0), xp.moveaxis(b, axis, 0)
    places = range(len(terms))[::-1] if reverse else range(len(terms))
    rows: dict[int, Any] = {}
    last = None
    for k in places:
        last = terms[k] if last is None else terms[k] + factors[k] * last
        rows[k] = last
    stacked = xp.stack([rows[k] for k in sorted(rows)]) if rows else terms
    return xp.moveaxis(stacked, 0, axis)


def _recurrence_tangent(dxs: Any, out: Any, a: Any, b: Any) -> Any:
    params = dict(out.params)
    da, db = dxs
    if da is not None:
        by_factor = da * moved_on(out, params["axis"], params["reverse"])
        db = by_factor if db is None else db + by_factor
    return None if db is None else recurrence(a, db, **params)


def _recurrence_cotangents(g: Any, out: Any, active: Any, a: Any, b: Any) -> Any:
    axis, reverse = out.param("axis"), out.param("reverse")
    back = not reverse
    total = recurrence(moved_on(a, axis, back), g, axis=axis, reverse=back)
    return total * moved_on(out, axis, reverse) if 0 in active else None, total


recurrence = Primitive(
    name="recurrence",
    doc="y with y[k] = a[k] y[k-1] + b[k] along an axis, from y[0] = b[0]; reverse, from its end.",
    inputs=("a", "b"),
    result_type=_axis_type,
    evaluate=_recurrence,
    derivative=Joint(_recurrence_tangent, _recurrence_cotangents),
    batch=_batch,
    kernel=Library(),
    independent=every_other_axis,
    flops=lambda out: 2 * out.type.size,
    scratch=lambda out, a, b: b.nbytes // b.shape[out.param("axis")] if b.size else 0,
    latex=Latex(r"\operatorname{{recurrence}}_{{{axis}}}({a}, {b})", ATOM, (0, 0)),
    samples=_samples(2),
    python=Python(
        lambda out, writing, a, b: Written(
            f"{writing.helper(RECURRENCE)}"
            f"({a.text}, {b.text}, {out.param('axis')}, {out.param('reverse')})"
        ),
        noun="running",
    ),
)


def _cumprod_tangent(dx: Any, out: Any, x: Any) -> Any:
    params = dict(out.params)
    before = moved_on(out, params["axis"], params["reverse"], 1.0)
    return recurrence(x, before * dx, **params)


def _cumprod_cotangent(g: Any, out: Any, x: Any) -> Any:
    axis, reverse = out.param("axis"), out.param("reverse")
    back = not reverse
    after = recurrence(moved_on(x, axis, back), g, axis=axis, reverse=back)
    return after * moved_on(out, axis, reverse, 1.0)


cumprod = _running(
    "cumprod",
    "The products of the elements so far along an axis, from its end where reverse.",
    Explicit((_cumprod_tangent,), (_cumprod_cotangent,)),
)


def _places(out: Any, x: Any) -> list[Any]:
    """Where each extreme stands first, an index for each axis: the first NaN, if there is one."""
    axis, reverse = out.param("axis"), out.param("reverse")
    shape, length = x.type.shape, x.type.shape[axis]
    before = moved_on(out, axis, reverse)
    is_new = logic.logical_and(logic.not_equal(out, before), logic.equal(before, before))
    numbers = [_along(positions(size, INDEX), place, shape) for place, size in enumerate(shape)]
    first = broadcast_to(size_of(length - 1 if reverse else 0, INDEX_SCALAR), shape=shape)
    latest = cummin if reverse else cummax
    found = latest(logic.where(is_new, numbers[axis], first), **dict(out.params))
    return [found if place == axis else one for place, one in enumerate(numbers)]


def _along(numbers: Any, axis: int, shape: Any) -> Any:
    wide = tuple(size if place == axis else 1 for place, size in enumerate(shape))
    return broadcast_to(reshape(numbers, shape=wide), shape=shape)


def _extreme_tangent(dx: Any, out: Any, x: Any) -> Any:
    return gather(dx, *_places(out, x), wrap=False)


def _extreme_cotangent(g: Any, out: Any, x: Any) -> Any:
    return scatter_add(g, *_places(out, x), shape=x.type.shape, wrap=False)


def _extreme(name: str, extreme: str, ufunc: str) -> Primitive:
    return _running(
        name,
        f"The {extreme} of the elements so far along an axis, NaN after the first NaN; from its "
        "end where reverse.  Of equals the derivative is that of the first.",
        Explicit((_extreme_tangent,), (_extreme_cotangent,)),
        f"{ufunc}.accumulate",
        lambda x, *, axis, reverse: np.diff(np.sort(x, axis), axis=axis) == 0,
    )


cummax = _extreme("cummax", "largest", "maximum")
cummin = _extreme("cummin", "smallest", "minimum")

CUMULATIVE = (cumsum, cumprod, recurrence, cummax, cummin)  # each element is made of those before
