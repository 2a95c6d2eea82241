"""Matrix products with NumPy's batching, and contractions of two arrays over named axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.movement import add_batch_axis, broadcast_to, reshape, transpose
from chainrule.primitives.notation import ATOM, PRODUCT, Form, Latex
from chainrule.primitives.primitive import VIEWS, Contract, Cut, Multilinear, Primitive, Sample
from chainrule.primitives.python import Python, Writing, Written, operator_of

ANY = (-2.0, 2.0)
BLAS_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def _matmul_type(x: ArrayType, y: ArrayType) -> ArrayType:
    """Vectors as NumPy has them; a matrix y serves every matrix of x; else equal batch axes."""
    rows, columns = x.shape[:-1], y.shape[-1:] if y.ndim > 1 else ()
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    batch_fits = y.ndim <= 2 or (x.ndim == y.ndim and x.shape[:-2] == y.shape[:-2])
    if x.dtype != y.dtype or x.shape[-1] != inner or not batch_fits:
        raise TypeError(f"cannot multiply matrices {x} and {y}")
    return array_type(x.dtype, (*rows, *columns))


def swapped(x: Any) -> Any:
    """x with its last two axes exchanged."""
    last = x.ndim - 1
    return transpose(x, permutation=(*range(last - 1), last, last - 1))


def is_swapped(x: Any) -> bool:
    """Whether x is made by `swapped`."""
    last = x.ndim - 1
    return x.primitive is transpose and x.param("permutation") == (*range(last - 1), last, last - 1)


def _rows(x: Any) -> Any:
    """x as one matrix: all axes but the last in one."""
    if x.ndim == 2:
        return x
    return reshape(x, shape=(sizes.product(x.type.shape[:-1]), x.type.shape[-1]))


def _outer(a: Any, b: Any) -> Any:
    """a[..., i] b[j] for all i and j."""
    left, right = tuple(range(a.ndim)), tuple(range(a.ndim, a.ndim + b.ndim))
    return contract(a, b, x_axes=left, y_axes=right, out_axes=left + right)


def _matmul_left(g: Any, out: Any, x: Any, y: Any) -> Any:
    if y.ndim == 1:
        if x.ndim == 1:
            return broadcast_to(g, shape=y.type.shape) * y
        return _outer(g, y)
    if x.ndim == 1:
        return matmul(y, g)
    return matmul(g, swapped(y))


def _matmul_right(g: Any, out: Any, x: Any, y: Any) -> Any:
    if x.ndim == 1:
        return broadcast_to(g, shape=x.type.shape) * x if y.ndim == 1 else _outer(x, g)
    if y.ndim == 1:
        flat = g if g.ndim == 1 else reshape(g, shape=(g.type.size,))
        return matmul(swapped(_rows(x)), flat)
    if y.ndim == 2:
        return matmul(swapped(_rows(x)), _rows(g))
    return matmul(swapped(x), g)


def _matmul_batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    x, y = inputs
    left, right = batched
    own_y = y.ndim - right
    if not right and own_y <= 2:
        return matmul(x, y)
    if not left and own_y == 1 and x.ndim <= 2:
        return matmul(y, swapped(x) if x.ndim == 2 else x)  # vectors as the rows of one matrix
    if not left:
        x = add_batch_axis(x, size)
    if not right:
        y = add_batch_axis(y, size)
    shape = (size, *out.type.shape)
    if own_y == 1:
        y = reshape(y, shape=(*y.type.shape, 1))
    if x.ndim == 2:
        x = reshape(x, shape=(size, 1, x.type.shape[1]))
    elif y.ndim == 3 and x.ndim > 3:
        rows = sizes.product(x.type.shape[1:-1])
        x = reshape(x, shape=(size, rows, x.type.shape[-1]))
    result = matmul(x, y)
    return result if result.type.shape == shape else reshape(result, shape=shape)


def _matmul_flops(out: Node) -> int | Size:
    return 2 * (out.type.size * out.inputs[0].type.shape[-1])


def _matmul_independent(out: Node) -> tuple[Cut, ...]:
    """Matrices of x, and those of y where it is a stack, too; rows where no BLAS has them."""
    x, y = out.inputs
    stacked = x.ndim - 2 if y.ndim > 2 else 0
    count = x.ndim - 2 if x.dtype in BLAS_DTYPES else x.ndim - 1
    return tuple([(axis, (axis, axis if axis < stacked else None)) for axis in range(count)])


matmul = Primitive(
    name="matmul",
    doc="The matrix product, NumPy's @; a matrix on the right serves every matrix on the left.",
    inputs=("x", "y"),
    result_type=_matmul_type,
    evaluate=lambda xp, x, y: xp.matmul(x, y),
    derivative=Multilinear((_matmul_left, _matmul_right)),
    batch=_matmul_batch,
    kernel=Contract(),
    library_bytes=lambda out, x, y: _copied_for_blas(x, y),
    independent=_matmul_independent,
    flops=_matmul_flops,
    latex=Latex("{x} {y}", PRODUCT, (PRODUCT, PRODUCT), Form.MATRIX_PRODUCT),
    samples=tuple(
        Sample(shapes, (ANY, ANY))
        for shapes in (
            ((2, 3), (3, 4)),
            ((3,), (3,)),
            ((2, 3), (3,)),
            ((3,), (3, 2)),
            ((2, 2, 3), (3, 1)),
            ((2, 2, 3), (3,)),
            ((2, 1, 3), (2, 3, 2)),
            ((2, 1, 2, 3), (3, 2)),
            ((2, 1, 2, 3), (2, 1, 3, 2)),
            ((2, 0), (0, 3)),
        )
    ),
    python=operator_of("x @ y"),
)


def _is_for_blas(x: np.ndarray) -> bool:
    """Whether BLAS can read the last two axes as they lie, as they are or transposed."""
    (m, n), (down, right) = x.shape[-2:], x.strides[-2:]
    item = x.itemsize
    return (right == item and down >= n * item) or (down == item and right >= m * item)


def _copied_for_blas(*operands: np.ndarray) -> int:
    """What NumPy's matmul copies for BLAS: of each operand one matrix, if it lies otherwise."""
    if any(one.ndim < 2 or not one.size or 1 in one.shape[-2:] for one in operands):
        return 0  # products of vectors read strides, or are loops
    return sum(
        one.itemsize * one.shape[-2] * one.shape[-1]
        for one in operands
        if one.dtype in BLAS_DTYPES and not _is_for_blas(one)
    )


