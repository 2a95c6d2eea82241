"""Formulas as trees of operations, with names, numbers and short forms as leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chainrule.dataclass import dataclass, field
from chainrule.graph.node import Node
from chainrule.primitives.notation import Form

# What an auxiliary symbol cuts off: longer formulas, deeper ones, and those written repeatedly.
LONGEST, DEEPEST, LONGEST_REPEATED = 28, 24, 4


@dataclass(frozen=True, eq=False)
class Unit:
    """Nodes that are shown as one function: a composite's call, or a statement called φ.

    `arguments` are, in the order of the call, nodes and texts of static arguments; `members` are
    what computes `result`; `symbol` and `latex` name the function, `below` stands under the symbol.
    Of a composite, `name` is what the program calls it, `call` are its arguments by name, and
    `gradients` their gradients in closed form (see `Textbook`).
    """

    result: Node
    arguments: tuple[Node | str, ...]
    members: frozenset[Node]
    symbol: str
    latex: str
    below: str = ""
    name: str = ""
    call: Mapping[str, object] = field(default_factory=dict)
    gradients: Mapping[str, Callable[[Any, Any, Any], Any]] = field(default_factory=dict)

    @property
    def variables(self) -> tuple[Node, ...]:
        """The arguments that are nodes."""
        return tuple(one for one in self.arguments if isinstance(one, Node))


@dataclass(frozen=True, eq=False)
class Formula:
    """What one node is, or (of chain rules) what it is a sum of.

    `node` is the node whose value the formula has, `operands` are its parts; `weight` counts
    what is written, `depth` how deep it nests.  `spans` says whether the formula as it is written
    has the shape of `node` without the reader's broadcasting.
    """

    node: Node
    operands: tuple[Formula, ...] = ()
    weight: int = 1
    depth: int = 1
    spans: bool = True


@dataclass(frozen=True, eq=False)
class Named(Formula):
    """A value by its name."""

    name: str = ""


@dataclass(frozen=True, eq=False)
class Auxiliary(Formula):
    """A value by a symbol that the equations made for it: a₃ has number 3."""

    number: int = 0


@dataclass(frozen=True, eq=False)
class Applied(Formula):
    """The node's own primitive, applied to the operands.

    Where a reduction `keeps` its axes, they are still there in its formula, with the length 1.
    """

    keeps: bool = False


@dataclass(frozen=True, eq=False)
class Called(Formula):
    """A unit applied to its arguments; operands are the formulas of `unit.variables`."""

    unit: Unit | None = None


@dataclass(frozen=True, eq=False)
class Slope(Formula):
    """The derivative of a unit, which is elementwise, by one variable: φ'(z).

    Operands as of `Called`.
    """

    unit: Unit | None = None
    variable: Node | None = None


@dataclass(frozen=True, eq=False)
class Pulled(Formula):
    """An upstream gradient times the derivative of a unit by one variable: ∂J/∂h ⊙ φ'(z).

    The first operand is the upstream gradient, the others are as of `Called`.
    """

    unit: Unit | None = None
    variable: Node | None = None
    is_elementwise: bool = False


@dataclass(frozen=True, eq=False)
class Curved(Formula):
    """Gradients times the second derivative of an elementwise unit: ∂v/∂(∂J/∂z) ⊙ φ″(z).

    The last operand is the formula of the variable, the others are factors.
    """

    unit: Unit | None = None
    variable: Node | None = None


@dataclass(frozen=True, eq=False)
class Total(Formula):
    """The sum of the operands: what several consumers contribute to one gradient."""


@dataclass(frozen=True, eq=False)
class Chain(Formula):
    """prod(∂J/∂o, ∂o/∂W₂): the operand is the upstream gradient, `consumer` the value called o.

    `local` is the name of the local derivative, such as do/dW2: of o as a function of what its
    equation `reads`.
    """

    consumer: Node | None = None
    variable: Node | None = None
    reads: tuple[Node, ...] = ()
    local: str = ""


@dataclass(frozen=True, eq=False)
class Held(Formula):
    """A loop or a choice, which is written as the equations of its body.

    Operands are the formulas of what it is given; `also` are loops that it does again.
    """

    also: tuple[Node, ...] = ()


@dataclass(frozen=True, eq=False)
class Result(Formula):
    """The `place`-th result of a loop or a choice `holder`."""

    holder: Node | None = None
    place: int = 0


def form_of(formula: Formula) -> Form | None:
    """The form of the operation that a formula applies; None of one that a template writes."""
    return formula.node.primitive.latex.form if isinstance(formula, Applied) else None


def parts_of(formula: Formula) -> Iterator[Formula]:
    """A formula and all that stands in it, from left to right."""
    stack = [formula]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(reversed(one.operands))


def symbols_in(formula: Formula) -> Iterator[Auxiliary]:
    """The auxiliary symbols that stand in a formula."""
    return (one for one in parts_of(formula) if isinstance(one, Auxiliary))
