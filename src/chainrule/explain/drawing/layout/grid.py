"""One scope on a grid: what is to be arranged, and in which columns and rows it stands."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.layout.scopes import Connection, Kind


class Course(Enum):
    """How a connection gets from its start to its end."""

    LANE = 0  # to the right, up or down in channels between columns, along one row
    STRAIGHT = 1  # in one line from middle to middle
    ELBOW = 2  # straight up from the start, then along the row of the end
    LOOP = 3  # up to a row of its own, back to the left, and down


@dataclass(frozen=True)
class Way:
    """`row` is that of the lane; it has no meaning between neighbouring columns."""

    course: Course
    row: int = 0


@dataclass(frozen=True)
class Grid:
    """The cell (column, row) of every vertex, the lowest for an inner scope, which takes one column
    and as many rows as it has; a way for every connection; and the rows of the ports, which stand
    in the first and in the last column."""

    columns: int
    rows: int
    cells: tuple[tuple[int, int], ...]
    ways: tuple[Way, ...]
    entry_rows: tuple[int, ...]
    exit_rows: tuple[int, ...]


@dataclass(frozen=True)
class Task:
    """A scope to be arranged.  `inner` has the grid of an inner scope, None for other vertices;
    `beside` marks sources that are no part of the flow; `framed` says whether the first and the
    last column are for ports; `by_the_book` asks for the manner of small flat figures; where
    nothing is connected, the widest item is `times` as wide as high."""

    kinds: tuple[Kind, ...]
    beside: tuple[bool, ...]
    inner: tuple[Grid | None, ...]
    connections: tuple[Connection, ...]
    framed: bool
    by_the_book: bool
    times: float

    def height(self, vertex: int) -> int:
        """How many rows the vertex takes."""
        grid = self.inner[vertex]
        return grid.rows if grid else 1

    def rise_at_start(self, one: Connection) -> int:
        """How many rows above the cell of its start a connection begins."""
        grid = self.inner[one.start]
        return grid.exit_rows[one.exit] if grid else 0

    def rise_at_end(self, one: Connection) -> int:
        """How many rows above the cell of its end a connection arrives."""
        grid = self.inner[one.end]
        return grid.entry_rows[one.entry] if grid else 0


def adjacency(task: Task, chosen: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Of every vertex the chosen connections that arrive, and those that leave."""
    incoming: list[list[int]] = [[] for _ in task.kinds]
    outgoing: list[list[int]] = [[] for _ in task.kinds]
    for number in chosen:
        one = task.connections[number]
        incoming[one.end].append(number)
        outgoing[one.start].append(number)
    return incoming, outgoing
