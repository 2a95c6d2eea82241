"""In which order products lie in memory: that of the one node that reads them, where it can be."""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import prod

from chainrule.graph.dtypes import FLOAT32
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.loops.windows import strides_by_place
from chainrule.plan.products.fold import Products
from chainrule.plan.products.winograd import pays
from chainrule.plan.roles import Role
from chainrule.primitives.affine import row_major
from chainrule.primitives.movement import reshape, transpose
from chainrule.primitives.products import contract
from chainrule.primitives.windows import fold_windows, windows

# Additions for an element of a convolution up to which loops after it count more.  Steps of one
# layer of 3 x 3 x 1 to 16 with relu, pooling or batch norm take 0.33 to 0.91 of their time in the
# loops' order (one core of a Zen 4; 0.35 to 1.2 without AVX-512), of 5 x 5 x 8 0.89 to 1.1 (1.3 to
# 1.6), of 3 x 3 x 32 0.87 to 1.03 (1.0 to 1.1).
SHALLOW = 150
SWEPT = (Role.MAP, Role.FOLD)  # by loop nests, whose columns are the last axis


def product_layouts(
    graph: Graph,
    products: Mapping[Node, Products],
    roles: Mapping[Node, Role],
    stored: Container[Node],
) -> dict[Node, tuple[int, ...]]:
    """The strides of products that lie in the order of the one node that reads them: a transpose,
    so that its reshape needs no copy, or loop nests find its last axis side by side; or the sum of
    windows, place by place.  `stored` are results, and what else must be in memory as it is."""
    found: dict[Node, tuple[int, ...]] = {}
    users: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        for parent in dict.fromkeys(node.inputs):
            users.setdefault(parent, []).append(node)
    for root in products:
        readers = users.get(root, [])
        if root in stored or len(readers) != 1:
            continue
        reader = readers[0]
        if reader.primitive is fold_windows and roles[reader] is Role.ASSEMBLED:
            found[root] = strides_by_place(reader)
            continue
        if reader.primitive is not transpose:
            continue
        again, terms = users.get(reader, []), [term for term, _ in products[root].terms]
        order = reader.param("permutation")
        swept = order[-1] != root.ndim - 1
        if not (swept and all(_by_winograd(one) for one in terms)):
            swept = swept and all(roles[one] in SWEPT for one in again) and reader not in stored
            swept = swept and all(_suits_windows(one, roles) for one in terms)
        if swept or (any(one.primitive is reshape for one in again) and reader not in stored):
            moved = dict(zip(order, row_major(reader.shape), strict=True))
            found[root] = tuple(moved[axis] for axis in range(root.ndim))
    return found


def _suits_windows(product: Node, roles: Mapping[Node, Role]) -> bool:
    """Whether rows of the result can be positions as well as channels: not where there are windows
    and it adds up over their positions, or so much that its tiles count more than what follows."""
    if product.primitive is not contract:
        return not any(_places(x, roles) for x in product.inputs)
    x_axes, y_axes, out_axes = (product.param(key) for key in ("x_axes", "y_axes", "out_axes"))
    sizes = dict(zip((*x_axes, *y_axes), (n for x in product.inputs for n in x.shape), strict=True))
    depth = prod(size for axis, size in sizes.items() if axis not in out_axes)
    for x, axes in zip(product.inputs, (x_axes, y_axes), strict=True):
        places = _places(x, roles)
        shows = x.primitive is windows and not {*axes[len(axes) - places :]} & {*out_axes}
        if places and not (shows and depth <= SHALLOW):
            return False
    return True


def _by_winograd(product: Node) -> bool:
    """Whether Winograd's method does this product with windows, if its positions lie side by side
    in the result."""
    if product.primitive is not contract:
        return False
    axes = product.param("x_axes"), product.param("y_axes")
    pairs = zip(product.inputs, axes, axes[::-1], strict=True)
    found = [one for one in pairs if one[0].primitive is windows]
    if len(found) != 1:
        return False
    ((seen, own, other),) = found
    out_axes = product.param("out_axes")
    if seen.param("window") != (3, 3) or max(*seen.param("stride"), *seen.param("dilation")) > 1:
        return False
    if {*own[-2:]} & {*out_axes} or not {*own[-4:-2]} <= {*out_axes}:
        return False
    sizes = dict(zip(own, seen.shape, strict=True))
    rows = prod(n for axis, n in zip(out_axes, product.shape, strict=True) if axis not in own)
    channels = prod(sizes[axis] for axis in own[:-2] if axis not in out_axes)
    around = prod(sizes[axis] for axis in own[:-4] if axis in out_axes)
    has_batch = any(axis in other and axis in out_axes for axis in own)
    fits = product.dtype == FLOAT32 and not has_batch
    return fits and pays(rows, channels, around, sizes[own[-4]], sizes[own[-3]])


def _places(node: Node, roles: Mapping[Node, Role]) -> int:
    """The axes of the windows, of more than one element, that it shows of an array; 0 for none."""
    while roles[node] is Role.MOVED:
        if node.primitive is windows and prod(node.param("window")) > 1:
            return len(node.param("window"))
        node = node.inputs[0]
    return 0
