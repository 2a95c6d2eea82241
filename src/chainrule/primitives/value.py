"""A `Value` is a node with arithmetic, so that derivative rules read like formulas."""

from __future__ import annotations

from typing import Any

from chainrule.graph.node import Node


class Value(Node):
    """A node whose operators build nodes.

    Strict: both sides have the same type, or one is a Python number, which becomes a constant of
    the other's type.  There is no broadcasting and no promotion; the front end has settled them.
    """

    __slots__ = ()

    def __add__(self, other: Node | float) -> Value:
        return arithmetic.add(self, like(other, self))

    def __radd__(self, other: float) -> Value:
        return arithmetic.add(like(other, self), self)

    def __sub__(self, other: Node | float) -> Value:
        return arithmetic.subtract(self, like(other, self))

    def __rsub__(self, other: float) -> Value:
        return arithmetic.subtract(like(other, self), self)

    def __mul__(self, other: Node | float) -> Value:
        return arithmetic.multiply(self, like(other, self))

    def __rmul__(self, other: float) -> Value:
        return arithmetic.multiply(like(other, self), self)

    def __truediv__(self, other: Node | float) -> Value:
        return arithmetic.divide(self, like(other, self))

    def __rtruediv__(self, other: float) -> Value:
        return arithmetic.divide(like(other, self), self)

    def __neg__(self) -> Value:
        return arithmetic.negative(self)


def like(value: Any, reference: Node) -> Node:
    """`value` itself if it is a node, else a constant of the type of `reference`."""
    if isinstance(value, Node):
        return value
    return sources.full_like(reference, value)


from chainrule.primitives import arithmetic, sources  # noqa: E402  (they are made of Values)