def _labelled(x: ArrayType, axes: tuple[int, ...], found: dict[int, int | Size]) -> None:
    if len(axes) != x.ndim or len(set(axes)) != len(axes):
        raise TypeError(f"{axes} does not label the axes of {x} once each")
    for label, size in zip(axes, x.shape, strict=True):
        if found.setdefault(label, size) != size:
            raise TypeError(f"axis {label} is {found[label]} and {size} long")


def _contract_type(
    x: ArrayType, y: ArrayType, *, x_axes: tuple, y_axes: tuple, out_axes: tuple
) -> ArrayType:
    found: dict[int, int | Size] = {}
    _labelled(x, x_axes, found)
    _labelled(y, y_axes, found)
    both = set(x_axes) & set(y_axes)
    if x.dtype != y.dtype or not set(found) - both <= set(out_axes) <= set(found):
        raise TypeError(f"cannot contract {x} over {x_axes} with {y} over {y_axes}")
    return array_type(x.dtype, tuple(found[label] for label in out_axes))


def _contract_flops(out: Node) -> int | Size:
    total: int | Size = 2
    seen: set[int] = set()
    for node, key in zip(out.inputs, ("x_axes", "y_axes"), strict=True):
        for label, size in zip(out.param(key), node.type.shape, strict=True):
            if label not in seen:
                seen.add(label)
                total = total * size
    return total


def _contract_batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    x_axes, y_axes = out.param("x_axes"), out.param("y_axes")
    new = max((*x_axes, *y_axes), default=-1) + 1
    return contract(
        *inputs,
        x_axes=(new, *x_axes) if batched[0] else x_axes,
        y_axes=(new, *y_axes) if batched[1] else y_axes,
        out_axes=(new, *out.param("out_axes")),
    )


def _as_stack(xp: Any, x: Any, axes: tuple[int, ...], *groups: list[int]) -> Any:
    """x as a stack of matrices: one axis for the labels of each group."""
    x = xp.transpose(x, [axes.index(label) for group in groups for label in group])
    lengths = iter(x.shape)
    return xp.reshape(x, [math.prod(next(lengths) for _ in group) for group in groups])


def _groups(x_axes: tuple, y_axes: tuple, out_axes: tuple) -> tuple[list[int], ...]:
    """The labels of both and of the result, of x alone, of both alone, of y alone."""
    both = [label for label in x_axes if label in y_axes]
    return (
        [label for label in both if label in out_axes],
        [label for label in x_axes if label not in y_axes],
        [label for label in both if label not in out_axes],
        [label for label in y_axes if label not in x_axes],
    )


def _contract(xp: Any, x: Any, y: Any, *, x_axes: tuple, y_axes: tuple, out_axes: tuple) -> Any:
    stack, rows, inner, columns = _groups(x_axes, y_axes, out_axes)
    left = _as_stack(xp, x, x_axes, stack, rows, inner)
    right = _as_stack(xp, y, y_axes, stack, inner, columns)
    size = {**dict(zip(x_axes, x.shape, strict=True)), **dict(zip(y_axes, y.shape, strict=True))}
    made = (*stack, *rows, *columns)
    product = xp.reshape(xp.matmul(left, right), [size[label] for label in made])
    return xp.transpose(product, [made.index(label) for label in out_axes])


def _contract_scratch(out: Node, x: np.ndarray, y: np.ndarray) -> int:
    # A copy of each operand that is no stack of matrices as it lies in memory.
    return sum(
        one.nbytes
        for one, view in zip((x, y), _stack_views(out, x, y), strict=True)
        if view is None
    )


