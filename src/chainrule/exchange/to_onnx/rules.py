"""How each kind of primitive is written, beside the elementwise ones."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.exchange.to_onnx.convolutions import convolution
from chainrule.exchange.to_onnx.expressions import Refused
from chainrule.exchange.to_onnx.fourier import FOURIER
from chainrule.exchange.to_onnx.writer import INT64, Writer
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.sources import is_uniform
from chainrule.primitives.windows import windows as all_windows

Rule = Callable[..., str]


def is_late(node: Node) -> bool:
    """Whether a node is written only where another reads it whole: uniform arrays and windows."""
    return is_uniform(node) or node.primitive is all_windows


def value_of(writer: Writer, node: Node) -> str:
    """The value of a node that is written, or of one that is late, which then is."""
    if node not in writer.value_of:
        assert is_late(node)
        operands = [value_of(writer, one) for one in node.inputs]
        writer.value_of[node] = RULES[node.primitive.name](writer, node, *operands)
    return writer.value_of[node]


def full(writer: Writer, out: Node) -> str:
    value = np.asarray(out.param("value"), out.dtype)
    if not out.ndim:
        return writer.constant(value)
    return writer.emit("Expand", writer.constant(value), writer.shape(out.shape))


def constant(writer: Writer, out: Node) -> str:
    held = out.param("value")
    return writer.constant(np.asarray(held.array, out.dtype), held.name or "constant")


def iota(writer: Writer, out: Node) -> str:
    found = writer.positions(0, 1, out.shape[0])
    return found if out.dtype == INT64 else writer.cast(found, out.dtype)


def size_value(writer: Writer, out: Node) -> str:
    scalar = writer.constant(np.array([], np.int64))
    found = writer.emit("Reshape", writer.size(out.param("size")), scalar, allowzero=1)
    return found if out.dtype == INT64 else writer.cast(found, out.dtype)


def cast(writer: Writer, out: Node, x: str) -> str:
    return writer.cast(x, out.dtype)


def reshape(writer: Writer, out: Node, x: str) -> str:
    return writer.reshape(x, out.shape)


def transpose(writer: Writer, out: Node, x: str) -> str:
    if not out.ndim:
        return writer.emit("Identity", x)
    return writer.emit("Transpose", x, perm=list(out.param("permutation")))


def broadcast_to(writer: Writer, out: Node, x: str) -> str:
    return writer.emit("Expand", x, writer.shape(out.shape))


def slice_(writer: Writer, out: Node, x: str) -> str:
    start, step, shape = (out.param(key) for key in ("start", "step", "shape"))
    old = out.inputs[0].shape
    cut = [i for i in range(out.ndim) if not (step[i] == 1 and shape[i] == old[i])]
    forth = [i for i in cut if step[i] > 0]
    for axis in cut:
        if step[axis] < 0:
            places = writer.positions(start[axis], step[axis], shape[axis])
            x = writer.emit("Gather", x, places, axis=axis)
    if forth:
        ends = [start[i] + step[i] * shape[i] for i in forth]
        firsts = writer.shape([start[i] for i in forth])
        axes = writer.constant(np.array(forth, np.int64))
        steps = writer.constant(np.array([step[i] for i in forth], np.int64))
        x = writer.emit("Slice", x, firsts, writer.shape(ends), axes, steps)
    return x


def pad(writer: Writer, out: Node, x: str) -> str:
    start, step, shape = (out.param(key) for key in ("start", "step", "shape"))
    have: list[Any] = list(out.inputs[0].shape)
    plain = [i for i in range(out.ndim) if step[i] == 1]
    for axis in range(out.ndim):
        if step[axis] != 1:
            places = writer.positions(start[axis], step[axis], have[axis])
            x = _scattered(writer, x, have, axis, places, shape[axis], out.dtype)
            have[axis] = shape[axis]
    before = [start[i] if i in plain else 0 for i in range(out.ndim)]
    after = [shape[i] - start[i] - have[i] if i in plain else 0 for i in range(out.ndim)]
    if all(not isinstance(one, Size) and one == 0 for one in (*before, *after)):
        return x
    if out.dtype == np.bool_:
        x = writer.cast(x, np.dtype(np.int32))
        zero = writer.constant(np.int32(0))
        found = writer.emit("Pad", x, writer.shape([*before, *after]), zero)
        return writer.cast(found, out.dtype)
    return writer.emit("Pad", x, writer.shape([*before, *after]))


def _added(writer: Writer, zeros: str, index: str, rows: str, dtype: np.dtype) -> str:
    """The rows added up at their places; for float16 in float32, for which there are kernels."""
    if dtype != np.float16:
        return writer.emit("ScatterND", zeros, index, rows, reduction="add")
    wide = [writer.cast(one, np.dtype(np.float32)) for one in (zeros, rows)]
    return writer.cast(_added(writer, wide[0], index, wide[1], np.dtype(np.float32)), dtype)


def _scattered(
    writer: Writer, x: str, shape: list[Any], axis: int, places: str, length: Any, dtype: np.dtype
) -> str:
    """Zeros along an axis of `length`, to which the rows of x are added at `places`."""
    order = [axis, *[i for i in range(len(shape)) if i != axis]]
    rows = writer.transpose(x, order)
    index = writer.emit("Unsqueeze", places, writer.constant(np.array([-1], np.int64)))
    zeros = writer.zeros([length, *[shape[i] for i in order[1:]]], dtype)
    filled = _added(writer, zeros, index, rows, dtype)
    return writer.transpose(filled, np.argsort(order).tolist())


def identity(mark: str) -> Rule:
    """`Identity` with a note, by which `from_onnx` knows what derivative it has."""
    return lambda writer, out, x, *others: writer.emit("Identity", x, doc_string=mark)


def concatenate(writer: Writer, out: Node, *parts: str) -> str:
    return writer.emit("Concat", *parts, axis=out.param("axis"))


def in_int64(rule: Rule, ordered: bool = False) -> Rule:
    """A rule for whose operator runtimes have no kernels of other integers than int32 and int64."""

    def widened(writer: Writer, out: Node, *operands: str) -> str:
        dtypes = [one.dtype for one in out.inputs]
        if dtype_kind(dtypes[0]) == "f" or dtypes[0] in (INT64, np.int32):
            return rule(writer, out, *operands)
        if ordered and dtypes[0] == np.uint64:
            raise Refused("uint64")
        found = rule(writer, out, *[writer.cast(one, INT64) for one in operands])
        return found if out.dtype == INT64 else writer.cast(found, out.dtype)

    return widened


def fold(operator: str) -> Rule:
    """A reduction over axes, of which there may be none."""

    def rule(writer: Writer, out: Node, x: str) -> str:
        axes = out.param("axes")
        if not axes:
            return writer.emit("Identity", x)
        over = writer.constant(np.array(axes, np.int64))
        return writer.emit(operator, x, over, keepdims=0)

    return rule


def any_(writer: Writer, out: Node, x: str) -> str:
    """Whether the sum of ones is not 0: that of nothing is."""
    axes = out.param("axes")
    if not axes:
        return writer.emit("Identity", x)
    over = writer.constant(np.array(axes, np.int64))
    count = writer.emit("ReduceSum", writer.cast(x, np.dtype(np.int32)), over, keepdims=0)
    return writer.cast(count, out.dtype)


def all_(writer: Writer, out: Node, x: str) -> str:
    return writer.emit("Not", any_(writer, out, writer.emit("Not", x)))


def position(operator: str) -> Rule:
    def rule(writer: Writer, out: Node, x: str) -> str:
        found = writer.emit(operator, x, axis=out.param("axis"), keepdims=0)
        return found if out.dtype == INT64 else writer.cast(found, out.dtype)

    return rule


def cumsum(writer: Writer, out: Node, x: str) -> str:
    axis = writer.constant(np.int64(out.param("axis")))
    return writer.emit("CumSum", x, axis, reverse=int(out.param("reverse")))


def argsort(writer: Writer, out: Node, x: str) -> str:
    """All elements by size, the first of equal ones first."""
    axis = out.param("axis")
    count = writer.size(out.shape[axis])
    _, order = writer.several("TopK", [x, count], 2, axis=axis, largest=0, sorted=1)
    return order if out.dtype == INT64 else writer.cast(order, out.dtype)


def gather(writer: Writer, out: Node, x: str, *indices: str) -> str:
    if len(indices) == 1:
        return writer.emit("Gather", x, indices[0], axis=0)
    return writer.emit("GatherND", x, _together(writer, out, indices))


def _together(writer: Writer, out: Node, indices: tuple[str, ...]) -> str:
    """Index arrays side by side, as the last axis."""
    nodes = out.inputs[1:]
    wide = [
        one if node.dtype == INT64 else writer.cast(one, INT64)
        for one, node in zip(indices, nodes, strict=True)
    ]
    last = writer.constant(np.array([-1], np.int64))
    columns = [writer.emit("Unsqueeze", one, last) for one in wide]
    return columns[0] if len(columns) == 1 else writer.emit("Concat", *columns, axis=-1)


def scatter_add(writer: Writer, out: Node, updates: str, *indices: str) -> str:
    zeros = writer.zeros(out.shape, out.dtype)
    together = _together(writer, out, indices)
    return _added(writer, zeros, together, updates, out.dtype)


def matmul(writer: Writer, out: Node, x: str, y: str) -> str:
    """Vectors as matrices of one row or column: onnxruntime (1.32) fuses `MatMul` of a transposed
    matrix and a vector into a product with the matrix as it was."""
    left, right = out.inputs
    away = []
    if left.ndim == 1:
        x = writer.emit("Unsqueeze", x, writer.constant(np.array([0], np.int64)))
        away.append(-2 if right.ndim > 1 else -1)
    if right.ndim == 1:
        y = writer.emit("Unsqueeze", y, writer.constant(np.array([1], np.int64)))
        away.append(-1 if left.ndim > 1 else -2)
    found = writer.emit("MatMul", x, y)
    if not away:
        return found
    return writer.emit("Squeeze", found, writer.constant(np.array(away, np.int64)))


def contract(writer: Writer, out: Node) -> str:
    """A convolution, whose windows then nobody writes; else a sum of products over axes."""
    found = convolution(writer, out)
    if found is not None:
        return found
    return in_int64(_einsum)(writer, out, *[value_of(writer, one) for one in out.inputs])


def _einsum(writer: Writer, out: Node, x: str, y: str) -> str:
    letters = string.ascii_letters
    parts = [
        "".join(letters[one] for one in out.param(key)) for key in ("x_axes", "y_axes", "out_axes")
    ]
    return writer.emit("Einsum", x, y, equation=f"{parts[0]},{parts[1]}->{parts[2]}")


def _places(writer: Writer, count: Any, window: int, stride: int, dilation: int) -> str:
    """For each position the elements of its window: (positions, window)."""
    starts = writer.positions(0, stride, count)
    inner = writer.constant(dilation * np.arange(window, dtype=np.int64))
    last = writer.constant(np.array([-1], np.int64))
    return writer.emit("Add", writer.emit("Unsqueeze", starts, last), inner)


def windows(writer: Writer, out: Node, x: str) -> str:
    """Each axis gathers its windows; then the places in windows go to the end."""
    window, stride, dilation = (out.param(key) for key in ("window", "stride", "dilation"))
    count = len(window)
    first = out.inputs[0].ndim - count
    for i in reversed(range(count)):
        index = _places(writer, out.shape[first + i], window[i], stride[i], dilation[i])
        x = writer.emit("Gather", x, index, axis=first + i)
    order = [
        *range(first),
        *[first + 2 * i for i in range(count)],
        *[first + 2 * i + 1 for i in range(count)],
    ]
    return writer.transpose(x, order)


def fold_windows(writer: Writer, out: Node, g: str) -> str:
    """The adjoint of `windows`, one axis after another."""
    stride, dilation, shape = (out.param(key) for key in ("stride", "dilation", "shape"))
    source = out.inputs[0]
    count = len(stride)
    first = source.ndim - 2 * count
    have: list[Any] = list(source.shape)
    for i in range(count):  # the first of the windows' axes is that of axis i
        at, place = first + i, first + count
        order = [at, place, *[k for k in range(len(have)) if k not in (at, place)]]
        rows = writer.transpose(g, order)
        index = _places(writer, have[at], have[place], stride[i], dilation[i])
        index = writer.emit("Unsqueeze", index, writer.constant(np.array([-1], np.int64)))
        rest = [have[k] for k in order[2:]]
        zeros = writer.zeros([shape[at], *rest], out.dtype)
        filled = _added(writer, zeros, index, rows, out.dtype)
        axes = list(range(1, len(rest) + 1))
        g = writer.transpose(filled, [*axes[:at], 0, *axes[at:]])
        have = [*rest[:at], shape[at], *rest[at:]]
    return g


def det(writer: Writer, out: Node, x: str) -> str:
    return writer.emit("Det", x)


def searchsorted(writer: Writer, out: Node, a: str, v: str) -> str:
    """How many elements of a are less than v, or not greater; NaN comes after all numbers."""
    last = writer.constant(np.array([-1], np.int64))
    wide = writer.emit("Unsqueeze", v, last)
    is_left = out.param("side") == "left"
    found = writer.emit("Less" if is_left else "LessOrEqual", a, wide)
    if dtype_kind(out.inputs[1].dtype) == "f":
        beyond = writer.emit("IsNaN", wide)
        if is_left:
            beyond = writer.emit("And", beyond, writer.emit("Not", writer.emit("IsNaN", a)))
        found = writer.emit("Or", found, beyond)
    return writer.emit("ReduceSum", writer.cast(found, INT64), last, keepdims=0)


# Rules that read their operands themselves.
READING = frozenset({"contract"})

RULES: dict[str, Rule] = {
    **FOURIER,
    "all": all_,
    "any": any_,
    "argmax": in_int64(position("ArgMax"), ordered=True),
    "argmin": in_int64(position("ArgMin"), ordered=True),
    "argsort": in_int64(argsort, ordered=True),
    "broadcast_to": broadcast_to,
    "cast": cast,
    "concatenate": concatenate,
    "constant": constant,
    "contract": contract,
    "cumsum": in_int64(cumsum),
    "custom_derivative": identity("custom_derivative"),
    "det": det,
    "fold_windows": fold_windows,
    "full": full,
    "gather": gather,
    "iota": iota,
    "matmul": in_int64(matmul),
    "max": in_int64(fold("ReduceMax"), ordered=True),
    "min": in_int64(fold("ReduceMin"), ordered=True),
    "pad": pad,
    "prod": in_int64(fold("ReduceProd")),
    "reshape": reshape,
    "scatter_add": scatter_add,
    "searchsorted": in_int64(searchsorted, ordered=True),
    "size_value": size_value,
    "stop_gradient": identity("stop_gradient"),
    "slice": slice_,
    "sum": in_int64(fold("ReduceSum")),
    "transpose": transpose,
    "windows": windows,
}
