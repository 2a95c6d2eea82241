"""What is written into the circle of a unit: a sign, a composite's symbol, ℓ₂, φ, a formula.

Any function of one array, element by element, is φ, with its name below the circle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from chainrule.control import cond_primitive
from chainrule.dataclass import dataclass
from chainrule.explain.drawing.axes import index_of, index_of_call
from chainrule.explain.drawing.expressions import (
    is_number,
    is_silent,
    outline_expression,
    short_expression,
    symbol_scopes,
)
from chainrule.explain.drawing.signs import sign
from chainrule.explain.drawing.units import Unit
from chainrule.explain.reading.bodies import Result, is_stacked
from chainrule.explain.reading.statements import GENERATED
from chainrule.graph.body import bodies_of
from chainrule.graph.node import Node
from chainrule.graph.origin import Scope
from chainrule.primitives.arithmetic import (
    add,
    divide,
    integer_power,
    multiply,
    negative,
    sqrt,
    subtract,
)
from chainrule.primitives.movement import broadcast_to, transpose
from chainrule.primitives.primitive import Flat, Map, Partials
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import constant, input_

LONGEST = 14  # characters of a formula in a circle
LONGEST_NAME = 18  # of the formula of a function, below its circle
SQUARES, ELEMENTWISE, NORMALISED = "ℓ₂", "φ", "normalise"
LAMBDA = "function"  # what a body is called that has no name
IN_WORDS = {"σ": "sigmoid", "log σ": "log sigmoid"}  # names of functions that are symbols elsewhere
NO_RESULTS: Mapping[Node, Result] = MappingProxyType({})
_LINEAR = (add, subtract, multiply, divide, negative, integer_power)


@dataclass(frozen=True)
class Wording:
    """What stands in a circle, and below it the name of the function that is φ."""

    sign: str
    name: str = ""

    @property
    def whole(self) -> str:
        """What says it where there is one place only."""
        return self.name or self.sign


def wording(
    unit: Unit, name: Callable[[Node], str], results: Mapping[Node, Result] = NO_RESULTS
) -> Wording:
    """At most `LONGEST` characters that say what the unit computes.

    `results` are those of loops and choices.
    """
    effective = [
        n for n in unit.nodes if n.primitive not in (*GENERATED, constant) and not is_silent(n)
    ]
    said = _sign(unit, effective, name, results)
    if not _is_elementwise(unit, effective):
        return Wording(said)
    if said == ELEMENTWISE:
        return Wording(said, short_expression(unit.value, {*unit.nodes}, _dot, LONGEST_NAME) or "")
    is_call = bool(symbol_scopes(unit.value)) and not unit.alone
    is_function = is_call or _is_named_function(effective)
    return Wording(ELEMENTWISE, IN_WORDS.get(said, said)) if is_function else Wording(said)


def _is_named_function(effective: list[Node]) -> bool:
    """Whether one operation is all, and written by a word as tanh is, not by a sign as √ is."""
    if len(effective) != 1:
        return False
    primitive = effective[0].primitive
    is_smooth = isinstance(primitive.derivative, Partials)
    return is_smooth and any(map(str.isalpha, sign(primitive)))


def _sign(
    unit: Unit,
    effective: list[Node],
    name: Callable[[Node], str],
    results: Mapping[Node, Result],
) -> str:
    own = set(unit.nodes)
    if unit.alone:
        shown = sign(unit.value.primitive) + index_of(unit.value)
        return shown if shown != "^" else short_expression(unit.value, own, _dot, LONGEST) or shown
    symbol = _composite(unit, effective) or _loop_or_choice(unit, results, name)
    if symbol:
        return symbol
    turned = [node for node in effective if node.primitive is not transpose]
    if len(effective) <= 1 or (len(turned) == 1 and turned[0] is unit.value):
        node = turned[0] if turned else unit.value
        return _one_operation(node, own, name)
    if _is_sum_of_circles(unit, effective, name):
        return sign(add)
    squares = _squares(unit, effective, own, name)
    if squares:
        return squares
    plain = all(node.primitive in _LINEAR for node in effective)
    if _is_elementwise(unit, effective) and not plain:
        return ELEMENTWISE
    named = short_expression(unit.value, own, name, LONGEST)
    if named:
        return named
    if any(_is_normalised(node, own) for node in effective):
        return NORMALISED
    dotted = short_expression(unit.value, own, _dot, LONGEST, "×")
    if dotted or _is_elementwise(unit, effective):
        return dotted or ELEMENTWISE
    return outline_expression(unit.value, own, LONGEST) or sign(unit.value.primitive)


def _is_sum_of_circles(unit: Unit, effective: list[Node], name: Callable[[Node], str]) -> bool:
    """Whether the unit only adds what it reads, and that has no names: arrows say what."""
    return all(node.primitive is add for node in effective) and "·" in map(name, unit.reads)


def _is_normalised(node: Node, own: set[Node]) -> bool:
    """(x − m) / √v."""
    if node.primitive is not divide:
        return False
    above, below = (_beneath(one, own) for one in node.inputs)
    return {above, below} <= own and above.primitive is subtract and below.primitive is sqrt


def _loop_or_choice(unit: Unit, results: Mapping[Node, Result], name: Callable[[Node], str]) -> str:
    """`scan cell`, where that is all of the unit; for a part of what it gives, `last` or `all`.

    A choice says its condition: `large > 1 ?`.
    """
    result = results.get(unit.value)
    if result is None:
        return ""
    holder = result.holder
    word, bodies = holder.primitive.name.strip("_"), [*bodies_of(holder)]
    if holder in unit.nodes:
        if holder.primitive is cond_primitive:
            own = {node for node in unit.nodes if node is not holder}
            condition = short_expression(holder.inputs[0], own, name, LONGEST - 2)
            return f"{condition} ?" if condition else word
        whole = f"{word} {bodies[0]}"
        is_named = str(bodies[0]).isidentifier()
        return whole if is_named and len(whole) <= LONGEST and str(bodies[0]) != LAMBDA else word
    if holder.primitive is cond_primitive:
        return ""
    return "all" if is_stacked(result) else "last"


def _dot(node: Node) -> str:
    return "·"


def _composite(unit: Unit, effective: list[Node]) -> str:
    """The symbol of the outermost composite that all of the unit belongs to, or ''."""
    common: list[Scope] = symbol_scopes(unit.value)
    for scope in common:
        if all(scope in symbol_scopes(node) for node in effective):
            return scope.sign + index_of_call(scope)
    return ""


def _one_operation(node: Node, own: set[Node], name: Callable[[Node], str]) -> str:
    shown = sign(node.primitive) + index_of(node)
    if node.primitive in GENERATED:
        return short_expression(node, own, name, LONGEST) or shown
    if len(node.inputs) == 1 and shown in ("=", "^") and not is_silent(node):
        return short_expression(node, own, name, LONGEST) or shown
    operands = [_beneath(parent, own) for parent in node.inputs]
    drawn = [one for one in operands if one.primitive not in GENERATED and not is_number(one)]
    if len(operands) == 2 and len(drawn) == 1:  # the other one is a number
        if node.primitive not in _LINEAR and isinstance(node.primitive.kernel, Map):
            return shown if isinstance(node.primitive.derivative, Flat) else ELEMENTWISE
        named = short_expression(node, own, name, LONGEST)
        return named or short_expression(node, own, _dot, LONGEST) or shown
    return shown


def _beneath(node: Node, own: set[Node]) -> Node:
    while node in own and (is_silent(node) or node.primitive is transpose):
        node = node.inputs[0]
    return node


def _squares(unit: Unit, effective: list[Node], own: set[Node], name: Callable[[Node], str]) -> str:
    """`ℓ₂` for weight decay, `L + ℓ₂` where a value is added to it; '' for something else."""
    rest, added = unit.value, []
    while rest.primitive is add and rest in own:
        outside = [one for one in rest.inputs if one not in own]
        if len(outside) != 1:
            break
        added.append(outside[0])
        effective = [node for node in effective if node is not rest]
        (rest,) = (one for one in rest.inputs if one in own)
    sums = [node for node in effective if node.primitive in (add, subtract)]
    operands = [_beneath(one, own) for node in sums for one in node.inputs]
    is_closed = all(one in own and one.primitive not in GENERATED for one in operands)
    if not is_closed or not _is_sum_of_squares(effective, unit.reads):
        return ""
    text = " + ".join([*map(name, reversed(added)), SQUARES])
    return text if len(text) <= LONGEST else f"{'· + ' * len(added)}{SQUARES}"


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