def _stack_views(out: Node, x: np.ndarray, y: np.ndarray) -> list[np.ndarray | None]:
    """Both as stacks of matrices, None where that takes a copy."""
    x_axes, y_axes = out.param("x_axes"), out.param("y_axes")
    stack, rows, inner, columns = _groups(x_axes, y_axes, out.param("out_axes"))
    found: list[np.ndarray | None] = []
    for operand, axes, groups in ((x, x_axes, (rows, inner)), (y, y_axes, (inner, columns))):
        try:
            found.append(_as_stack(VIEWS, operand, axes, stack, *groups))
        except ValueError:
            found.append(None)
    return found


def _contract_copied(out: Node, x: np.ndarray, y: np.ndarray) -> int:
    # Copies that are stacks already lie as BLAS wants them.
    return _copied_for_blas(*[one for one in _stack_views(out, x, y) if one is not None])


def _stack_python(
    writing: Writing, x: Written, node: Node, axes: tuple[int, ...], *groups: list[int]
) -> str:
    """As `_as_stack`, without an axis for a first group that is empty."""
    order = [axes.index(label) for group in groups for label in group]
    groups = groups if groups[0] else groups[1:]
    lengths = iter([node.type.shape[axis] for axis in order])
    shape = tuple(sizes.product(tuple(next(lengths) for _ in group)) for group in groups)
    text = x.within(ATOM)
    if order != sorted(order):
        reverse = order == sorted(order, reverse=True)
        text += ".T" if reverse else f".transpose({', '.join(map(str, order))})"
    if shape != tuple(node.type.shape[axis] for axis in order):
        text += f".reshape({', '.join(map(writing.size, shape))})"
    return text


def _contract_python(out: Node, writing: Writing, x: Written, y: Written) -> Written:
    x_axes, y_axes, out_axes = (out.param(key) for key in ("x_axes", "y_axes", "out_axes"))
    stack, rows, inner, columns = _groups(x_axes, y_axes, out_axes)
    left = _stack_python(writing, x, out.inputs[0], x_axes, stack, rows, inner)
    right = _stack_python(writing, y, out.inputs[1], y_axes, stack, inner, columns)
    product = Written(f"{left} @ {right}", PRODUCT)
    made = (*stack, *rows, *columns)
    if (min(1, len(stack)), len(rows), len(columns)) != (len(stack), 1, 1):
        shape = [out.type.shape[out_axes.index(label)] for label in made]
        shown = ", ".join(map(writing.size, shape)) or "()"
        product = Written(f"({product.text}).reshape({shown})")
    order = [made.index(label) for label in out_axes]
    if order == sorted(order):
        return product
    reverse = order == sorted(order, reverse=True)
    last = ".T" if reverse else f".transpose({', '.join(map(str, order))})"
    return Written(product.within(ATOM) + last)


def _contract_independent(out: Node) -> tuple[Cut, ...]:
    """What both have and the result, too: where one is needed whole, each piece would copy it."""
    x_axes, y_axes = out.param("x_axes"), out.param("y_axes")
    return tuple(
        [
            (axis, (x_axes.index(label), y_axes.index(label)))
            for axis, label in enumerate(out.param("out_axes"))
            if label in x_axes and label in y_axes
        ]
    )


contract = Primitive(
    name="contract",
    doc="The sum of products over the axes that x and y share and the result lacks.",
    inputs=("x", "y"),
    result_type=_contract_type,
    evaluate=_contract,
    scratch=_contract_scratch,
    library_bytes=_contract_copied,
    independent=_contract_independent,
    derivative=Multilinear(
        (
            lambda g, out, x, y: contract(
                g,
                y,
                x_axes=out.param("out_axes"),
                y_axes=out.param("y_axes"),
                out_axes=out.param("x_axes"),
            ),
            lambda g, out, x, y: contract(
                g,
                x,
                x_axes=out.param("out_axes"),
                y_axes=out.param("x_axes"),
                out_axes=out.param("y_axes"),
            ),
        )
    ),
    batch=_contract_batch,
    kernel=Contract(),
    flops=_contract_flops,
    latex=Latex(r"{x} \cdot {y}", PRODUCT, (ATOM, ATOM), Form.CONTRACTION),
    samples=(
        Sample(
            ((2,), (3,)), (ANY, ANY), (("out_axes", (0, 1)), ("x_axes", (0,)), ("y_axes", (1,)))
        ),
        Sample(
            ((2, 3, 4), (4, 2)),
            (ANY, ANY),
            (("out_axes", (1, 0)), ("x_axes", (0, 1, 2)), ("y_axes", (2, 0))),
        ),
        Sample(
            ((2, 3), (2, 3)),
            (ANY, ANY),
            (("out_axes", ()), ("x_axes", (0, 1)), ("y_axes", (0, 1))),
        ),
        Sample(((0,), (0,)), (ANY, ANY), (("out_axes", (0,)), ("x_axes", (0,)), ("y_axes", (0,)))),
    ),
    python=Python(_contract_python, noun="product"),
)


PRODUCTS = (matmul, contract)
