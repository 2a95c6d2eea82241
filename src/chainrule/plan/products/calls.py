"""How each product of a sum is computed: which copies come first, in tiles or by BLAS."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from math import prod

import numpy as np

from chainrule.dataclass import dataclass, replace
from chainrule.graph.dtypes import is_bfloat16
from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.plan.loops.access import address, natural
from chainrule.plan.loops.addresses import axis_by_axis, place_in_memory
from chainrule.plan.loops.fuse import Nest
from chainrule.plan.loops.loop_work import Builder, LoopNest, NotAffineError, Store
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.products.contraction import (
    Copy,
    Gemm,
    Operand,
    labels_of,
    plan_contraction,
    with_matrices,
    with_vectors,
)
from chainrule.plan.products.fold import Coefficient
from chainrule.plan.products.tiles import COLUMNS, Narrow, Tiles, tiles_for
from chainrule.plan.products.windowed import windowed_gemm, windowed_tiles
from chainrule.plan.products.winograd import Winograd, winograd
from chainrule.plan.roles import Role, is_widening
from chainrule.plan.sharing import Sharing, product_nanoseconds, sharing
from chainrule.primitives.affine import row_major
from chainrule.primitives.sources import full
from chainrule.schedule.records import aligned

Strides = tuple[int, ...]
_NARROW: Mapping[tuple[bool, bool], Narrow] = {
    (False, False): "",
    (True, False): "a",
    (False, True): "b",
    (True, True): "ab",
}


@dataclass(frozen=True, eq=False)
class Matrix:
    """An operand of a product: the value in memory, and its first element's place in its array.

    `pack` is the nest that first copies it into the workspace, where it is then read.
    """

    node: Node
    offset: int
    pack: NestLayout | None = None
    pack_offset: int = 0

    @property
    def dtype(self) -> np.dtype:
        """Of the elements that the product reads."""
        return self.node.dtype if self.pack is None else self.pack.nest.stores[0].node.dtype


@dataclass(frozen=True, eq=False)
class Call:
    """One matrix product: alpha x y + beta out.

    With `tiles` it is computed here, and each of the threads that share it packs panels at an
    offset of its own from `work_offset` on in the workspace; else BLAS does it, or plain loops.
    With `winograd` it has fewer multiplications than `gemm`, and from there on in the workspace is
    what threads share, then what each has.
    """

    gemm: Gemm
    x: Matrix
    y: Matrix
    alpha: Coefficient
    sharing: Sharing
    tiles: Tiles | None = None
    winograd: Winograd | None = None
    work_offset: int = 0

    @property
    def parts(self) -> int:
        """In how many parts it is cut: tiles in more than there are threads."""
        threads = self.sharing.parts
        if self.winograd is not None:
            return max(parts for _, parts in self.winograd.phases(threads))
        if threads == 1 or self.tiles is None:
            return threads
        return self.tiles.parts(self.gemm, self.sharing.nanoseconds, threads)

    @property
    def by_routine(self) -> bool:
        """Whether BLAS does it, or plain loops."""
        return self.tiles is None and self.winograd is None

    @property
    def packs(self) -> list[NestLayout]:
        """The nests that copy operands before."""
        return [one.pack for one in (self.x, self.y) if one.pack is not None]

    @property
    def narrow(self) -> Narrow:
        """Those of A and B that are bfloat16 in memory."""
        matrices = (self.x, self.y) if self.gemm.a_is_x else (self.y, self.x)
        a, b = (is_bfloat16(one.dtype) for one in matrices)
        return _NARROW[a, b]


@dataclass(frozen=True)
class Multiplying:
    """Makes calls; the fields as in `Worker`, whose `layout` makes nests ready for code."""

    roles: Mapping[Node, Role]
    strides: Mapping[Node, Strides]
    threads: int
    vector_nbytes: int
    multiplies_pairs: bool
    blas_from: float
    layout: Callable[[LoopNest], NestLayout]

    def call(
        self, term: Node, alpha: Coefficient, out_strides: Strides, available: set[Node]
    ) -> tuple[Call, int]:
        """The call, and the bytes of workspace that it takes.

        NotAffineError where an operand does not lie as a matrix can.
        """
        own, other, kept, sizes = labels_of(term)
        shown = [self._matrix(one, available) for one in term.inputs]
        found, workspace = [matrix for matrix, _ in shown], 0
        labelled = zip((own, other), (strides for _, strides in shown), strict=True)
        operands = [Operand(*one) for one in labelled]
        out, width = Operand(kept, out_strides), self.vector_nbytes
        windowed = windowed_gemm(operands[0], operands[1], out, sizes, term.dtype, width)
        if windowed is not None and not self._are_narrow(found):
            fewer = winograd(operands[0], operands[1], out, sizes, term.dtype, width)
            if fewer is not None:
                return self._by_winograd(
                    Call(windowed, found[0], found[1], alpha, sharing(0, 1)), fewer
                )
        while True:
            nanoseconds = with_matrices if self._are_narrow(found) else with_vectors
            gemm = windowed or plan_contraction(operands[0], operands[1], out, sizes, nanoseconds)
            if isinstance(gemm, Copy):
                place, order = 0 if gemm.which == "x" else 1, gemm.order
            else:
                place = self._unreadable(gemm, found)
                if place is None:
                    break
                order = _as_it_lies(operands[place], sizes)
            source = term.inputs[place] if self._by_blas else narrowed(term.inputs[place])
            packed, operands[place], nbytes = self._packed(
                source, operands[place].labels, order, sizes, available
            )
            found[place] = Matrix(found[place].node, 0, packed, workspace)
            workspace += nbytes
        call = self._tiled(Call(gemm, found[0], found[1], alpha, sharing(0, 1)), term.dtype)
        call = replace(call, work_offset=workspace)
        if call.tiles is not None:
            nbytes = aligned(call.tiles.packed_nbytes(term.dtype.itemsize))
            workspace += call.sharing.parts * nbytes
        return call, workspace

    def _by_winograd(self, call: Call, fewer: Winograd) -> tuple[Call, int]:
        """The call by this method, and the bytes of workspace that it takes."""
        nanoseconds = product_nanoseconds(call.gemm) * fewer.multiplications * 2 / call.gemm.flops
        decided = sharing(nanoseconds, self.threads)
        workspace = aligned(fewer.shared_nbytes) + decided.parts * aligned(fewer.own_nbytes)
        return replace(call, winograd=fewer, sharing=decided), workspace

    def _tiled(self, call: Call, dtype: np.dtype) -> Call:
        """The call with its tiles, if it has any, and the threads that share it."""
        gemm, width = call.gemm, self.vector_nbytes
        narrow = call.narrow
        pairs = narrow == "ab" and self.multiplies_pairs and not gemm.inner
        decided = sharing(product_nanoseconds(gemm) / (2 if pairs else 1), self.threads)
        tiles = None
        if gemm.inner:
            tiles = windowed_tiles(gemm, dtype, width, decided.parts, narrow)
        elif narrow or gemm.routine != "gemm" or gemm.m * gemm.n * gemm.k <= self.blas_from:
            tiles = tiles_for(gemm, dtype, width, decided.parts, narrow, pairs)
        return replace(call, sharing=decided, tiles=tiles)

    def _are_narrow(self, matrices: Sequence[Matrix]) -> bool:
        """Whether tiles multiply with vectors, too: of bfloat16, which BLAS does not read."""
        return not self._by_blas and any(is_bfloat16(one.dtype) for one in matrices)

    @property
    def _by_blas(self) -> bool:
        """Whether vectors are too short for tiles."""
        return self.vector_nbytes not in COLUMNS

    def _unreadable(self, gemm: Gemm, matrices: Sequence[Matrix]) -> int | None:
        """The operand that BLAS cannot read, where it computes the product: one of bfloat16."""
        if not self._by_blas or gemm.routine == "inline":
            return None
        return next((k for k, one in enumerate(matrices) if is_bfloat16(one.dtype)), None)

    def _matrix(self, node: Node, available: set[Node]) -> tuple[Matrix, Strides]:
        """Where the operand of a product lies, with its strides."""
        own = axis_by_axis(node.shape)
        found = place_in_memory(node, own, node.shape, self.roles, available, self.strides)
        if found is None:
            raise NotAffineError(self._scattered(node, available))
        base, place = found
        return Matrix(base, place[0]), place[1:]

    def _scattered(self, operand: Node, available: set[Node]) -> Node:
        """What must lie in memory so that the operand does, too: of a bfloat16 one, what is moved
        last before it lies nowhere, so that all who move it on read one array."""
        node = narrowed(operand)
        while node is not operand and node.inputs and self.roles[node.inputs[0]] is Role.MOVED:
            node = node.inputs[0]
            own = axis_by_axis(node.shape)
            if place_in_memory(node, own, node.shape, self.roles, available, self.strides):
                break
        return node

    def _packed(
        self,
        node: Node,
        labels: tuple[int, ...],
        order: tuple[int, ...],
        sizes: Mapping[int, int],
        available: set[Node],
    ) -> tuple[NestLayout, Operand, int]:
        """The nest that copies an operand into the workspace, with its axes in another order."""
        shape = tuple(sizes[label] for label in order)
        by_label = dict(zip(order, row_major(shape), strict=True))
        strides = tuple(by_label.get(label, 0) for label in labels)
        nest = Nest(shape[:-1], shape[-1:], self.roles, available, (), self.strides)
        builder = Builder(nest, self.roles, self.strides, available)
        own = natural(shape, builder.domain, len(builder.domain))
        assert own is not None
        first = (0,) * (len(builder.domain) + 1)
        index = dict(zip(order, own, strict=True))
        value = builder.at(node, tuple(index.get(label, first) for label in labels))
        place = address(own, row_major(shape), builder.domain)
        inner = any(place[len(nest.rows) + 1 :])
        # Not the operand itself, which the nest may read from its own array.
        copied = full(value=0, type=array_type(node.dtype, node.shape))
        store = Store(copied, value, place, place, inner)
        made = LoopNest(nest.rows, nest.columns, [store], builder.found)
        nbytes = aligned(prod(shape) * node.dtype.itemsize)
        return self.layout(made), Operand(labels, strides), nbytes


def widened(term: Node, available: Container[Node]) -> Iterator[Node]:
    """The casts that a product does of what it reads."""
    for node in term.inputs:
        while node not in available and len(node.inputs) == 1:
            if is_widening(node):
                yield node
            (node,) = node.inputs


def narrowed(operand: Node) -> Node:
    """The bfloat16 value of which the operand of a product is the cast; else the operand."""
    is_cast = is_widening(operand) and is_bfloat16(operand.inputs[0].dtype)
    return operand.inputs[0] if is_cast else operand


def _as_it_lies(operand: Operand, sizes: Mapping[int, int]) -> tuple[int, ...]:
    """Its labels as they lie in memory, without those along which it repeats."""
    own = [one for one in operand.labels if operand.stride(one) or sizes[one] == 1]
    return tuple(sorted(own, key=lambda one: -abs(operand.stride(one))))
