"""Stores what the backward pass needs of the forward pass in fewer bytes: rounded, and widened
again where it is read.

What PyTorch does by hooks on saved tensors, and JAX by policies of `checkpoint`, is a transform of
the graph here, which shows each cast, under the name of the value that it rounds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.graph.collector import without_collector
from chainrule.graph.dtypes import dtype_kind, finfo
from chainrule.graph.free_names import free_name
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import Node, topological
from chainrule.graph.rebuild import substituted
from chainrule.primitives import arithmetic as A
from chainrule.primitives import logic
from chainrule.primitives.hyperbolic import cosh, sinh
from chainrule.primitives.logarithms import exp2
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.primitive import Fold, Generate, Given, Map, Move
from chainrule.primitives.special.error_function import erf
from chainrule.transforms.rules import value_of
from chainrule.transforms.signs import NON_POSITIVE, sign

SUFFIX = "_saved"
# Functions that make of a rounded argument no less exact a result, in units of the largest: they
# are computed again of what the backward pass reads anyway.  Of a sum that is so where a number is
# added to one of BOUNDED: z - 100 may be far smaller than z, and with it all that was right of z.
BOUNDED = (A.tanh, A.logistic, erf)
SOUND = (
    *(A.multiply, A.divide, A.negative, A.absolute, A.maximum, A.minimum, A.sqrt),
    *(A.integer_power, *BOUNDED, logic.where, logic.cast),
)
# Of 1,000, rounded to 1,000 ± 2, sines know nothing any more, and exponentials are off by e**2.
STEEP = (A.sin, A.cos, A.exp, A.expm1, exp2, sinh, cosh)
HIGHEST = 4  # exponent by which the error of a rounded base is multiplied
SIGNS = (
    *(logic.less, logic.less_equal, logic.greater, logic.greater_equal),
    *(logic.equal, logic.not_equal),
)


@without_collector
def saved_in(graph: Graph, of: str, dtype: np.dtype) -> Graph:
    """The graph in which the backward pass of `of` reads values of its forward pass from copies in
    `dtype`, named `z_saved`, that are made with these values.

    Rounded are arrays of wider floats that are computed for `of`; a few functions are computed
    again of a rounded argument.  Arguments of the program and masks stay, and so does what only
    belongs to a row (a sum, a maximum).  Comparisons with other numbers than 0 read what was
    compared, so that they find the same elements; so do loops and primitives of the user's, and so
    do sines, high powers and exponentials (but of what is at most 0), through what these are
    computed of.  float64 stays: bfloat16 has not its range.  The relative error of what the others
    read is that of one rounding, in units of the largest.
    """
    return _Saving(graph, of, np.dtype(dtype)).saved()


class _Saving:
    """What has become of the nodes of both passes."""

    def __init__(self, graph: Graph, of: str, dtype: np.dtype) -> None:
        self.graph, self.dtype = graph, dtype
        made = {one.value for one in graph.gradients if one.of == of}
        gradients = [node for _, node in graph.outputs if node in made]
        others = [node for _, node in graph.outputs if node not in made]
        self.forward = set(topological(others))
        self.backward = [one for one in topological(gradients) if one not in self.forward]
        self.exact = self._exact()
        self.read = {
            one
            for node in self.backward
            for one, is_exact in self._operands(node)
            if one in self.forward and not is_exact
        }
        self.small: dict[Node, bool] = {}
        # Whether the backward pass has it, perhaps computed again.
        self.there: dict[Node, bool] = {}
        for node in graph.nodes:
            if node in self.forward:
                self.there[node] = self._is_there(node)
        self.narrow: dict[Node, Node] = {}

    def saved(self) -> Graph:
        new: dict[Node, Node] = {}
        for node in self.backward:
            inputs = tuple(
                [
                    new.get(one, one) if is_exact or one not in self.forward else self._reread(one)
                    for one, is_exact in self._operands(node)
                ]
            )
            new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
        if not self.narrow:
            return self.graph
        names = self._names()
        order: list[Node] = []
        for node in self.graph.nodes:
            order.append(new.get(node, node))
            order += [self.narrow[node]] if node in self.narrow else []
        placed = topological([*self._first(), *order])
        found = substituted(self.graph.replace(names=names), new, tuple(placed))
        return check(found)

    def _first(self) -> Iterator[Node]:
        """The forward pass, with each copy after what it copies."""
        for node in self.graph.nodes:
            if node in self.forward:
                yield node
            if node in self.narrow:
                yield self.narrow[node]

    def _names(self) -> dict[str, Node]:
        """The names; those of copies before those of the backward pass, whose nodes come later."""
        names = {name: node for name, node in self.graph.names.items() if node in self.forward}
        name_of = self.graph.name_of
        for node in self.graph.nodes:
            if node not in self.narrow:
                continue
            wish = f"{name_of[node]}{SUFFIX}" if node in name_of else "saved"
            names[free_name(wish, names, self.graph.names)] = self.narrow[node]
        return {**names, **self.graph.names}

    def _operands(self, node: Node) -> list[tuple[Node, bool]]:
        """The inputs, and whether the node reads each as it is: it compares, is steep, or is a loop
        or a primitive of the user's, which may be."""
        if node.primitive.as_stored or node in self.exact:
            return [(one, True) for one in node.inputs]
        if dtype_kind(node.dtype) == "f":
            return [(one, dtype_kind(one.dtype) != "f") for one in node.inputs]
        signs = node.primitive in SIGNS and any(_is_zero(one) for one in node.inputs)
        return [(one, not signs) for one in node.inputs]

    def _exact(self) -> set[Node]:
        """What the backward pass computes for steep functions, and these."""
        made = set(self.backward)
        pending = [one for one in self.backward if _is_steep(one)]
        found = set(pending)
        while pending:
            inputs = made.intersection(pending.pop().inputs) - found
            found |= inputs
            pending += inputs
        return found

    def _reread(self, node: Node) -> Node:
        """A value of the forward pass, as a node of the backward pass gets it: for each anew."""
        made: dict[Node, Node] = {}
        pending = [node]
        while pending:
            one = pending[-1]
            again = self._is_rounded(one) and (_is_view(one) or self._is_computed_again(one))
            missing = [x for x in one.inputs if x not in made] if again else []
            if missing:
                pending += missing
                continue
            pending.pop()
            if again:
                made[one] = one.with_inputs(tuple([made[x] for x in one.inputs]))
            else:
                made[one] = self._copied(one) if self._is_rounded(one) else one
        return made[node]

    def _copied(self, node: Node) -> Node:
        if node not in self.narrow:
            self.narrow[node] = _cast(node, self.dtype)
        return _cast(self.narrow[node], node.dtype)

    def _is_rounded(self, node: Node) -> bool:
        """Whether copies are read of it."""
        while _is_view(node):
            (node,) = node.inputs
        is_wide = dtype_kind(node.dtype) == "f" and node.dtype.itemsize > self.dtype.itemsize
        is_wide = is_wide and float(finfo(node.dtype).max) < 2 * float(finfo(self.dtype).max)
        computed = not isinstance(node.primitive.kernel, Given | Generate)
        return is_wide and computed and bool(node.ndim) and not self._is_small(node)

    def _is_small(self, node: Node) -> bool:
        """Whether it has an element for each row only: it is made of reductions, and of numbers."""
        pending = [node]
        while pending:
            one = pending[-1]
            kernel = one.primitive.kernel
            if one in self.small:
                pending.pop()
            elif not one.ndim or isinstance(kernel, Fold | Generate):
                self.small[pending.pop()] = True
            elif not isinstance(kernel, Map | Move) or one.primitive is broadcast_to:
                self.small[pending.pop()] = False
            else:
                missing = [x for x in one.inputs if x not in self.small]
                if missing:
                    pending += missing
                else:
                    self.small[pending.pop()] = all(self.small[x] for x in one.inputs)
        return self.small[node]

    def _is_there(self, node: Node) -> bool:
        if node in self.read or not self._is_rounded(node):
            return True
        return self.there[node.inputs[0]] if _is_view(node) else self._is_computed_again(node)

    def _is_computed_again(self, node: Node) -> bool:
        """Whether it is a sound function of what the backward pass has anyway."""
        sound = node.primitive in SOUND
        if node.primitive in (A.add, A.subtract):
            terms = [one for one in node.inputs if value_of(one) is None]
            sound = len(terms) < 2 and all(one.primitive in BOUNDED for one in terms)
        return sound and all(self.there[one] for one in node.inputs)


def _is_steep(node: Node) -> bool:
    """Whether its result may be far off where its argument is a little."""
    if node.primitive is A.integer_power:
        return abs(node.param("exponent")) > HIGHEST
    if node.primitive is A.power:
        exponent = value_of(node.inputs[1])
        return exponent is None or abs(exponent) > HIGHEST
    falls = node.primitive in (A.exp, exp2) and sign(node.inputs[0]) & NON_POSITIVE
    return node.primitive in STEEP and not falls


def _is_zero(node: Node) -> bool:
    while node.primitive is broadcast_to:
        (node,) = node.inputs
    return value_of(node) == 0


def _is_view(node: Node) -> bool:
    """Whether it is a move that leaves no elements out."""
    if not isinstance(node.primitive.kernel, Move):
        return False
    return node.primitive is broadcast_to or node.type.size == node.inputs[0].type.size


def _cast(node: Node, dtype: np.dtype) -> Node:
    made = logic.cast(node, dtype=dtype, weak=False)
    object.__setattr__(made, "origin", node.origin)
    return made
