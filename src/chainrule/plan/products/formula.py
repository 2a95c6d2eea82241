"""What a folded product computes, as a formula: `W_next = (1 - a) W - b x^T dJ/dz`."""

from __future__ import annotations

from collections.abc import Container
from itertools import groupby

from chainrule.graph.node import Node
from chainrule.graph.words import Word, operation
from chainrule.plan.products.fold import Coefficient, Monomial, Products
from chainrule.plan.roles import is_widening
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import transpose
from chainrule.primitives.primitive import MOVING
from chainrule.primitives.products import matmul


def formula(products: Products, word: Word, named: Container[Node]) -> str:
    """The sum that the products' calls compute, `word` giving the names of values.

    Unnamed scalars are called by what they were cast from, unnamed rearrangements by what they
    rearrange: `x^T`, `reshape(q)`.  Of terms that look alike (products of blocks of rows) one is
    written.
    """
    terms = [(coefficient, _product(node, word, named)) for node, coefficient in products.terms]
    if products.base is not None:
        terms.insert(0, (products.base_coefficient, word(products.base)))
    found = ""
    for (coefficient, operand), alike in groupby(terms):
        sign, factor = _factor(coefficient, word, named)
        count = sum(1 for _ in alike)
        operand += f" + ... ({count} alike)" * (count > 1)
        joint = f" {sign} " if found else "-" * (sign == "-")
        found += joint + (f"{factor} {operand}" if factor else operand)
    return f"{word(products.root)} = {found}"


def _product(node: Node, word: Word, named: Container[Node]) -> str:
    def operand(one: Node) -> str:
        return operand_text(one, word, named)

    if node.primitive is matmul:
        return " ".join(map(operand, node.inputs))
    return operation(node, operand)


def operand_text(node: Node, word: Word, named: Container[Node]) -> str:
    """The name of a value, or of what it rearranges or holds in more bytes."""
    around: list[Node] = []
    while node not in named and len(node.inputs) == 1:
        if isinstance(node.primitive.kernel, MOVING):
            around.append(node)
        elif not is_widening(node):
            break
        node = node.inputs[0]
    found = word(node)
    for one in reversed(around):
        if one.primitive is transpose and _swaps_last(one):
            found = f"{found}^T"
        else:
            found = f"{one.primitive.name}({found})"
    return found


def _swaps_last(node: Node) -> bool:
    """Whether only the last two axes are exchanged."""
    last = node.ndim - 1
    return node.param("permutation") == (*range(last - 1), last, last - 1)


def _factor(coefficient: Coefficient, word: Word, named: Container[Node]) -> tuple[str, str]:
    """The sign, and the size of a coefficient ("" for 1)."""
    numbers_first = sorted(coefficient, key=lambda one: len(one.times) + len(one.over))
    parts = [_monomial(one, word, named) for one in numbers_first]
    if len(parts) == 1:
        sign, size = parts[0]
        return sign, "" if size == "1" else size
    found = "-" * (parts[0][0] == "-") + parts[0][1]
    for sign, size in parts[1:]:
        found += f" {sign} {size}"
    return "+", f"({found})"


def _monomial(one: Monomial, word: Word, named: Container[Node]) -> tuple[str, str]:
    sign = "-" if one.number < 0 else "+"
    factors = [_scalar(node, word, named) for node in one.times]
    if abs(one.number) != 1 or not factors:
        factors.insert(0, f"{abs(one.number):g}")
    divisors = "".join(f" / {_scalar(node, word, named)}" for node in one.over)
    return sign, " ".join(factors) + divisors


def _scalar(node: Node, word: Word, named: Container[Node]) -> str:
    """The name of a number, or of what it was cast from."""
    while node not in named and node.primitive is cast:
        node = node.inputs[0]
    return word(node)
