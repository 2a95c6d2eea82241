"""How a value holds the batch, as data: by examples, as a sum over them, or in parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


@dataclass(frozen=True)
class Parts:
    """A flat array of several: where each begins, its shape, and how it holds the batch."""

    items: tuple[Part, ...]


@dataclass(frozen=True)
class Holding:
    """How a value holds the batch.

    `axis`: example i has the i-th of n equal parts along it.  `summed`: the value is a sum over
    examples.  Neither: no example reaches it.  Either way, what n examples give is n to the power
    `degree` times what one gives (on average, of a sum); None where that is not known.  `parts` are
    those of a packed array, `varies`: rows differ although no example reaches them.
    """

    axis: int | None = None
    summed: bool = False
    degree: int | None = 0
    varies: bool = False
    parts: Parts | None = None

    @property
    def of_examples(self) -> bool:
        """Whether examples reach it."""
        return self.axis is not None or self.summed or self.parts is not None


Part = tuple[int, tuple[int, ...], Holding]
CONSTANT, SUMMED = Holding(), Holding(summed=True, degree=1)


@dataclass(frozen=True)
class Held:
    """How every node of a graph holds the batch whose size is called `size`."""

    graph: Graph
    size: str
    of: Mapping[Node, Holding]


def alone(items: Sequence[Part], shape: tuple[Any, ...]) -> Holding | None:
    """How the one part holds the batch, if it is all, and has its shape."""
    return items[0][2] if len(items) == 1 and items[0][1] == shape else None


def packed(items: list[Any], start: int, shape: tuple[Any, ...], one: Holding) -> int:
    items.append((start, shape, one))
    return start + count_of(shape)


def count_of(shape: Iterable[Any]) -> int:
    total = 1
    for one in shape:
        total *= one
    return total
