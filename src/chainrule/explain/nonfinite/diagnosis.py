"""A `Diagnosis` names the first value of a run that is NaN or infinite, and what it poisoned."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.explain.nonfinite.phrases import number
from chainrule.explain.values.statistics import Statistics
from chainrule.graph.in_notebooks import ShownByText

IN_PROGRAM = "in the program"  # the phase of a constant


class Forward(StrEnum):
    """Whether forward propagation was finite."""

    FINITE = "the forward pass was finite"
    RECOVERED = "the results of the forward pass were finite"
    NOT_FINITE = "the forward pass was not finite"


@dataclass(frozen=True)
class Operand:
    """What the first bad value was computed from."""

    value: str
    type: str
    statistics: Statistics


@dataclass(frozen=True)
class Element:
    """One bad element, and the elements of the operands that made it: `("x[3, 7] = 0", ...)`.

    Where the operation is not elementwise, those are the first element of each operand that is
    not finite, or else its largest.
    """

    index: tuple[int, ...]
    became: float
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Poisoned:
    """A named value that something bad came to from the first one."""

    name: str
    count: int
    size: int


@dataclass(frozen=True)
class Diagnosis(ShownByText):
    """The first value that is not finite and reached a result, and the chain after it.

    `value` is its name, else its expression (then `part_of` is the named value it is a part of);
    `expression` how it was computed, "" for one that was not.  `phase` is the pass in which it came
    about ("before the run began" for an input, "in the program" for a constant).  `place` is
    `model.py:31`, `where` shows the line.  `count` of its `size` elements are not finite, of which
    `at_fault` are so by themselves and did harm to a result; `elements` are the first of these.
    `inside` says in which iteration of a loop, or branch of a choice, from the outermost on.
    `because` and `hint` are "" where there is nothing classical to say.
    """

    graph: str
    value: str
    part_of: str
    expression: str
    became: str
    phase: str
    forward: Forward
    place: str
    where: str
    because: str
    hint: str
    count: int
    size: int
    elements: tuple[Element, ...]
    inputs: tuple[Operand, ...]
    poisoned: tuple[Poisoned, ...]
    at_fault: int
    inside: tuple[str, ...] = ()

    @property
    def indices(self) -> tuple[tuple[int, ...], ...]:
        """The places of the first bad elements."""
        return tuple(one.index for one in self.elements)

    @property
    def was_computed(self) -> bool:
        """Whether the value is no input and no constant."""
        return bool(self.expression)

    @property
    def forward_was_finite(self) -> bool:
        """Whether every value of forward propagation was finite."""
        return self.forward is Forward.FINITE

    def json(self) -> dict[str, Any]:
        """The same as dicts, lists, strings, numbers and booleans; numbers that JSON lacks are
        the strings "NaN", "inf" and "-inf"."""
        plain = ("graph", "value", "part_of", "expression", "became", "phase", "place", "where")
        return {
            "schema": "chainrule.nonfinite/1",
            **{
                name: getattr(self, name)
                for name in (*plain, "because", "hint", "count", "size", "at_fault")
            },
            "forward_was_finite": self.forward_was_finite,
            "inside": list(self.inside),
            "elements": [
                {
                    "index": list(one.index),
                    "became": _number(one.became),
                    "operands": list(one.operands),
                }
                for one in self.elements
            ],
            "inputs": [
                {
                    "value": one.value,
                    "type": one.type,
                    **{key: _number(found) for key, found in vars(one.statistics).items()},
                }
                for one in self.inputs
            ],
            "poisoned": [dict(vars(one)) for one in self.poisoned],
        }

    def __str__(self) -> str:
        from chainrule.explain.nonfinite.text import text

        return text(self)

    def _repr_html_(self) -> str:
        from chainrule.explain.nonfinite.text import html

        return html(self)

    def __rich__(self) -> Any:
        from chainrule.explain.nonfinite.text import rich_text

        return rich_text(self)


def _number(value: float) -> float | int | str:
    return value if abs(value) < float("inf") else number(value)
