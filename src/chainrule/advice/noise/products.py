"""Writes the squared norm of one example's gradient without the gradient, where that is cheaper.

A gradient by a matrix is a sum of outer products of a layer's input and its cotangent, one for each
place (of a sequence, or of an image): Σ_k a_k b_kᵀ.  Its square is Σ_kl ⟨a_k, a_l⟩⟨b_k, b_l⟩, which
takes |k|²(|a| + |b|) operations in place of |k||a||b|.  For one place it is ‖a‖²‖b‖² (Goodfellow
2015).  Where a parameter is used twice, so are products of one term with the other; of an
embedding, a_k is a one-hot row, and ⟨a_k, a_l⟩ says whether two places have the same word.
"""

from __future__ import annotations

from itertools import count
from math import prod
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.devices.tensor.rules import labels_of
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import add, multiply
from chainrule.primitives.indexing import gather, scatter_add
from chainrule.primitives.logic import cast, equal, less, logical_and, where
from chainrule.primitives.movement import broadcast_to, pad, reshape, transpose
from chainrule.primitives.primitive import Contract
from chainrule.primitives.products import contract
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import full_like

KEEPING = (reshape, transpose, pad)  # moves that keep every element


@dataclass(frozen=True)
class Product:
    """Sums of products of x and y: a label for each axis of both, and of the result."""

    x: Node
    y: Node
    x_axes: tuple[int, ...]
    y_axes: tuple[int, ...]
    out_axes: tuple[int, ...]

    def size(self, *labels: int) -> int:
        """How many elements axes with these labels have together."""
        of = {**dict(zip(self.x_axes, self.x.shape, strict=True))}
        of |= dict(zip(self.y_axes, self.y.shape, strict=True))
        return prod(of[one] for one in labels)

    @property
    def places(self) -> tuple[int, ...]:
        """The labels that are added up over."""
        return tuple([one for one in self.x_axes if one not in self.out_axes])

    def own(self) -> tuple[list[int], list[int], list[int]]:
        """The labels of the result that x alone has, that y alone has, and that both have."""
        x = [one for one in self.out_axes if one not in self.y_axes]
        y = [one for one in self.out_axes if one not in self.x_axes]
        return x, y, [one for one in self.out_axes if one in self.x_axes and one in self.y_axes]

    def dense(self) -> Any:
        """The product itself."""
        return contract(
            self.x, self.y, x_axes=self.x_axes, y_axes=self.y_axes, out_axes=self.out_axes
        )


@dataclass(frozen=True)
class Rows:
    """Updates that are added to zeros, at the rows that indices say."""

    node: Node

    @property
    def updates(self) -> Node:
        return self.node.inputs[0]

    @property
    def indices(self) -> tuple[Node, ...]:
        return self.node.inputs[1:]


Term = Product | Rows | Node


def terms_of(node: Node) -> list[Node]:
    """What is added up to a value: the operands of its additions."""
    pending, found = [node], []
    while pending:
        one = pending.pop()
        if one.primitive is add:
            pending += one.inputs[::-1]
        else:
            found.append(one)
    return found


def square(terms: list[Node]) -> Any:
    """The sum of the squares of the elements of the sum of these values."""
    if len(terms) == 1:
        return _square(_term(terms[0], keeping=True))
    known = [_term(one, keeping=False) for one in terms]
    dense = [one for one in known if isinstance(one, Node)]
    others: list[Term] = [one for one in known if not isinstance(one, Node)]
    if dense:
        total = dense[0]
        for one in dense[1:]:
            total = add(total, one)
        others.append(total)
    found: Any = None
    for place, one in enumerate(others):
        parts = [_square(one)]
        for other in others[:place]:
            inner = _inner(one, other)
            parts.append(add(inner, inner))
        for part in parts:
            found = part if found is None else add(found, part)
    return found


def _term(node: Node, *, keeping: bool) -> Term:
    """A term as a product or as rows, where it is one; `keeping`: but for the places of its
    elements."""
    permutations = []
    while (keeping and node.primitive in KEEPING) or node.primitive is transpose:
        if node.primitive is transpose:
            permutations.append(node.param("permutation"))
        node = node.inputs[0]
    if isinstance(node.primitive.kernel, Contract):
        x_axes, y_axes, axes = labels_of(node)
        for one in reversed(permutations):
            axes = tuple([axes[axis] for axis in one]) if not keeping else axes
        x, y = node.inputs
        return Product(x, y, x_axes, y_axes, axes)
    if node.primitive is scatter_add and (keeping or not permutations):
        return Rows(node)
    if not keeping:
        for one in reversed(permutations):
            node = transpose(node, permutation=one)
    return node


def _square(term: Term) -> Any:
    match term:
        case Product():
            return _square_of_product(term)
        case Rows() if _count(term.updates) < 2 * prod(term.node.shape):
            return _total(multiply(term.updates, _taken(term, term)))
        case Rows(node):
            return _total(multiply(node, node))
    return _total(multiply(term, term))


def _square_of_product(one: Product) -> Any:
    places = one.size(*one.places)
    x, y, both = one.own()
    if places == 1 and not both:
        return multiply(_total(multiply(one.x, one.x)), _total(multiply(one.y, one.y)))
    direct = one.size(*one.places, *x, *y, *both)
    by_pairs = places * one.size(*one.places, *both) * (one.size(*x) + one.size(*y))
    if direct <= by_pairs:
        return _dense_square(one.dense())
    return _of_pairs(one, one)


def _dense_square(node: Node) -> Any:
    return _total(multiply(node, node))


