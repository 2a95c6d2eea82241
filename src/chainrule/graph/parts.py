"""The parts of a graph besides its nodes: inputs, conditions, guards, gradients and their terms."""

from __future__ import annotations

from typing import Any, Literal

from chainrule.dataclass import dataclass, field
from chainrule.graph.node import Node
from chainrule.graph.origin import UNKNOWN, Origin
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType


@dataclass(frozen=True, eq=False)
class Input:
    """A named input of a graph; `default` is the value used when none is given (scalars)."""

    name: str
    node: Node
    default: Any = None

    @property
    def type(self) -> ArrayType:
        """The type a value must have."""
        return self.node.type


@dataclass(frozen=True)
class Condition:
    """What tracing could not prove about the sizes: how `expression` must compare with 0.

    `text` says it in words, `origin` is the line that relies on it.
    """

    expression: int | Size
    relation: Literal["==", ">=", "!="]
    text: str
    origin: Origin = field(default=UNKNOWN, compare=False)

    def holds(self, number: int) -> bool:
        """Whether it holds where the expression is this number."""
        match self.relation:
            case "==":
                return number == 0
            case ">=":
                return number >= 0
        return number != 0


@dataclass(frozen=True)
class ValueGuard:
    """A scalar input whose value the program used as a Python number while it was traced."""

    name: str
    value: Any
    origin: Origin = field(default=UNKNOWN, compare=False)


@dataclass(frozen=True, eq=False)
class Term:
    """One term of the chain rule: what the `argument`-th input of `consumer` contributes."""

    consumer: Node
    argument: int
    value: Node


@dataclass(frozen=True, eq=False)
class Gradient:
    """The cotangent `value` of `wrt`, the derivative of the output called `of`: its terms' sum."""

    of: str
    wrt: Node
    value: Node
    terms: tuple[Term, ...]
