"""The product of elements over axes, whose derivative is right where elements are 0."""

from __future__ import annotations

from typing import Any

from chainrule.graph.sizes import sizes
from chainrule.primitives.cumulative import cumprod, moved_on
from chainrule.primitives.movement import inverse, reshape, transpose
from chainrule.primitives.notation import BIG, Latex
from chainrule.primitives.primitive import Explicit, Fold
from chainrule.primitives.reduce import NON_EMPTY, reduced_by, reduction, spread, sum_
from chainrule.primitives.sources import full_like


def _others(x: Any, axes: tuple[int, ...]) -> Any:
    """For each element the product of all others over the axes, without a division."""
    if not axes:
        return full_like(x, 1)
    if axes[-1] - axes[0] >= len(axes):  # not side by side: bring them to the end
        order = (*(i for i in range(x.ndim) if i not in axes), *axes)
        moved = _others(transpose(x, permutation=order), tuple(range(x.ndim))[-len(axes) :])
        return transpose(moved, permutation=inverse(order))
    shape, axis = x.type.shape, axes[0]
    length = sizes.product(tuple(shape[i] for i in axes))
    row = (*shape[:axis], length, *shape[axis + len(axes) :])
    one = x if row == shape else reshape(x, shape=row)
    before, after = (
        moved_on(cumprod(one, axis=axis, reverse=reverse), axis, reverse, 1.0)
        for reverse in (False, True)
    )
    found = before * after
    return found if row == shape else reshape(found, shape=shape)


def _tangent(dx: Any, out: Any, x: Any) -> Any:
    axes = out.param("axes")
    return sum_(dx * _others(x, axes), axes=axes)


def _cotangent(g: Any, out: Any, x: Any) -> Any:
    axes = out.param("axes")
    return spread(g, x.type.shape, axes) * _others(x, axes)


prod = reduction(
    "prod",
    "The product over axes; an element's derivative is the product of the others.",
    lambda xp, x, *, axes: xp.prod(x, axis=axes, dtype=x.dtype),
    Explicit((_tangent,), (_cotangent,)),
    Fold("x * y", "1"),
    Latex(r"\prod_{{{axes}}} {x}", BIG, (BIG,)),
    reduced_by("prod", "product"),
    (*NON_EMPTY, ((2, 2, 2), (0, 1)), ((0, 3), (0,)), ((0,), (0,))),
)

PRODUCTS_OF_ELEMENTS = (prod,)
