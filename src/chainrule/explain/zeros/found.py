"""What `zeros` finds: elements that are 0 with their causes, and dead units."""

from __future__ import annotations

from typing import Any

from chainrule.dataclass import dataclass
from chainrule.explain.zeros.causes import Why
from chainrule.explain.zeros.units import DeadUnits
from chainrule.graph.in_notebooks import ShownByText


@dataclass(frozen=True)
class Cause:
    """A reason for which `count` elements of the gradient are 0.

    `because` says it in words, `place` is `model.py:12` or "", `value` the name of the value at
    which the walk ended, "" where it has none.  `within` says where in a loop or a choice that is:
    `at t = 1 to 3 (of 12) of the loop over cell`, "" outside; `also` what makes the same elements
    0 at other times.
    """

    why: Why
    because: str
    value: str
    place: str
    count: int
    within: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class ZeroElements:
    """A value of which `count` of `size` elements are 0, and the causes, the largest first.

    The counts of the causes add up to `count`, less what `others` counts.
    """

    name: str
    count: int
    size: int
    causes: tuple[Cause, ...]
    others: int


@dataclass(frozen=True)
class Zeros(ShownByText):
    """What `zeros` found: `gradients` with an element that is 0, and values with dead units."""

    graph: str
    gradients: tuple[ZeroElements, ...]
    dead: tuple[DeadUnits, ...]

    def __str__(self) -> str:
        from chainrule.explain.zeros.text import text

        return text(self)

    def _repr_html_(self) -> str:
        from chainrule.explain.zeros.text import html

        return html(self)

    def __rich__(self) -> Any:
        from rich.text import Text

        return Text(str(self))
