"""What a derivative made, as a textbook writes it: kᵀ for a transpose of what k moves; ∑ xᵀ g for
the product of stacks of matrices whose rows were joined; 1 − σ(x), which rounds, for σ(−x)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chainrule.explain.equations.functions import Functions
from chainrule.explain.equations.logistics import Logistics
from chainrule.explain.equations.naming import Names
from chainrule.explain.equations.probabilities import Probabilities
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import divide, logistic, multiply, negative, subtract
from chainrule.primitives.logic import where
from chainrule.primitives.movement import inverse, reshape, transpose
from chainrule.primitives.products import matmul
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import full, full_like

DEEPEST = 12  # products within each other


class Rewriting:
    """Other nodes of the same values, for nodes that derivatives made."""

    def __init__(self, names: Names, functions: Functions) -> None:
        self._names = names.graph.name_of
        self.probabilities = Probabilities(names.graph, functions)
        self.logistics = Logistics(names.graph, functions)
        self._moved: dict[Node, list[Node]] = {}  # named transposes and reshapes by what they move
        self._logistic: dict[Node, Node] = {}  # σ(x) by x
        for node in self._names:
            if node.primitive in (reshape, transpose):
                self._moved.setdefault(node.inputs[0], []).append(node)
        for node in names.graph.nodes:
            if node.primitive is logistic:
                self._logistic.setdefault(node.inputs[0], node)
        self._selections: dict[Node, dict[Node, Node]] = {}  # named gradients, by condition
        for gradient in names.gradients.values():
            value = gradient.value
            if value.primitive is where and _is_zero(value.inputs[1]):
                self._selections.setdefault(value.inputs[0], {})[value.inputs[2]] = value

    def instead(self, node: Node) -> Node:
        """The node that is written in place of this one, or the node itself."""
        for several in (self.probabilities, self.logistics):
            if (found := several.instead(node)) is not node:
                return found
        if not node.origin.transform:
            return node
        if node.primitive is matmul:
            return self._of_stacks(node)
        if node.primitive is logistic and node.inputs[0].primitive is negative:
            out = self._logistic.get(node.inputs[0].inputs[0])
            return node if out is None else _made(node, subtract, full_like(out, 1), out)
        if node.primitive is subtract and _is_zero(node.inputs[0]):
            return _made(node, negative, node.inputs[1])
        if node.primitive is where and _is_zero(node.inputs[1]):
            return self._selected(node)
        if node.primitive is transpose and node.ndim == 2 and node.inputs[0].primitive is matmul:
            return self._turned(node)
        if node.primitive in (reshape, transpose) and node not in self._names:
            return self._by_sibling(node)
        return node

    def _by_sibling(self, node: Node) -> Node:
        """Made of a named value that moves the same elements, if there is one."""
        (moved,) = node.inputs
        for named in self._moved.get(moved, ()):
            if named.primitive is not node.primitive:
                continue
            if node.primitive is reshape:
                if named.shape == node.shape:
                    return named
                if moved in self._names:
                    continue
                return _made(node, reshape, named, shape=node.shape)
            back = inverse(named.param("permutation"))
            order = tuple([back[axis] for axis in node.param("permutation")])
            if moved not in self._names or _exchanges_last(order):
                return _made(node, transpose, named, permutation=order)
        return node

    def _of_stacks(self, node: Node) -> Node:
        """flat(x)ᵀ flat(g) as ∑ xᵀ g, where x or g is a stack of matrices; else the node."""
        left, g = node.inputs
        if left.primitive is not transpose or node.ndim != 2:
            return node
        (x,) = left.inputs
        if x.primitive is not reshape or g.primitive is not reshape:
            return node
        for flat in (x, g):
            inner = flat.inputs[0].shape
            if len(inner) > 2 and inner[-1] == flat.shape[-1]:
                return _summed(node, *(self._stacked(one, inner[:-1]) for one in (x, g)))
        return node

    def _turned(self, node: Node) -> Node:
        """∑ gᵀ x for the transpose of ∑ xᵀ g; else the node."""
        (product,) = node.inputs
        left, g = product.inputs
        if product in self._names or left.primitive is not transpose:
            return self._by_sibling(node) if node not in self._names else node
        (x,) = left.inputs
        turned = _made(node, transpose, g, permutation=(1, 0))
        found = _made(node, matmul, turned, x)
        of_stacks = self._of_stacks(found)
        return node if of_stacks is found else of_stacks

    def _selected(self, node: Node) -> Node:
        """{0 if z ≤ 0; g ⊙ v otherwise} as ∂J/∂z ⊙ v, where ∂J/∂z is {0 if z ≤ 0; g otherwise}."""
        condition, _, value = node.inputs
        known = self._selections.get(condition)
        if not known or node in self._names:
            return node
        found = self._replaced(value, known, DEEPEST)
        return node if found is None else found

    def _replaced(self, node: Node, known: Mapping[Node, Node], depth: int) -> Node | None:
        """A product with one factor exchanged; as it is where the new factor is in it already."""
        if node in known:
            return known[node]
        if node in known.values():
            return node
        if node in self._names or not depth:
            return None
        if node.primitive in (multiply, divide, negative):
            places = (0,) if node.primitive is divide else range(len(node.inputs))
            for place in places:
                found = self._replaced(node.inputs[place], known, depth - 1)
                if found is not None:
                    inputs = [*node.inputs]
                    inputs[place] = found
                    is_same = found is node.inputs[place]
                    return node if is_same else _made(node, node.primitive, *inputs)
        return None

    def _stacked(self, flat: Node, leading: tuple) -> Node:
        """What was joined to a matrix as a stack of matrices."""
        (inner,) = flat.inputs
        shape = (*leading, flat.shape[-1])
        if inner.shape == shape:
            return inner
        return self._by_sibling(_made(flat, reshape, inner, shape=shape))


def _is_zero(node: Node) -> bool:
    return node.primitive is full and node.param("value") == 0


def _exchanges_last(order: tuple[int, ...]) -> bool:
    return len(order) > 1 and order[:-2] == tuple(range(len(order) - 2))


def _summed(node: Node, x: Node, g: Node) -> Node:
    *leading, rows, columns = range(x.ndim)
    turned = _made(node, transpose, x, permutation=(*leading, columns, rows))
    products = _made(node, matmul, turned, g)
    return _made(node, sum_, products, axes=tuple(leading))


def _made(of: Node, primitive: Any, *inputs: Node, **params: Any) -> Node:
    """A node with the origin of another one."""
    made = primitive(*inputs, **params)
    return type(of)(primitive, inputs, made.params, made.type, of.origin)
