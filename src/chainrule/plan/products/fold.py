"""Sums of scaled matrix products, folded into the products' own calls.

BLAS computes alpha x y + beta out.  So scale factors, sums of products, and an update that adds a
product to the array it replaces (W - eta (x^T g + lambda W)) need no kernels of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.graph.dtypes import finfo
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.roles import FLOATS, Role
from chainrule.primitives.arithmetic import add, divide, multiply, negative, subtract
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.sources import full


@dataclass(frozen=True)
class Monomial:
    """`number` times the 0-d values `times`, divided by those of `over`."""

    number: float
    times: tuple[Node, ...] = ()
    over: tuple[Node, ...] = ()


Coefficient = tuple[Monomial, ...]  # their sum
ONE: Coefficient = (Monomial(1.0),)


@dataclass(frozen=True, eq=False)
class Products:
    """`root` = the sum of the `terms`, each a product times its coefficient, plus `base`, the
    value whose array `root` takes, times `base_coefficient`.  `absorbed` lie in between."""

    root: Node
    terms: tuple[tuple[Node, Coefficient], ...]
    base: Node | None = None
    base_coefficient: Coefficient = ONE
    absorbed: tuple[Node, ...] = ()

    @property
    def scalars(self) -> list[Node]:
        """The 0-d values that the coefficients are made of."""
        coefficients = [one for _, one in self.terms]
        if self.base is not None:
            coefficients.append(self.base_coefficient)
        parts = (m for one in coefficients for m in one)
        return list(dict.fromkeys(node for m in parts for node in (*m.times, *m.over)))


def folded_products(
    graph: Graph,
    roles: Mapping[Node, Role],
    results: Iterable[Node],
    overwrites: Mapping[Node, Node],
) -> dict[Node, Products]:
    """How each matrix product is computed, by the node that its call computes.

    `results` outlive the run, so they are not folded away; `overwrites` says which given array
    a result may take.
    """
    kept = set(results)
    uses: Counter[Node] = Counter()
    for node in graph.nodes:
        uses.update(set(node.inputs))
    once = {node for node, count in uses.items() if count == 1 and node not in kept}
    taken = {result: given for given, result in overwrites.items()}
    found: dict[Node, Products] = {}
    absorbed: set[Node] = set()
    for node in reversed(graph.nodes):
        if node in absorbed or node.dtype not in FLOATS:
            continue
        if roles[node] not in (Role.MAP, Role.PRODUCT):
            continue
        one = _folded(node, roles, once, taken.get(node))
        if one is not None:
            found[node] = one
            absorbed.update(one.absorbed)
    return found


def _folded(
    root: Node, roles: Mapping[Node, Role], once: set[Node], taken: Node | None
) -> Products | None:
    """The node as a sum of products; None if it is something else, too."""
    terms: dict[Node, Coefficient] = {}
    absorbed: list[Node] = []
    base: Coefficient = ()
    pending: list[tuple[Node, Coefficient]] = [(root, ONE)]
    while pending:
        node, coefficient = pending.pop()
        if node is not root:
            if taken is not None and node is taken:
                base = (*base, *coefficient)
                continue
            if node not in once or node in terms:
                return None
            absorbed.append(node)
        if roles[node] is Role.PRODUCT:
            terms[node] = coefficient
            continue
        parts = _linear_parts(node) if roles[node] is Role.MAP else None
        if parts is None or len(absorbed) > 64:
            return None
        found = [(part, _times(coefficient, factor)) for part, factor in parts]
        if not all(_fits(one, root.dtype) for _, one in found):
            return None
        pending += found
    if not terms:
        return None
    # in the order in which the graph adds them; the walk took the last operands first
    ordered = tuple(reversed(terms.items()))
    return Products(root, ordered, taken if base else None, base or ONE, tuple(absorbed))


def _linear_parts(node: Node) -> list[tuple[Node, Monomial]] | None:
    """The node as a sum of its inputs with factors; None if it is not one."""
    primitive = node.primitive
    if primitive is add:
        return [(one, Monomial(1.0)) for one in node.inputs]
    if primitive is subtract:
        x, y = node.inputs
        return [(x, Monomial(1.0)), (y, Monomial(-1.0))]
    if primitive is negative:
        return [(node.inputs[0], Monomial(-1.0))]
    if primitive is multiply:
        for x, y in (node.inputs, node.inputs[::-1]):
            factor = _scalar(x)
            if factor is not None:
                return [(y, factor)]
    if primitive is divide:
        factor = _scalar(node.inputs[1])
        if factor is not None and factor.number:
            inverse = Monomial(1.0 / factor.number, factor.over, factor.times)
            return [(node.inputs[0], inverse)]
    return None


def _scalar(node: Node) -> Monomial | None:
    """The one number that is everywhere in the value, if it is seen to be one."""
    if node.primitive is full:
        return Monomial(float(node.param("value")))
    if node.primitive is broadcast_to and node.inputs[0].shape == ():
        node = node.inputs[0]
        return _scalar(node) if node.primitive is full else Monomial(1.0, (node,))
    return None


def _times(coefficient: Coefficient, factor: Monomial) -> Coefficient:
    return tuple(
        Monomial(m.number * factor.number, (*m.times, *factor.times), (*m.over, *factor.over))
        for m in coefficient
    )


def _fits(coefficient: Coefficient, dtype: np.dtype) -> bool:
    """Whether its numbers are normal numbers of the dtype: p 1e30 1e30 is not p inf, nor is
    p 1e-30 1e-30 zero."""
    known = finfo(dtype)
    least, most = float(known.smallest_normal), float(known.max)
    return all(least <= abs(one.number) <= most for one in coefficient)
