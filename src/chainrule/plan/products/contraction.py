"""How a sum of products over labelled axes becomes calls of BLAS on strided matrices.

Labels of x and y play one of four roles: batch (x, y, result), row (x, result), column
(y, result), inner (x, y; summed).  Axes of one role that lie like one axis in every array become
one; one row, one column and one inner axis make the matrices, what remains becomes loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import permutations, product
from math import prod
from typing import Literal

from chainrule.dataclass import dataclass, replace
from chainrule.graph.node import Node
from chainrule.primitives.affine import row_major
from chainrule.primitives.products import contract

LARGEST = 2**31 - 1  # of the integers that BLAS takes
# Scalar products up to which loops are faster than a call: 3 x 3 x 3 take 10 ns, and OpenBLAS 15
# with the kernels for small matrices of its AVX-512 cores, 57 without; 4 x 4 x 4 take 20, 16, 57.
INLINE = 32
NANOSECONDS = 0.0085  # for one scalar product in a large matrix product: 240 GFLOP/s (float32)

Labels = tuple[int, ...]
Which = Literal["x", "y"]
Nanoseconds = Callable[[int, int, int], float]  # of a call, by its sizes m, n and k


@dataclass(frozen=True)
class Operand:
    """An array with one label for each axis, and how far apart its elements are.

    Strides are in elements and of any sign; 0 (of an operand, not of the result) repeats.
    """

    labels: tuple[int, ...]
    strides: tuple[int, ...]

    def stride(self, label: int) -> int:
        """The stride of the labelled axis, 0 if there is none."""
        return self.strides[self.labels.index(label)] if label in self.labels else 0


@dataclass(frozen=True)
class Copy:
    """Make an operand contiguous, its axes in `order`, before the product.

    Batch labels that it only repeats (stride 0) are not in `order`: they stay at stride 0.
    """

    which: Which
    order: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """`size` calls, between which the matrices move on by so many elements.

    A loop that accumulates stays at one c: its first call takes beta, the others add.
    """

    size: int
    a_stride: int
    b_stride: int
    c_stride: int
    accumulates: bool


@dataclass(frozen=True)
class Gemm:
    """C (m, n) = alpha op(A) op(B) + beta C in each round of the loops, as BLAS names things.

    Matrices are column by column (element (i, j) of C at i + j ldc); op(A) is (m, k), op(B)
    (k, n); op transposes where `transa`, `transb` say so.  A is x and B is y, or the other way
    round.  Nothing is to be done where a size is 0, except k: then C = beta C.
    With `inner` axes, k is that of all of them (the last is the fastest), only rows of A (`lda`)
    and columns of B (`ldb`) are evenly apart, and only tiles do it (`windowed`).
    """

    m: int
    n: int
    k: int
    transa: bool
    transb: bool
    lda: int
    ldb: int
    ldc: int
    a_is_x: bool
    loops: tuple[Loop, ...] = ()
    inner: tuple[Loop, ...] = ()

    @property
    def has_windows(self) -> bool:
        """Whether a matrix has more elements than there are in memory."""
        axes = (*self.loops, *self.inner)
        a = [(self.m, self.lda), *((one.size, one.a_stride) for one in axes)]
        b = [(self.n, self.ldb), *((one.size, one.b_stride) for one in axes)]
        return bool(self.inner) and (overlap(a) or overlap(b))

    @property
    def calls(self) -> int:
        """How often the loops go round."""
        return prod(loop.size for loop in self.loops)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k * self.calls

    @property
    def is_empty(self) -> bool:
        """Whether the result has no elements."""
        return self.m * self.n * self.calls == 0

    @property
    def routine(self) -> Literal["gemm", "gemv", "inline"]:
        """The BLAS routine to call, or "inline" where loops are faster than any call.

        gemv takes 6.4 µs for a 256 x 784 matrix times a vector where OpenBLAS' gemm takes 147.
        """
        if self.inner:
            return "gemm"
        if self.is_empty or self.m * self.n * self.k <= INLINE:
            return "inline"
        return "gemv" if 1 in (self.m, self.n) else "gemm"


@dataclass(frozen=True)
class Axis:
    """One axis of a role, by its strides in the three arrays (0 where it is not)."""

    size: int
    x: int = 0
    y: int = 0
    out: int = 0

    def holds(self, inner: Axis) -> bool:
        """Whether this axis around the inner one lies like one axis of all their elements."""
        fits = all(
            getattr(self, array) == inner.size * getattr(inner, array)
            for array in ("x", "y", "out")
        )
        return fits and self.size * inner.size <= LARGEST


_ONE = Axis(1)


def overlap(axes: Iterable[tuple[int, int]]) -> bool:
    """Whether axes of these sizes and strides have more elements than there are in memory, but for
    what they only repeat."""
    known = [(size, abs(stride)) for size, stride in axes if stride]
    return prod(size for size, _ in known) > 1 + sum((size - 1) * stride for size, stride in known)


def labels_of(node: Node) -> tuple[Labels, Labels, Labels, dict[int, int]]:
    """The labels of x, y and the result, and the sizes, of a `matmul` or `contract` node.

    The node's graph is concrete.
    """
    x, y = node.inputs
    if node.primitive is contract:
        own, other, kept = (node.param(key) for key in ("x_axes", "y_axes", "out_axes"))
    else:
        inner, column = 0, 1
        rows = tuple(range(2, 1 + x.ndim))  # the last is the row, those before it are batch
        batch = rows[:-1] if y.ndim > 2 else ()
        columns = (column,) if y.ndim > 1 else ()
        own, other, kept = (*rows, inner), (*batch, inner, *columns), (*rows, *columns)
    sizes = dict(zip(own, x.shape, strict=True))
    sizes.update(zip(other, y.shape, strict=True))
    return own, other, kept, sizes


def contiguous(labels: Sequence[int], sizes: Mapping[int, int]) -> Operand:
    """An operand in C order."""
    return Operand(tuple(labels), row_major(tuple(sizes[label] for label in labels)))


def plan_contraction(
    x: Operand,
    y: Operand,
    out: Operand,
    sizes: Mapping[int, int],
    nanoseconds: Nanoseconds | None = None,
) -> Gemm | Copy:
    """The calls that compute the product, or the copy to make first where that is faster, by about
    the `nanoseconds` of a call (default: where BLAS multiplies with vectors).

    After a Copy ask again with the new strides: each copy makes the rest cheaper, so it ends.
    The pointers of the arrays are to their elements at index 0.
    """
    return _first(x, y, out, tuple(sizes.items()), nanoseconds or with_vectors)


@lru_cache(maxsize=1024)  # a graph has many products of few shapes
def _first(
    x: Operand,
    y: Operand,
    out: Operand,
    sizes: tuple[tuple[int, int], ...],
    nanoseconds: Nanoseconds,
) -> Gemm | Copy:
    arrays = {"x": x, "y": y, "out": out}
    return _cheapest(arrays, dict(sizes), ("x", "y"), nanoseconds)[1]


def _cheapest(
    arrays: dict[str, Operand],
    sizes: Mapping[int, int],
    may_copy: tuple[Which, ...],
    nanoseconds: Nanoseconds,
) -> tuple[float, Gemm | Copy]:
    """The nanoseconds of the best way, and the first thing to do on it."""
    roles = axes_by_role(arrays, sizes)
    batch, *others = (prod(axis.size for axis in role) for role in roles)
    best: tuple[float, Gemm | Copy] = _without_copies(roles, nanoseconds)
    if best[0] <= batch * nanoseconds(*others):
        return best
    # No plan takes less than this.  A bound that is too high would prune the way that a copy was
    # made for, and the copy would be asked for again and again.
    least = NANOSECONDS * prod((batch, *others))
    for which in may_copy:
        rest: tuple[Which, ...] = tuple(one for one in may_copy if one != which)
        for order in _orders(which, arrays, sizes):
            copied = contiguous(order, sizes)
            # About 1 ns for an element (measured: 0.2 to 6), and 4 for each row of the copy.
            elements = prod(sizes[label] for label in order)
            cost = 100.0 + elements * (1 + 4 / _row_length(order, arrays[which], sizes))
            if cost + least < best[0] and copied != arrays[which]:
                total = cost + _cheapest({**arrays, which: copied}, sizes, rest, nanoseconds)[0]
                best = min(best, (total, Copy(which, order)), key=lambda way: way[0])
    return best


def _row_length(order: Labels, array: Operand, sizes: Mapping[int, int]) -> int:
    """How many elements the innermost loop of a copy in this order takes."""
    length, step = 1, None
    for label in reversed(order):
        if sizes[label] != 1:
            if step is not None and array.stride(label) != step:
                break
            length *= sizes[label]
            step = array.stride(label) * sizes[label]
    return max(length, 1)


def _orders(
    which: Which, arrays: Mapping[str, Operand], sizes: Mapping[int, int]
) -> Iterator[tuple[int, ...]]:
    """The two orders of axes worth a copy: batch, then the axes shared with one array in its
    order, then those shared with the other, or these two exchanged."""
    array = arrays[which]
    first, second = (one for name, one in arrays.items() if name != which)

    def ordered(labels: set[int], by: Operand) -> tuple[int, ...]:
        return tuple(sorted(labels, key=lambda label: (-abs(by.stride(label)), label)))

    own, both = set(array.labels), set(first.labels) & set(second.labels)
    repeated = {label for label in own & both if array.stride(label) == 0 and sizes[label] > 1}
    batch = ordered((own & both) - repeated, second)
    left = ordered((own & set(first.labels)) - both, first)
    right = ordered(own - set(first.labels), second)
    yield (*batch, *left, *right)
    yield (*batch, *right, *left)


def axes_by_role(arrays: Mapping[str, Operand], sizes: Mapping[int, int]) -> list[list[Axis]]:
    """The batch, row, column and inner axes, merged where all arrays allow it."""
    x, y, out = arrays["x"], arrays["y"], arrays["out"]
    roles: list[list[Axis]] = [[], [], [], []]
    empty = any(sizes[label] == 0 for label in x.labels if label not in out.labels)
    for label in dict.fromkeys((*out.labels, *x.labels)):
        axis = Axis(sizes[label], x.stride(label), y.stride(label), out.stride(label))
        if empty:  # x and y have no elements, and how far apart those lie means nothing
            axis = replace(axis, x=0, y=0)
        if label not in out.labels:
            role = 3
        elif not axis.y:
            role = 1  # y lacks it, or repeats one matrix for each batch: a further row
        elif not axis.x:
            role = 2
        else:
            role = 0
        if axis.size != 1:
            roles[role].append(axis)
    if empty:
        roles[3] = [Axis(0)]
    return [_merged(role) for role in roles]


def _merged(axes: list[Axis]) -> list[Axis]:
    for outer, inner in permutations(axes, 2):
        if outer.size and inner.size and outer.holds(inner):
            rest = [axis for axis in axes if axis is not outer and axis is not inner]
            return _merged([*rest, replace(inner, size=outer.size * inner.size)])
    return axes


def _without_copies(roles: list[list[Axis]], nanoseconds: Nanoseconds) -> tuple[float, Gemm]:
    """The nanoseconds of the best choice of one row, column and inner axis for the matrices."""
    batch, *others = roles
    found = []
    for row, column, inner in product(*([*role, _ONE] for role in others)):
        gemm = _oriented(row, column, inner)
        if gemm is None or (Axis(0) in others[2] and inner is _ONE):
            continue
        chosen = row, column, inner
        rest = [axis for role in others for axis in role if not any(axis is one for one in chosen)]
        loops = tuple(
            Loop(axis.size, *by_matrix(gemm, axis), accumulates=axis.out == 0)
            for axis in sorted((*batch, *rest), key=lambda axis: axis.out == 0)
        )
        cost = prod(loop.size for loop in loops) * nanoseconds(gemm.m, gemm.n, gemm.k)
        found.append((cost, replace(gemm, loops=loops)))
    return min(found, key=lambda way: way[0])


def by_matrix(gemm: Gemm, axis: Axis) -> tuple[int, int, int]:
    a, b = (axis.x, axis.y) if gemm.a_is_x else (axis.y, axis.x)
    return a, b, axis.out


def _oriented(row: Axis, column: Axis, inner: Axis) -> Gemm | None:
    """One call of these axes; None where a matrix does not lie as BLAS asks."""
    if max(row.size, column.size, inner.size) > LARGEST:
        return None
    for a_is_x in (False, True):
        first, second = (row, column) if a_is_x else (column, row)
        a, b = ("x", "y") if a_is_x else ("y", "x")
        ldc = _leading(first, second, "out")
        for_a = _form(first, inner, a)
        for_b = _form(inner, second, b)
        if ldc and for_a and for_b:
            (transa, lda), (transb, ldb) = for_a, for_b
            sizes = first.size, second.size, inner.size
            return Gemm(*sizes, transa, transb, lda, ldb, ldc, a_is_x)
    return None


def _form(down: Axis, across: Axis, array: str) -> tuple[bool, int] | None:
    """Whether the (down, across) matrix lies transposed, and its leading dimension."""
    # Where both would do, the one with a long column: a vector is a column, not a row.
    forms = [(False, down, across), (True, across, down)]
    for transposed, unit, other in sorted(forms, key=lambda form: form[1].size == 1):
        leading = _leading(unit, other, array)
        if leading:
            return transposed, leading
    return None


def _leading(unit: Axis, other: Axis, array: str) -> int | None:
    """The leading dimension of a matrix whose columns run along `unit`; None if it cannot be one.

    BLAS asks for unit stride in a column, and for columns at least a column's length apart.
    """
    if 0 in (unit.size, other.size):
        return max(1, unit.size)
    if unit.size != 1 and getattr(unit, array) != 1:
        return None
    if other.size == 1:
        return unit.size
    stride = getattr(other, array)
    return stride if unit.size <= stride <= LARGEST else None


def with_vectors(m: int, n: int, k: int) -> float:
    """About what one call takes, of any dtype; only its order of magnitude matters."""
    if 1 in (m, n) and m * n * k > INLINE:
        return 60.0 + 0.08 * m * n * k
    return with_matrices(m, n, k)


def with_matrices(m: int, n: int, k: int) -> float:
    """The same where vectors are matrices of one column.

    Thin matrices reach a third of the speed of large ones, as measured.
    """
    if m * n * k <= INLINE:
        return 2.0 + 2.0 * m * n + m * n * k
    return 50.0 + 0.1 * (m * k + k * n + m * n) + NANOSECONDS * (m + 16) * (n + 16) * k
