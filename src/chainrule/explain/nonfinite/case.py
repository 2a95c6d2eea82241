"""A computed fault that is to be explained, and its cause."""

from __future__ import annotations

from chainrule.dataclass import dataclass
from chainrule.explain.nonfinite.fault import Fault
from chainrule.explain.nonfinite.phrases import Names, beneath, phrase
from chainrule.graph.node import Node

EPS = "with a small eps"


@dataclass(frozen=True)
class Cause:
    """Why, and what to try."""

    because: str
    hint: str


@dataclass(frozen=True)
class Case:
    """A fault that was computed, to be explained.

    `derived` is the forward operation as a part of whose derivative it came about (None: it is no
    part of one); `derived_was_bad` whether that was not finite itself, `left_out` whether np.where
    then chose the other side.  `parameters` has the largest absolute value of each parameter.
    """

    fault: Fault
    names: Names
    derived: Node | None
    derived_was_bad: bool
    left_out: bool
    updates: bool
    parameters: tuple[tuple[str, float], ...]

    @property
    def node(self) -> Node:
        """The operation that gave the first bad value."""
        return self.fault.node

    @property
    def operands(self) -> list[float]:
        """The operands at the first bad element."""
        return [value for _, value in self.fault.operands[0]]

    def name(self, place: int) -> str:
        """An operand in words."""
        return phrase(self.node.inputs[place], self.names)

    def beneath(self, place: int) -> Node:
        """An operand, without the casts and reshapes around it."""
        return beneath(self.node.inputs[place], self.names)
