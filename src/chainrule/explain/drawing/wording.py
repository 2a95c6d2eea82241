"""What is written into the circle of a unit: a sign, a composite's symbol, ℓ₂, φ, a formula."""

from __future__ import annotations

from collections.abc import Callable

from chainrule.explain.drawing.expressions import SILENT, short_expression, symbol_scopes
from chainrule.explain.drawing.signs import sign
from chainrule.explain.drawing.units import Unit
from chainrule.explain.reading.statements import GENERATED
from chainrule.graph.node import Node
from chainrule.graph.origin import Scope
from chainrule.primitives.arithmetic import add, divide, integer_power, multiply, negative, subtract
from chainrule.primitives.movement import broadcast_to, transpose
from chainrule.primitives.primitive import Flat, Map
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import constant, input_

LONGEST = 14  # characters of a formula in a circle
SQUARES, ELEMENTWISE, ANY = "ℓ₂", "φ", "f"
_LINEAR = (add, subtract, multiply, divide, negative, integer_power)


def wording(unit: Unit, name: Callable[[Node], str]) -> str:
    """At most `LONGEST` characters that say what the unit computes."""
    own = set(unit.nodes)
    if unit.alone:
        shown = sign(unit.value.primitive)
        return shown if shown != "^" else short_expression(unit.value, own, _dot, LONGEST) or shown
    effective = [n for n in unit.nodes if n.primitive not in (*GENERATED, *SILENT, constant)]
    symbol = _composite(unit, effective)
    if symbol:
        return symbol
    turned = [node for node in effective if node.primitive is not transpose]
    if len(effective) <= 1 or (len(turned) == 1 and turned[0] is unit.value):
        node = turned[0] if turned else unit.value
        return _one_operation(node, own, name)
    if _is_sum_of_squares(effective, unit.reads):
        return SQUARES
    plain = all(node.primitive in _LINEAR for node in effective)
    if _is_elementwise(unit, effective) and not plain:
        return ELEMENTWISE
    named = short_expression(unit.value, own, name, LONGEST)
    dotted = short_expression(unit.value, own, _dot, LONGEST, "×")
    return named or dotted or (ELEMENTWISE if _is_elementwise(unit, effective) else ANY)


def _dot(node: Node) -> str:
    return "·"


def _composite(unit: Unit, effective: list[Node]) -> str:
    """The symbol of the outermost composite that all of the unit belongs to, or ''."""
    common: list[Scope] = symbol_scopes(unit.value)
    for scope in common:
        if all(scope in symbol_scopes(node) for node in effective):
            return scope.symbol
    return ""


def _one_operation(node: Node, own: set[Node], name: Callable[[Node], str]) -> str:
    shown = sign(node.primitive)
    if len(node.inputs) == 1 and shown in ("=", "^") and node.primitive not in SILENT:
        return short_expression(node, own, name, LONGEST) or shown
    operands = [_beneath(parent, own) for parent in node.inputs]
    drawn = [one for one in operands if one.primitive not in GENERATED]
    if len(operands) == 2 and len(drawn) == 1:  # the other one is a number
        if node.primitive not in _LINEAR and isinstance(node.primitive.kernel, Map):
            return shown if isinstance(node.primitive.derivative, Flat) else ELEMENTWISE
        return short_expression(node, own, name, LONGEST) or shown
    return shown


def _beneath(node: Node, own: set[Node]) -> Node:
    while node in own and node.primitive in (*SILENT, transpose):
        node = node.inputs[0]
    return node


def _is_sum_of_squares(effective: list[Node], reads: tuple[Node, ...]) -> bool:
    """Sums of squares of inputs, times scalars: weight decay."""
    arrays = [node for node in reads if node.ndim]
    if not arrays or any(node.primitive is not input_ for node in arrays):
        return False
    squares = 0
    for node in effective:
        if not node.ndim:
            if node.primitive not in (*_LINEAR, sum_, broadcast_to):
                return False
        elif not _is_square(node):
            return False
        squares += _is_square(node) and node.ndim > 0
    return squares > 0


def _is_square(node: Node) -> bool:
    if node.primitive is integer_power:
        return node.param("exponent") == 2
    return node.primitive is multiply and node.inputs[0] is node.inputs[1]


def _is_elementwise(unit: Unit, effective: list[Node]) -> bool:
    """A function of one array, element by element."""
    arrays = [node for node in unit.reads if node.ndim]
    shape = unit.value.shape
    return (
        len(arrays) == 1
        and arrays[0].shape == shape
        and all(isinstance(node.primitive.kernel, Map) for node in effective)
    )
