"""What the devices of a grid do together, on traced arrays: sums, gathers, and each one's own part.

These are methods of a `Space`; `among` names the axis of the grid along which devices exchange.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.execute.xla.jax_here import jax_here

if TYPE_CHECKING:
    from chainrule.execute.xla.tracing import Space


def all_reduce(space: Space, x: Any, *, ways: int, among: str) -> Any:
    """The sum of what the devices have."""
    return jax_here().lax.psum(x, among)


def all_gather(space: Space, x: Any, *, axis: int, ways: int, among: str) -> Any:
    """What the devices have, one after another along an axis."""
    return jax_here().lax.all_gather(x, among, axis=axis, tiled=True)


def reduce_scatter(space: Space, x: Any, *, axis: int, ways: int, among: str) -> Any:
    """This device's part along an axis of the sum."""
    return jax_here().lax.psum_scatter(x, among, scatter_dimension=axis, tiled=True)


def own_part(space: Space, x: Any, *, axis: int, ways: int, among: str) -> Any:
    """This device's part along an axis of what all of them have."""
    lax, length = jax_here().lax, x.shape[axis] // ways
    return lax.dynamic_slice_in_dim(x, lax.axis_index(among) * length, length, axis)
