"""A computation in one short line: `x + F W₂`, `mean((r − t)²)`; None where it gets too long."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import numpy as np

from chainrule.explain.drawing.axes import index_of, index_of_call
from chainrule.explain.drawing.signs import written
from chainrule.explain.reading.numbers import root_of
from chainrule.graph.node import Node
from chainrule.graph.origin import Scope
from chainrule.primitives.movement import reshape
from chainrule.primitives.notation import ADDITIVE, ATOM, POWER, PRODUCT, Form
from chainrule.primitives.primitive import Contract
from chainrule.primitives.sources import constant, full, size_value

DEEPEST = 12  # operations within each other; deeper ones are too long in any case
MOST_WRITTEN = 400  # operands; a value that many operations share is written out for each of them
FEW = 3  # elements of a constant that are written
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SLOT = re.compile(r"\{(\w+)\}")
NUMBERS = (full, size_value)
SILENT = (Form.CONVERSION, Form.REPETITION)  # nothing is written for these forms

Name = Callable[[Node], str]


class TooLong(Exception):
    """The expression does not fit."""


def short_expression(
    value: Node, own: Collection[Node], name: Name, most: int, product: str = ""
) -> str | None:
    """How `value` is computed from what is not among `own`, in at most `most` characters.

    `product` is written between the factors of a matrix product; where it is given, scalar factors
    of arrays are left out.
    """
    try:
        text, _ = _Writer(set(own), name, product).write(value, None, 0)
    except TooLong:
        return None
    return text if len(text) <= most else None


def outline_expression(value: Node, own: Collection[Node], most: int) -> str | None:
    """The outermost operations of `value`, as many as fit into `most` characters: `· ⊙ · + ·`."""
    for deepest in range(DEEPEST, 0, -1):
        try:
            text, _ = _Writer(set(own), _dot, "×", deepest).write(value, None, 0)
        except TooLong:
            continue
        if len(text) <= most:
            return text
    return None


def _dot(node: Node) -> str:
    return "·"


def is_number(node: Node) -> bool:
    """Whether a value is written as a number: a uniform constant, a size, a scalar without name."""
    if node.primitive is constant:
        return not node.ndim and not node.param("value").name
    return node.primitive in NUMBERS


def constant_text(node: Node) -> str:
    """A constant without a name: its number, where all elements are one, or else few of them."""
    if node.primitive is not constant:
        return "·"
    array = node.param("value").array
    if array.size and (array == array.flat[0]).all():
        return _number(array.flat[0])
    if array.ndim == 1 and array.size <= FEW:
        return f"[{', '.join(map(_number, array))}]"
    return "const"


def is_silent(node: Node) -> bool:
    """Whether nothing is written for a node: elements and order are those of its input.

    A reshape is silent where it only adds or drops axes of length 1, as `keepdims` does.
    """
    if node.primitive is reshape:
        before, after = ([size for size in one.shape if size != 1] for one in (*node.inputs, node))
        return before == after
    return node.primitive.latex.form in SILENT


def symbol_scopes(node: Node) -> list[Scope]:
    """The composites in whose call the node was made, outermost first.

    Their derivatives were not made in the call, although they come from its place.
    """
    scopes = [] if node.origin.transform else node.origin.scopes
    return [scope for scope in reversed(scopes) if scope.symbol]


class _Writer:
    """Writes the nodes in `own`; others are written by their name."""

    def __init__(
        self, own: set[Node], name: Name, product: str, deepest: int | None = None
    ) -> None:
        self.own, self.name, self.product, self.deepest = own, name, product, deepest
        self.written = 0

    def write(self, node: Node, within: Scope | None, depth: int) -> tuple[str, int]:
        """The text and how strongly it binds."""
        self.written += 1
        if self.written > MOST_WRITTEN:
            raise TooLong
        if depth > DEEPEST:
            raise TooLong
        whole, node = node, self._bare(node)
        if depth == 0 and node not in self.own and whole.primitive is reshape:
            return self._operation(whole, within, depth)
        if node.primitive is full:
            return _number(node.param("value")), ATOM
        if node.primitive is size_value:
            return _size(str(node.param("size")))
        if is_number(node):
            return _number(node.param("value").array), ATOM
        if node not in self.own or depth == self.deepest:
            return self.name(node), ATOM
        scopes = symbol_scopes(node)
        if within is None and scopes:
            return self._call(node, scopes[0], depth)
        return self._operation(node, within, depth)

    def _call(self, node: Node, scope: Scope, depth: int) -> tuple[str, int]:
        """A composite: its symbol, and what its nodes read from outside."""
        arguments: dict[str, None] = {}
        stack, seen = [node], {node}
        while stack:
            for parent in reversed(stack.pop().inputs):
                if parent in seen or parent.primitive in NUMBERS:
                    continue
                seen.add(parent)
                if parent in self.own and (
                    scope in symbol_scopes(parent) or not parent.inputs or _is_same(parent)
                ):
                    stack.append(parent)
                else:
                    arguments[self.write(parent, None, depth + 1)[0]] = None
        function = scope.sign.partition(" ")[0] if scope.sign != scope.symbol else scope.symbol
        function += index_of_call(scope)
        return f"{function}({', '.join(reversed(arguments))})", ATOM

    def _operation(self, node: Node, within: Scope | None, depth: int) -> tuple[str, int]:
        line, form = written(node.primitive), node.primitive.latex.form
        names = node.primitive.inputs
        if len(names) != len(node.inputs):
            names = tuple(f"x{place}" for place in range(len(node.inputs)))
            template, operands = "[" + ", ".join(f"{{{one}}}" for one in names) + "]{axes}", (0,)
        else:
            template, operands = line.template, line.operands
        binding = line.binding
        if isinstance(node.primitive.kernel, Contract) and self.product:
            template = f"{{x}} {self.product} {{y}}"
        elif form is Form.PRODUCT and not all(self._array(one) for one in node.inputs):
            arrays = [one for one in node.inputs if self._array(one)]
            if self.product and arrays:  # a scalar factor says little where there are no names
                return self.write(arrays[0], within, depth + 1)
            first, second = ("y", "x") if self._number_last(node) else ("x", "y")
            template = f"{{{first}}} {self.product or ''} {{{second}}}".replace("  ", " ")
        values: dict[str, str] = {}
        for place, (key, parent) in enumerate(zip(names, node.inputs, strict=True)):
            text, strength = self.write(parent, within, depth + 1)
            needed = operands[min(place, len(operands) - 1)] if operands else 0
            if isinstance(node.primitive.kernel, Contract) and " ⊙ " in text:
                needed = ATOM  # (r ⊙ s) U, where nothing stands between the factors
            values[key] = text if strength >= needed else f"({text})"
        if form is Form.POWER and len(names) == 1:
            return values[names[0]] + str(node.param("exponent")).translate(_RAISED), POWER
        values["axes"] = index_of(node)
        for key, value in node.params:
            values.setdefault(key, str(value))
        text = _SLOT.sub(lambda match: values.get(match[1], match[0]), template)
        return text, PRODUCT if binding == PRODUCT and " " not in text else binding

    def _number_last(self, node: Node) -> bool:
        """Whether a product is of something and a number: a number is written first."""
        first, second = (is_number(self._bare(one)) for one in node.inputs)
        return second and not first

    def _array(self, node: Node) -> bool:
        """Whether the operand has axes before it is broadcast."""
        node = self._bare(node)
        return node.ndim > 0 and node.primitive is not full

    def _bare(self, node: Node) -> Node:
        while node in self.own and is_silent(node):
            node = node.inputs[0]
        return node


def _is_same(node: Node) -> bool:
    return node.primitive is reshape or is_silent(node)


def _size(text: str) -> tuple[str, int]:
    sums = "+" in text or "-" in text
    return text.replace("*", "·"), ADDITIVE if sums else PRODUCT if "*" in text else ATOM


def _number(value: object) -> str:
    number = np.asarray(value).item()
    if (inside := root_of(np.asarray(value)[()])) is not None:
        return f"√{inside}" if inside > 0 else f"1/√{-inside}"
    text = f"{number:.4g}" if isinstance(number, float) else str(number)
    return text.replace("-", "−")
