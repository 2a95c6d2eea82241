"""The sign and the absolute value, whose second derivative is that of both sides.

At 0 the derivative of |x| is sign(0) = 0.  In the second derivative of f(|x|), f''(|x|) sign(x)^2,
that would leave 0 of what f'' is on both sides of 0: so where a sign meets itself, both are left
out.  |x| log(|x| + 1) has the second derivative 2 at 0, cos(|x|) has -1.
"""

from __future__ import annotations

from typing import Any

from chainrule.graph.node import Node
from chainrule.primitives import arithmetic, logic
from chainrule.primitives.families import at_zero, elementwise
from chainrule.primitives.primitive import ATOM, Flat, Latex, Move
from chainrule.primitives.python import calls
from chainrule.primitives.sources import full, full_like

LOOKED_AT = 100  # nodes among which a second sign is looked for
FACTORS = 16  # nodes of a product among which the first is looked for

sign = elementwise(
    "sign",
    "-1, 0 or 1 by the sign of x; its derivative is 0, at 0 too.",
    lambda xp, x: xp.sign(x),
    Flat(),
    kernel="sign(x)",
    latex=Latex(r"\operatorname{{sign}}({x})", ATOM, (0,)),
    kink=at_zero,
)


Moved = tuple[Any, ...]  # a value, and the moves of its sign, the last one first


def _signs(node: Node) -> list[Moved]:
    """The values whose signs are factors of a product, and of the products that it is made of."""
    found: list[Moved] = []
    pending: list[tuple[Node, Moved]] = [(node, ())]
    left = FACTORS
    while pending and left:
        (one, moves), left = pending.pop(), left - 1
        if one.primitive is sign:
            found.append((one.inputs[0], *moves))
        elif one.primitive is arithmetic.multiply:
            pending += [(x, moves) for x in one.inputs]
        elif one.primitive in (arithmetic.divide, arithmetic.negative):
            pending.append((one.inputs[0], moves))
        elif _is_move(one):
            pending.append((one.inputs[0], (*moves, (one.primitive, one.params))))
    return found


def _is_move(node: Node) -> bool:
    return isinstance(node.primitive.kernel, Move) and len(node.inputs) == 1


def _without(g: Any, x: Moved, seen: dict[tuple[Node, int], Any]) -> Any:
    """What the sign of x is multiplied by to give g; None where g has no such factor."""
    key = g, len(x)
    if key in seen or len(seen) > LOOKED_AT:
        return seen.get(key)
    seen[key] = None
    found = None
    if g.primitive is sign:
        found = full_like(g, 1) if x == g.inputs else None
    elif g.primitive is arithmetic.multiply:
        one, other = g.inputs
        if (rest := _without(one, x, seen)) is not None:
            found = other if _is(rest, 1) else rest * other
        elif (rest := _without(other, x, seen)) is not None:
            found = one if _is(rest, 1) else one * rest
    elif g.primitive in (arithmetic.divide, arithmetic.negative):
        rest = _without(g.inputs[0], x, seen)
        found = None if rest is None else g.primitive(rest, *g.inputs[1:])
    elif g.primitive in (arithmetic.add, arithmetic.subtract):
        rests = [one if _is(one, 0) else _without(one, x, seen) for one in g.inputs]
        found = None if None in rests else g.primitive(*rests)
    elif g.primitive is logic.where:
        rests = [one if _is(one, 0) else _without(one, x, seen) for one in g.inputs[1:]]
        found = None if None in rests else g.primitive(g.inputs[0], *rests)
    elif len(x) > 1 and x[1] == (g.primitive, g.params):
        rest = _without(g.inputs[0], (x[0], *x[2:]), seen)
        if rest is not None:
            found = full_like(g, 1) if _is(rest, 1) else g.primitive(rest, **dict(g.params))
    seen[key] = found
    return found


def _is(node: Node, value: float) -> bool:
    return node.primitive is full and node.param("value") == value


def _terms(g: Node) -> list[Node]:
    """What g is the sum of, also where the sum was moved."""
    found, pending = [], [g]
    while pending:
        one = pending.pop()
        inner = one.inputs[0] if _is_move(one) else one
        if inner.primitive is not arithmetic.add or len(found) + len(pending) > LOOKED_AT:
            found.append(one)
        elif inner is one:
            pending += one.inputs[::-1]
        else:
            pending += [one.primitive(x, **dict(one.params)) for x in inner.inputs[::-1]]
    return found


def _met(g: Any, x: Moved, factor: Any) -> Any:
    """g times a factor with the sign of x: without the sign in each term of the sum g that has it
    itself; None where no term has."""
    seen: dict[tuple[Node, int], Any] = {}
    rests = [(term, _without(term, x, seen)) for term in _terms(g)]
    if all(rest is None for _, rest in rests):
        return None
    alone = _without(factor, x, {})
    total = None
    for term, rest in rests:
        part = term * factor if rest is None else rest if _is(alone, 1) else rest * alone
        total = part if total is None else total + part
    return total


PRODUCTS = (sign, arithmetic.multiply, arithmetic.divide, arithmetic.negative)


def product(x: Any, y: Any) -> Any:
    """x y for derivative rules: a sign that meets itself is left out of both."""
    for one, other in ((x, y), (y, x)):
        if one.primitive not in PRODUCTS and not _is_move(one):
            continue
        for signed in _signs(one):
            found = _met(other, signed, one)
            if found is not None:
                return found
    return x * y


def times(x: Any, y: Any) -> Any:
    """x y, of a derivative and the slope of an elementwise function."""
    return product(x, y) if x.primitive is sign or y.primitive is sign else x * y


absolute = elementwise(
    "absolute",
    "The absolute value of x; its derivative at 0 is 0.",
    lambda xp, x: xp.abs(x),
    lambda out, x: sign(x),
    kernel="fabs(x)",
    latex=Latex(r"\left|{x}\right|", ATOM, (0,)),
    python=calls("abs", ("x",), "magnitude"),
    kink=at_zero,
)
