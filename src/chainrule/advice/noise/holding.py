"""Finds how each value of an objective holds the batch: not at all, example by example, or summed.

The proof that an objective is a mean over its examples.  The graph is looked at with a prime number
of examples, so that no other size is a multiple of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chainrule.advice.noise.held import (
    CONSTANT,
    SUMMED,
    Held,
    Holding,
    Parts,
    alone,
    count_of,
    packed,
)
from chainrule.control.scan_node import scan
from chainrule.control.scan_rules import loop_of, shown_carries
from chainrule.devices.tensor.layouts import PARTIAL
from chainrule.devices.tensor.rules import Rule, rules_of
from chainrule.errors import InputError
from chainrule.graph.bind import bind_value
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.arithmetic import divide
from chainrule.primitives.movement import broadcast_to, reshape, slice_
from chainrule.primitives.primitive import (
    Assemble,
    Contract,
    Fold,
    Gather,
    Generate,
    Given,
    Linear,
    Map,
    Move,
    Multilinear,
)
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import full, iota, size_value

PRIME = 10007  # examples
PLAIN = (Map, Move, Assemble, Fold, Contract)  # kernels that make no rows of their own


def holding(graph: Graph, objective: Node, size: str) -> Held:
    """How each value that the objective needs holds the batch; all sizes but `size` are integers.

    InputError where the objective is no mean over examples: where one example changes what another
    one gives (as in batch normalisation), where it is a sum, or another function of all of them.
    """
    found = _Walk(size)
    nodes = topological([objective])
    found.inputs(graph)
    for node in nodes:
        found.visit(node)
    end = found.of[objective]
    name = graph.name_of.get(objective, "the objective")
    if not end.of_examples:
        raise InputError(
            f"{name} does not depend on the batch: no input with the size {size} reaches it",
            where=objective.origin.describe(),
            hint="an objective that is a mean over the batch",
        )
    if end.axis is not None:
        raise found.mixed(objective, f"{name} has a value for each example")
    if end.degree != 0:
        raise InputError(
            f"{name} grows with {size}: it is no mean over the batch, and the noise of a sum "
            "depends on how many examples there are",
            where=objective.origin.describe(),
            hint=f"np.mean instead of np.sum, or a division by {size}",
        )
    return Held(graph, size, found.of)


class _Walk:
    """One pass over a graph; `of` is what is known so far."""

    def __init__(self, size: str) -> None:
        self.size = size
        self.of: dict[Node, Holding] = {}
        self.bound: dict[Node, Node] = {}  # the node with PRIME examples
        self.lent: dict[Node, int] = {}  # axes along which rows that vary were given to examples
        self.names: Mapping[Node, str] = {}

    def inputs(self, graph: Graph) -> None:
        """Notice which inputs have the batch, and along which axis."""
        self.names = graph.name_of
        for item in graph.inputs:
            axes = [k for k, one in enumerate(item.type.shape) if self.size in _names(one)]
            if len(axes) > 1:
                raise InputError(
                    f"{item.name}: {item.type} has the size {self.size} twice: it is no batch of "
                    "examples",
                    where=item.node.origin.describe(),
                    hint="name the axis of the examples alone so",
                )
            self.of[item.node] = Holding(axis=axes[0]) if axes else CONSTANT

    def visit(self, node: Node) -> None:
        """Find how a node holds the batch; its inputs are known."""
        inputs = tuple([self.bound[one] for one in node.inputs])
        self.bound[node] = bound_node(node, inputs, {self.size: PRIME})
        if node not in self.of:
            self.of[node] = self._found(node)

    def _found(self, node: Node) -> Holding:
        held = [self.of[one] for one in node.inputs]
        if not any(one.of_examples for one in held):
            return self._constant(node, held)
        if node.primitive is slice_ and held[0].parts is not None:
            return self._part(node, held[0].parts)
        if node.primitive is reshape and held[0].parts is not None:
            return self._whole(node, held[0].parts)
        if node.primitive is scan:
            return self._loop(node, held)
        if any(one.summed for one in held):
            return self._after_sums(node, held)
        found = self._by_rules(node, held)
        if found is None:
            raise self.mixed(node)
        return replace(found, degree=self._degree(node, held, found.degree or 0))

    # Values that no example reaches ---------------------------------------------------------------

    def _constant(self, node: Node, held: list[Holding]) -> Holding:
        rows = any(self.size in _names(one) for one in node.shape)
        kernel = node.primitive.kernel
        varies = any(one.varies for one in held)
        varies |= rows and node.primitive is not full and not isinstance(kernel, PLAIN)
        if node.primitive is size_value:
            return Holding(degree=_power(node.param("size"), self.size))
        if isinstance(kernel, Given | Generate):
            return Holding(varies=varies)
        folded = isinstance(kernel, Fold | Contract) and any(
            self.size in _names(one) for x in node.inputs for one in x.shape
        )
        if folded and not rows:
            plain = node.primitive is sum_ and not varies
            known = held[0].degree
            return Holding(degree=None if not plain or known is None else known + 1)
        return Holding(degree=self._degree(node, held, 0), varies=varies)

    def _degree(self, node: Node, held: list[Holding], more: int) -> int | None:
        """The degree of a result from those of the operands."""
        known = [one.degree for one in held]
        if None in known:
            return None
        degrees = [one or 0 for one in known]
        if not any(degrees):
            return more
        match node.primitive.derivative:
            case _ if node.primitive is divide:
                return degrees[0] - degrees[1] + more
            case Multilinear():
                return sum(degrees) + more
            case Linear() as linear:
                moving = {d for i, d in enumerate(degrees) if linear.transpose(i) is not None}
                steered = any(d for i, d in enumerate(degrees) if linear.transpose(i) is None)
                return moving.pop() + more if len(moving) == 1 and not steered else None
            case _:
                return None

    # Values of each example -----------------------------------------------------------------------

    def _by_rules(self, node: Node, held: list[Holding]) -> Holding | None:
        bound = self.bound[node]
        if isinstance(node.primitive.kernel, Gather) and held[0].axis is not None:
            found = _at_positions(bound, held)
            if found is not None:
                return found
        options = [one for one in rules_of(bound) if self._fits(bound, one, held)]
        for rule in sorted(options, key=lambda one: self._lending(one, held)):
            axis = rule.result.axis
            if rule.result is not PARTIAL and (axis is None or bound.shape[axis] % PRIME):
                continue
            if self._lend(node, rule, held):
                return SUMMED if rule.result is PARTIAL else Holding(axis=axis)
        return None

    def _fits(self, bound: Node, rule: Rule, held: list[Holding]) -> bool:
        for x, layout, one in zip(bound.inputs, rule.operands, held, strict=True):
            if layout is PARTIAL or (one.axis is not None and layout.axis != one.axis):
                return False
            if one.axis is None and layout.axis is not None and x.shape[layout.axis] % PRIME:
                return False
        return True

    def _lending(self, rule: Rule, held: list[Holding]) -> int:
        pairs = zip(rule.operands, held, strict=True)
        return sum(layout.axis is not None and one.axis is None for layout, one in pairs)

    def _lend(self, node: Node, rule: Rule, held: list[Holding]) -> bool:
        """Give rows of operands that vary to examples; whether that can be."""
        for x, layout, one in zip(node.inputs, rule.operands, held, strict=True):
            if not one.varies or one.axis is not None:
                continue
            if layout.axis is None and not any(self.size in _names(k) for k in x.shape):
                continue
            if layout.axis is None or self.lent.setdefault(x, layout.axis) != layout.axis:
                return False
            self.of[x] = replace(one, axis=layout.axis)
        return True

    # Sums over examples ---------------------------------------------------------------------------

    def _after_sums(self, node: Node, held: list[Holding]) -> Holding:
        """Sums go on through what is linear in them; anything else is no mean over examples."""
        if any(one.axis is not None and not one.varies for one in held):
            raise self.mixed(node)
        summed = [place for place, one in enumerate(held) if one.summed]
        match node.primitive.derivative:
            case _ if node.primitive is divide and summed == [0]:
                pass
            case Multilinear() if len(summed) == 1:
                pass
            case Linear() as linear if all(linear.transpose(i) is not None for i in summed):
                pass
            case _:
                raise self.mixed(node, "{} is no linear function of a sum over the batch")
        degree = self._degree(node, held, 0)
        if degree is None:
            raise self.mixed(node, "{} adds what grows with the batch to what does not")
        return Holding(summed=True, degree=degree)

    # Loops ----------------------------------------------------------------------------------------

    def _loop(self, node: Node, held: list[Holding]) -> Holding:
        """A loop keeps examples apart, if its body does."""
        if any(one.summed or one.degree or one.parts or one.varies for one in held):
            raise self.mixed(node)
        loop = loop_of(node, node.inputs)
        body = node.param("body").graph
        first = len(loop.constants) + len(loop.carries)
        inner: dict[Node, Holding] = {}
        for place, (one, given) in enumerate(zip(loop.inner, held, strict=True)):
            axis = given.axis
            if place >= first and axis is not None:
                if axis == 0:
                    raise self.mixed(node, "{} goes from example to example")
                axis -= 1
            inner[one] = Holding(axis=axis)
        while True:
            inside = _Walk(self.size)
            inside.names, inside.of = body.name_of, dict(inner)
            for one in body.nodes:
                inside.visit(one)
            more = {
                c.before: inside.of[c.after]
                for c in loop.carries
                if inside.of[c.after] != inner[c.before]
            }
            if not more:
                break
            if any(inner[one].of_examples or not h.of_examples for one, h in more.items()):
                raise self.mixed(node)
            inner.update(more)
        items, start = [], 0
        inputs = tuple([self.bound[one] for one in node.inputs])
        known = loop_of(bound_node(node, inputs, {self.size: PRIME}), inputs)
        for i in shown_carries(node, loop):
            start = packed(
                items, start, known.carries[i].before.shape, inner[loop.carries[i].before]
            )
        for one, bound in zip(loop.stacked, known.stacked, strict=True):
            own = inside.of[one]
            if own.axis is not None:
                own = replace(own, axis=own.axis + 1)
            start = packed(items, start, (known.length, *bound.shape), own)
        if any(one.degree != 0 or one.summed for _, _, one in items):
            raise self.mixed(node)
        return alone(items, self.bound[node].shape) or Holding(parts=Parts(tuple(items)))

    def _part(self, node: Node, parts: Parts) -> Holding:
        bound = self.bound[node]
        for start, shape, one in parts.items:
            if bound.param("start") == (start,) and bound.type.size == count_of(shape):
                part = [(0, shape, one)]
                return alone(part, bound.shape) or Holding(parts=Parts(tuple(part)))
        raise self.mixed(node)

    def _whole(self, node: Node, parts: Parts) -> Holding:
        """A part in its shape."""
        found = alone(parts.items, self.bound[node].shape)
        if found is None:
            raise self.mixed(node)
        return found

    def mixed(self, node: Node, what: str = "{} depends on several examples at once") -> InputError:
        """The error of a value in which examples meet."""
        name = self.names.get(node) or _named_near(node, self.names)
        return InputError(
            f"{what.format(name)}: gradients of single examples are not defined, or not found",
            where=node.origin.describe(),
            hint="an objective that is a mean over the batch of what each example gives by itself "
            "(no batch normalisation); layer normalisation keeps examples apart",
        )


def _named_near(node: Node, names: Mapping[Node, str]) -> str:
    known = [names[one] for one in node.inputs if one in names]
    return f"{node.primitive.name}({', '.join(known) or '...'})"


def bound_node(node: Node, inputs: tuple[Node, ...], values: Mapping[str, int]) -> Node:
    """The node on other inputs, with sizes replaced."""
    params = tuple((key, bind_value(value, values)) for key, value in node.params)
    return type(node)(node.primitive, inputs, params, node.type.bind(values), node.origin)


def _names(one: Any) -> frozenset[str] | set[str]:
    return sizes.names(one) if isinstance(one, Size) else set()


def _power(number: int | Size, name: str) -> int | None:
    """1 for a multiple of the size, 0 for what it is not in; None for others."""
    if name not in _names(number):
        return 0
    rest = sizes.divide_exactly(number, sizes.size(name))
    return 1 if rest is not None and name not in _names(rest) else None


def _at_positions(node: Node, held: list[Holding]) -> Holding | None:
    """A gather that reads from each example what is its own: its index along the examples are the
    positions 0, 1, 2, ..."""
    x, *indices = node.inputs
    axis = held[0].axis
    assert axis is not None
    if node.primitive.kernel != Gather() or axis >= len(indices):
        return None
    along = _positions_along(indices[axis])
    if along is None or x.shape[axis] != indices[axis].shape[along]:
        return None
    others = [one.axis for one in held[1:] if one.axis is not None]
    return Holding(axis=along) if all(one == along for one in others) else None


def _positions_along(node: Node) -> int | None:
    """The axis along which a value counts 0, 1, 2, ..., whatever the other places are."""
    if node.primitive is iota:
        return 0
    if node.primitive not in (reshape, broadcast_to):
        return None
    (x,) = node.inputs
    along = _positions_along(x)
    if along is None:
        return None
    if node.primitive is broadcast_to:
        return along + node.ndim - x.ndim
    if any(one != 1 for k, one in enumerate(x.shape) if k != along):
        return None
    found = [k for k, one in enumerate(node.shape) if one != 1]
    return found[0] if len(found) == 1 and node.shape[found[0]] == x.shape[along] else None
