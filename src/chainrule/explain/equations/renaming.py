"""Chooses the names with which the formula of a gradient is written.

One value can be several things: the gradients of f and of x + f, the gradient of z and the value w,
the gradient of a sum and the number 1.  What comes through a value has the gradient of that value
in it; what only happens to be a gradient is written as what it is.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping

from chainrule.dataclass import dataclass, replace
from chainrule.explain.equations.formula import Applied, Auxiliary, Chain, Formula, Named, Total
from chainrule.explain.equations.spanning import spans
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import divide, multiply, negative
from chainrule.primitives.primitive import Map
from chainrule.primitives.sources import full

MOST_LOOKED_AT = 300  # parts of one formula


@dataclass(frozen=True)
class Renaming:
    """The names in one formula of a gradient.

    `upstream` says, of each term of the chain rule, of which gradient it is made, and its name.
    `gradients` are nodes that have names of gradients only.  `written` has formulas that stand for
    values where these are no gradients, `defined` those of auxiliary symbols.
    """

    upstream: Mapping[Node, tuple[Node, str]]
    gradients: Collection[Node]
    written: Mapping[Node, Formula]
    defined: Mapping[Node, Formula]

    def applied(
        self, formula: Formula, within: Formula | None = None, now: tuple[Node, str] | None = None
    ) -> Formula:
        """The formula with its gradients by the names that are meant.

        `within` is what it is an operand of, `now` the gradient of the term that it belongs to.
        """
        if isinstance(formula, (Chain, Auxiliary)):
            return formula
        if formula.node in self.upstream:
            now = self.upstream[formula.node]
            now = now if self._is_told_apart(formula, now[0]) else None
        if isinstance(formula, Named):
            return self._said(formula, within, now)
        operands = tuple(self.applied(one, formula, now) for one in formula.operands)
        if all(map(operator.is_, operands, formula.operands)):
            return formula
        is_spanning = not isinstance(formula, Applied) or spans(formula.node, operands)
        return replace(formula, operands=operands, spans=is_spanning)

    def _said(self, leaf: Named, within: Formula | None, now: tuple[Node, str] | None) -> Formula:
        is_upstream = now is not None and leaf.node is now[0]
        is_number = leaf.node.primitive is full and leaf.node in self.gradients
        if is_number and isinstance(within, (Applied, Total)):
            if not is_upstream or not _is_linear(within, leaf):
                return Applied(leaf.node, spans=not leaf.node.shape)
        if now is not None and is_upstream:
            return replace(leaf, name=now[1])
        if within is None or any(leaf.node is node for node, _ in self.upstream.values()):
            return leaf
        return self.written.get(leaf.node, leaf)

    def _is_told_apart(self, term: Formula, upstream: Node) -> bool:
        """Whether the upstream gradient stands in a term as nothing else."""
        if upstream in self.gradients and upstream.primitive is not full:
            return True
        count, stack = 0, [term]
        for looked_at, formula in enumerate(_walk(stack, self.defined)):
            count += formula.node is upstream
            if count > 1 or looked_at > MOST_LOOKED_AT:
                return False
        return True


def _walk(stack: list[Formula], defined: Mapping[Node, Formula]) -> Iterator[Formula]:
    """All parts of the formulas, and of those that auxiliary symbols stand for."""
    while stack:
        formula = stack.pop()
        if isinstance(formula, Auxiliary) and formula.node in defined:
            formula = defined[formula.node]
        yield formula
        stack.extend(formula.operands)


def _is_linear(formula: Formula, operand: Formula) -> bool:
    """Whether a number that is an operand can be read as the upstream gradient."""
    if isinstance(formula, Total):
        return True
    primitive = formula.node.primitive
    if primitive is divide:
        return formula.operands[0].node is operand.node
    return primitive in (multiply, negative) or not isinstance(primitive.kernel, Map)