def _of_pairs(one: Product, other: Product) -> Any:
    """⟨one, other⟩ by the inner products of their factors at all pairs of places."""
    fresh = count(1 + max((*one.x_axes, *one.y_axes, *other.x_axes, *other.y_axes), default=0))
    new = dict(zip(other.out_axes, one.out_axes, strict=True))
    for label in other.places:
        new[label] = next(fresh)
    x_axes = tuple([new[label] for label in other.x_axes])
    y_axes = tuple([new[label] for label in other.y_axes])
    both = one.own()[2]
    kept = (*both, *one.places, *[new[label] for label in other.places])
    left = contract(one.x, other.x, x_axes=one.x_axes, y_axes=x_axes, out_axes=kept)
    right = contract(one.y, other.y, x_axes=one.y_axes, y_axes=y_axes, out_axes=kept)
    labels = tuple(range(len(kept)))
    return contract(left, right, x_axes=labels, y_axes=labels, out_axes=())


def _inner(one: Term, other: Term) -> Any:
    """The sum of the products of the elements of two terms of one shape."""
    if isinstance(other, Rows):
        one, other = other, one
    match one, other:
        case Rows(), Rows():
            return _total(multiply(one.updates, _taken(other, one)))
        case Rows(), Product():
            return _rows_with_product(one, other)
        case Rows(), Node():
            wrap = one.node.param("wrap")
            return _total(multiply(one.updates, gather(other, *one.indices, wrap=wrap)))
        case Product(), Product():
            turned = _turned_like(one, other)
            if turned is not None and _pairs_are_fewer(one, turned):
                return _of_pairs(one, turned)
    return _total(multiply(_dense(one), _dense(other)))


def _dense(term: Term) -> Any:
    match term:
        case Product():
            return term.dense()
        case Rows(node):
            return node
    return term


def _turned_like(one: Product, other: Product) -> Product | None:
    """The other with its factors exchanged, where that is how they meet those of `one`."""
    places = {label: place for place, label in enumerate(one.out_axes)}
    own = [{places[label] for label in labels} for labels in one.own()]
    swapped = Product(other.y, other.x, other.y_axes, other.x_axes, other.out_axes)
    for candidate in (other, swapped):
        places = {label: place for place, label in enumerate(candidate.out_axes)}
        if [{places[label] for label in labels} for labels in candidate.own()] == own:
            return candidate
    return None


def _pairs_are_fewer(one: Product, other: Product) -> bool:
    x, y, both = one.own()
    first, second = one.size(*one.places), other.size(*other.places)
    direct = (first + second) * one.size(*x, *y, *both)
    return first * second * one.size(*both) * (one.size(*x) + one.size(*y)) < direct


def _rows_with_product(rows: Rows, product: Product) -> Any:
    """⟨rows, product⟩: the product is computed at the rows alone."""
    wrap, indices = rows.node.param("wrap"), rows.indices
    labels = product.out_axes[: len(indices)]
    x, y, _ = product.own()
    factors = [(product.x, product.x_axes, x), (product.y, product.y_axes, y)]
    for place, (factor, axes, own) in enumerate(factors):
        if not set(labels) <= set(own):
            continue
        order = [axes.index(one) for one in labels]
        order += [k for k in range(factor.ndim) if k not in order]
        moved = transpose(factor, permutation=tuple(order))
        read = gather(moved, *indices, wrap=wrap)
        fresh = count(1 + max((*product.x_axes, *product.y_axes), default=0))
        wide = tuple([next(fresh) for _ in range(indices[0].ndim)])
        read_axes = (*wide, *[axes[k] for k in order[len(labels) :]])
        other, other_axes, _ = factors[1 - place]
        out = (*wide, *product.out_axes[len(labels) :])
        at = contract(read, other, x_axes=read_axes, y_axes=other_axes, out_axes=out)
        return _total(multiply(rows.updates, at))
    return _total(multiply(rows.updates, gather(product.dense(), *indices, wrap=wrap)))


def _taken(rows: Rows, at: Rows) -> Any:
    """What `rows` has at the places of `at`, without the zeros between them."""
    shape = rows.node.shape
    places, updates = [at.indices, rows.indices], rows.updates
    count_at, count_own = (prod(one[0].shape) for one in places)
    same: Any = None
    for size, wanted, own in zip(shape, *places, strict=False):
        left = broadcast_to(_column(_in_range(wanted, size), count_at), shape=(count_at, count_own))
        right = broadcast_to(_row(_in_range(own, size), count_own), shape=(count_at, count_own))
        both = equal(left, right)
        same = both if same is None else logical_and(same, both)
    weights = cast(same, dtype=updates.dtype, weak=False)
    rest = shape[len(rows.indices) :]
    flat = reshape(updates, shape=(count_own, *rest))
    out = tuple(range(2, 2 + len(rest)))
    found = contract(weights, flat, x_axes=(0, 1), y_axes=(1, *out), out_axes=(0, *out))
    return reshape(found, shape=at.updates.shape)


def _in_range(index: Node, size: int) -> Any:
    """Indices from 0 on, of those that may count from the end."""
    if index.dtype.kind == "u":
        return index
    zero, length = full_like(index, 0), full_like(index, size)
    return where(less(index, zero), add(index, length), index)


def _column(index: Any, length: int) -> Any:
    return reshape(index, shape=(length, 1))


def _row(index: Any, length: int) -> Any:
    return reshape(index, shape=(1, length))


def _count(node: Node) -> int:
    return int(np.prod(node.shape, dtype=np.int64))


def _total(node: Any) -> Any:
    """The sum of all elements."""
    return sum_(node, axes=tuple(range(node.ndim)))
