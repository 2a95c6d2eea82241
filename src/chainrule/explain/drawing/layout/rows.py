"""The row of every vertex and lane: the lowest that is free, and never below its inputs."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, sqrt

from chainrule.explain.drawing.layout.columns import Columns, columns_of, leaves_of
from chainrule.explain.drawing.layout.flow import Flow, flow_of
from chainrule.explain.drawing.layout.grid import Course, Grid, Task, Way
from chainrule.explain.drawing.layout.occupancy import Occupancy
from chainrule.explain.drawing.layout.scopes import Kind

TRUNKS = 4  # of the lanes of one source, the latest so many are tried again for further readers


def arrange(task: Task) -> Grid:
    """Puts a scope on a grid."""
    if task.framed and not task.connections:
        return _packed(len(task.kinds), task.times)
    flow = flow_of(task)
    return _Rows(task, flow, columns_of(task, flow)).grid()


def _packed(count: int, times: float) -> Grid:
    """What nothing connects stands in full rows, the first one above left: about twice as wide as
    high, because the same stands below in the backward pass."""
    rows = ceil(count / max(round(sqrt(2 * count / times)), 1))
    across = ceil(count / rows)
    cells = tuple((1 + place % across, rows - 1 - place // across) for place in range(count))
    return Grid(across + 2, rows, cells, (), (), ())


class _Rows:
    """Vertices are placed when they are needed: the spine from left to right, before each vertex
    the branches that end in it, the shortest first; then what leads to nothing on the spine."""

    def __init__(self, task: Task, flow: Flow, columns: Columns) -> None:
        self.task = task
        self.flow = flow
        self.columns = columns
        self.leaves = leaves_of(flow)
        self.row = [-1] * len(task.kinds)
        self.ways: list[Way] = [Way(Course.LANE)] * len(task.connections)
        self.occupied = Occupancy(columns.count)
        self.trunks: dict[tuple[int, int], dict[int, int]] = {}
        self.rows = 0
        self.looped = list(flow.back)
        self.below = {result: vertex for vertex, result in columns.above.items()}

    def grid(self) -> Grid:
        """Places everything; loops come last, each in a row of its own above all."""
        for goal in (*self.columns.spine, *self.flow.order):
            self._place_with_branches(goal)
        for number in self.looped:
            self.ways[number] = Way(Course.LOOP, self.rows)
            self.rows += 1
        cells = tuple(zip(self.columns.column, self.row, strict=True))
        kinds = self.task.kinds
        return Grid(
            self.columns.count,
            max(self.rows, 1),
            cells,
            tuple(self.ways),
            tuple(row for row, kind in zip(self.row, kinds, strict=True) if kind is Kind.ENTRY),
            tuple(row for row, kind in zip(self.row, kinds, strict=True) if kind is Kind.EXIT),
        )

    def _place_with_branches(self, goal: int) -> None:
        """Places all that the goal needs, then the goal; a leaf comes with its host."""
        pending = [self.flow.host.get(goal, goal)]
        hints = [0]
        while pending:
            vertex = pending[-1]
            if self.row[vertex] >= 0:
                pending.pop()
                hints.pop()
                continue
            branches = self._branches(vertex)
            if branches:
                previous = self.columns.previous[vertex]
                known = previous >= 0 and self.row[previous] >= 0
                hint = self.row[previous] if known else hints[-1]
                pending += branches
                hints += [hint] * len(branches)
            else:
                self._place(vertex, hints[-1])

    def _branches(self, vertex: int) -> list[int]:
        """What has to be placed before; the last one first."""
        found = []
        for number in self.flow.incoming[vertex]:
            start = self.task.connections[number].start
            start = self.flow.host.get(start, start)
            if start != vertex and self.row[start] < 0:
                found.append(start)
        previous = self.columns.previous[vertex]
        return sorted(found, key=lambda one: (one == previous, self.columns.column[one], -one))

    def _place(self, vertex: int, hint: int) -> None:
        if vertex in self.columns.amid:
            self._place_amid(vertex)
            return
        incoming = [
            number
            for number in self.flow.incoming[vertex]
            if self.flow.host.get(self.task.connections[number].start) != vertex
        ]
        least = hint if not incoming and vertex not in self.below else 0
        for number in incoming:
            lane = self._lane(number)
            self.ways[number] = Way(Course.LANE, lane)
            if not self._may_come_down(number):
                least = max(least, lane - self.task.rise_at_end(self.task.connections[number]))
        if vertex in self.below:
            least = self.row[self.below[vertex]] + 1
            (number,) = incoming
            self.ways[number] = Way(Course.STRAIGHT)
        self._set(vertex, self._free_row(vertex, least))
        if self.task.by_the_book:
            self._stairs(vertex)
        for leaf in self.leaves.get(vertex, ()):
            self._hang(leaf, vertex)

    def _may_come_down(self, number: int) -> bool:
        """Leaves need not be below what they feed in the flow."""
        one = self.task.connections[number]
        hangs = one.start in self.flow.host
        return hangs and self.flow.flows[one.end] and self.task.kinds[one.end] is Kind.ITEM

    def _lane(self, number: int) -> int:
        """A row from the start to the column before the end: of an own lane, or a free one."""
        one = self.task.connections[number]
        column = self.columns.column
        row = self.row[one.start] + self.task.rise_at_start(one)
        first = column[one.start] + 1
        last = column[one.end] - 1
        if first > last:
            return row
        trunks = self.trunks.setdefault((one.start, one.exit), {})
        for lane in list(trunks)[-TRUNKS:]:
            if self.occupied.is_free(trunks[lane] + 1, last, lane):
                self._extend(trunks, lane, first, last)
                return lane
        lane = self.occupied.lowest(first, last, row)
        self._extend(trunks, lane, first, last)
        return lane

    def _extend(self, trunks: dict[int, int], lane: int, first: int, last: int) -> None:
        reached = trunks.get(lane, first - 1)
        if reached < last:
            trunks[lane] = last
            self._take(reached + 1, last, lane)

    def _take(self, first: int, last: int, row: int, height: int = 1) -> None:
        self.occupied.take(first, last, row, height)
        self.rows = max(self.rows, row + height)

    def _free_row(self, vertex: int, least: int) -> int:
        """Where a vertex and its leaves have room; the first of a run wants room for all of it."""
        column = self.columns.column[vertex]
        last = column
        if self.columns.previous[vertex] < 0 and vertex not in self.below:
            last = max(last, self.columns.end_of_run[vertex])
        leaves = self.leaves.get(vertex, ())
        height = self.task.height(vertex) + any(not self.columns.side[leaf] for leaf in leaves)
        facing = [column + 1 for leaf in leaves if self.columns.side[leaf] > 0]
        row = self.occupied.lowest(column, last, least, height)
        while any(not self.occupied.is_free(one, one, row + 1) for one in facing):
            row = self.occupied.lowest(column, last, row + 1, height)
        return row

    def _set(self, vertex: int, row: int) -> None:
        column = self.columns.column[vertex]
        self.row[vertex] = row
        self._take(column, column, row, self.task.height(vertex))

    def _hang(self, leaf: int, host: int) -> None:
        """One row above the host; a further leaf in the column before, where it is free."""
        side = self.columns.side[leaf]
        column = self.columns.column[leaf]
        row = self.row[host] + 1
        if side < 0:
            row = self.occupied.lowest(column, column, row)
        self._set(leaf, row)
        for number in self.flow.incoming[host]:
            if self.task.connections[number].start == leaf:
                self.ways[number] = Way(Course.LANE if side < 0 else Course.STRAIGHT, row)

    def _place_amid(self, vertex: int) -> None:
        """In the row of the leaves that feed it, if all between them is free; else above them."""
        columns, incoming = self.columns.column, self.flow.incoming[vertex]
        leaves = sorted(self.columns.amid[vertex], key=lambda leaf: columns[leaf])
        first, last = columns[leaves[0]], columns[leaves[-1]]
        level = {self.row[leaf] for leaf in leaves}
        (row, *_) = level
        clear = self.occupied.is_free(first + 1, last - 1, row)
        if len(leaves) == 2 and len(level) == 1 and clear and first < columns[vertex] < last:
            self._take(first + 1, last - 1, row)
            course = Course.STRAIGHT
        else:
            row = self.occupied.lowest(first, last, max(level) + 1)
            course = Course.ELBOW if self._clear_above(leaves, row) else Course.LANE
            if course is Course.ELBOW:
                self._take(first, last, row)
        self._set(vertex, row)
        for number in incoming:
            start = self.task.connections[number].start
            if course is not Course.LANE:
                straight = course is Course.STRAIGHT or columns[start] == columns[vertex]
                self.ways[number] = Way(Course.STRAIGHT if straight else course, row)
            elif columns[start] < columns[vertex]:
                self.ways[number] = Way(Course.LANE, self._lane(number))
            else:
                self.looped.append(number)

    def _clear_above(self, leaves: list[int], row: int) -> bool:
        """Whether all leaves have a free way up to a row; it is taken if so."""
        ways = [(self.columns.column[one], range(self.row[one] + 1, row)) for one in leaves]
        if not all(self.occupied.is_free(at, at, one) for at, rows in ways for one in rows):
            return False
        for at, rows in ways:
            for one in rows:
                self._take(at, at, one)
        return True

    def _stairs(self, vertex: int) -> None:
        """Where the row of a run rises to that of a branch, its last squares rise before it."""
        steps = []
        before = self.columns.previous[vertex]
        base = self.row[before] if before >= 0 else 0
        while before >= 0 and self.row[before] == base and self._may_rise(before):
            steps.append(before)
            before = self.columns.previous[before]
        count = min(len(steps), self.row[vertex] - base - 1)
        rising = list(enumerate(reversed(steps[: max(count, 0)]), base + 1))
        places = [(self.columns.column[step], row) for row, step in rising]
        if not all(self.occupied.is_free(column, column, row) for column, row in places):
            return
        for row, step in rising:
            self._set(step, row)
            for number in (*self.flow.incoming[step], *self.flow.outgoing[step]):
                self.ways[number] = replace(self.ways[number], row=row)

    def _may_rise(self, vertex: int) -> bool:
        """Whether only its neighbours in the next columns are connected with it."""
        numbers = (*self.flow.incoming[vertex], *self.flow.outgoing[vertex])
        if len(self.flow.incoming[vertex]) != 1 or len(self.flow.outgoing[vertex]) != 1:
            return False
        if vertex in self.leaves or vertex in self.below:
            return False
        column = self.columns.column
        ends = (self.task.connections[number] for number in numbers)
        return all(column[one.end] - column[one.start] == 1 for one in ends)
