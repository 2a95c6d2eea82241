"""In LLVM's text: squares of 4 x 4 numbers, transformed and turned back by Winograd's method.

The squares of a row lie side by side in vectors: what is even and what is odd in a row of numbers
is parted once, and additions are of whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from chainrule.execute.native.plan_to_ir.emit import Code, Module, Operand, constant, with_lanes
from chainrule.execute.native.plan_to_ir.masks import first_lanes, masked_load, masked_store
from chainrule.execute.native.products.kernels import I64, number
from chainrule.execute.native.products.pack_kernels import shuffled
from chainrule.execute.native.products.product_code import ONE, ZERO, moved
from chainrule.execute.native.products.winograd_points import (
    point_of_data,
    point_of_kernel,
    point_of_pair,
    three_taps,
    two_outputs,
)
from chainrule.plan.products.winograd import NUMBERS, POINTS, Winograd

TYPE = "float"
X, X_LAST, OUTER, OUTER_ROWS = range(NUMBERS)  # the table's numbers of a row of squares
Vectors = list[Operand]


class Transforms:
    """The functions, written when they are asked for; a name says all that it depends on."""

    def __init__(self, module: Module, one: Winograd) -> None:
        self.module, self.one = module, one
        self.digest = sha256(repr(one).encode()).hexdigest()[:16]
        self.vector = with_lanes(TYPE, one.lanes)

    def data(self, points: Sequence[int]) -> str:
        """`void(ptr x, ptr to, ptr table, i64 count, i64 channels)`: of the squares of so many rows
        these lines of points, each of four planes."""
        name = f"@squares_of_data_{''.join(map(str, points))}_{self.digest}"
        code, one = Code(self.module), self.one
        x, to, table = (Operand(f"%{each}", "ptr") for each in ("x", "to", "table"))
        count, channels = Operand("%count", I64), Operand("%channels", I64)
        limit = one.width + 2

        def squares(row: Sequence[Operand], place: Operand, first: Operand, left: int) -> None:
            """Of the vector whose first square has this number; `left` numbers are there."""
            begin = code.binary("mul", first, number(2))
            parts = [(0, one.lanes), (one.lanes, one.lanes), (2 * one.lanes, 2)]
            lines = [
                [
                    self.read(code, code.address(line, begin, TYPE), start, min(left - start, most))
                    for start, most in parts
                ]
                for line in row
            ]
            at = code.address(place, first, TYPE)
            for k, point in enumerate(points):
                down = [point_of_data(code, column, point) for column in zip(*lines, strict=True)]
                columns = self.columns(code, *down)
                for across in range(POINTS):
                    value = point_of_data(code, columns, across)
                    plane = number((POINTS * k + across) * one.data_plane)
                    code.store(value, code.address(at, plane, TYPE))

        def channel(index: Operand, _: Vectors) -> Vectors:
            from_ = moved(code, x, index, one.x_channel, TYPE)
            into = moved(code, to, index, one.pitch, TYPE)

            def row(turn: Operand, _: Vectors) -> Vectors:
                first = code.address(from_, entry(code, table, turn, X), TYPE)
                lines = [moved(code, first, number(k), one.x_down, TYPE) for k in range(POINTS - 1)]
                lines.append(code.address(from_, entry(code, table, turn, X_LAST), TYPE))
                place = moved(code, into, turn, one.across, TYPE)
                self.each_vector(code, limit, lambda at, left: squares(lines, place, at, left), 2)
                return []

            code.loop(ZERO, count, 1, [], row)
            return []

        code.loop(ZERO, channels, 1, [], channel)
        return self.written(code, name, [x, to, table, count, channels])

    def cotangents(self, point: int) -> str:
        """`void(ptr outer, ptr to, ptr table, i64 count)`: of squares of 2 x 2, for every row of
        the kernel, a line of points; not yet halved."""
        name = f"@squares_of_cotangents_{point}_{self.digest}"
        code, one = Code(self.module), self.one
        outer, to, table = (Operand(f"%{each}", "ptr") for each in ("outer", "to", "table"))
        count = Operand("%count", I64)

        def squares(
            lines: Sequence[tuple[Operand, Operand | None]],
            place: Operand,
            first: Operand,
            left: int,
        ) -> None:
            begin = code.binary("mul", first, number(2))
            halves = []
            for start in (0, one.lanes):
                raw = [
                    self.read(
                        code,
                        code.address(line, begin, TYPE),
                        start,
                        min(left - start, one.lanes),
                        shown,
                    )
                    for line, shown in lines
                ]
                halves.append(point_of_pair(code, raw, point))
            pair = self.parted(code, *halves)
            at = code.address(place, first, TYPE)
            for across in range(POINTS):
                value = point_of_pair(code, pair, across)
                code.store(value, code.address(at, number(across * one.outer_plane), TYPE))

        def kernel_row(index: Operand, _: Vectors) -> Vectors:
            from_ = moved(code, outer, index, one.outer_row, TYPE)
            into = moved(code, to, index, one.pitch, TYPE)

            def row(turn: Operand, _: Vectors) -> Vectors:
                first = code.address(from_, entry(code, table, turn, OUTER), TYPE)
                second = moved(code, first, ONE, one.outer_down, TYPE)
                shown = None
                if one.height % 2:
                    flag = code.compare("icmp eq", entry(code, table, turn, OUTER_ROWS), number(2))
                    shown = code.splat(flag, with_lanes("i1", one.lanes))
                lines = (first, None), (second, shown)
                place = moved(code, into, turn, one.across, TYPE)
                self.each_vector(
                    code, one.width, lambda at, left: squares(lines, place, at, left), 0
                )
                return []

            code.loop(ZERO, count, 1, [], row)
            return []

        code.loop(ZERO, number(one.rows), 1, [], kernel_row)
        return self.written(code, name, [outer, to, table, count])

    def kernels(self) -> str:
        """`void(ptr kernel, ptr to, i64 first, i64 after)`: these rows of the kernel."""
        name = f"@squares_of_kernel_{self.digest}"
        code, one = Code(self.module), self.one
        kernel, to = Operand("%kernel", "ptr"), Operand("%to", "ptr")
        first, after = Operand("%first", I64), Operand("%after", I64)

        def row(index: Operand, _: Vectors) -> Vectors:
            from_ = moved(code, kernel, index, one.kernel_row, TYPE)
            into = moved(code, to, index, one.channels, TYPE)

            def channel(turn: Operand, _: Vectors) -> Vectors:
                place = moved(code, from_, turn, one.kernel_channel, TYPE)
                columns = []
                for across in range(3):
                    taps = []
                    for down in range(3):
                        apart = down * one.kernel_down + across * one.kernel_across
                        taps.append(code.load(code.address(place, number(apart), TYPE), TYPE))
                    columns.append([point_of_kernel(code, taps, point) for point in range(POINTS)])
                at = code.address(into, turn, TYPE)
                for k in range(POINTS**2):
                    value = point_of_kernel(code, [one[k // POINTS] for one in columns], k % POINTS)
                    code.store(value, code.address(at, number(k * one.kernel_plane), TYPE))
                return []

            code.loop(ZERO, number(one.channels), 1, [], channel)
            return []

        code.loop(first, after, 1, [], row)
        return self.written(code, name, [kernel, to, first, after])

    def outputs(self) -> str:
        """`void(ptr sums, ptr out, ptr table, i64 count, i64 rows, T alpha, T beta)`: the outputs
        of so many rows of squares, for some rows of the kernel."""
        name = f"@outputs_of_squares_{self.digest}"
        code, one = Code(self.module), self.one
        sums, out, table = (Operand(f"%{each}", "ptr") for each in ("sums", "out", "table"))
        count, rows = Operand("%count", I64), Operand("%rows", I64)
        alpha, beta = Operand("%alpha", TYPE), Operand("%beta", TYPE)
        scaled = self.scaled(code, alpha, beta)

        def squares(
            place: Operand, lines: Sequence[Operand], again: Operand, first: Operand, left: int
        ) -> None:
            at = code.address(place, first, TYPE)
            begin = code.binary("mul", first, number(2))
            halves = []
            for across in range(POINTS):
                column = []
                for down in range(POINTS):
                    plane = number((POINTS * down + across) * one.sums_plane)
                    column.append(code.load(code.address(at, plane, TYPE), self.vector))
                halves.append(two_outputs(code, column))

            def line(k: int) -> Vectors:
                pair = two_outputs(code, [half[k] for half in halves])
                for start, value in zip((0, one.lanes), self.joined(code, *pair), strict=True):
                    to = code.address(lines[k], begin, TYPE)
                    self.write(code, scaled, value, to, start, min(left - start, one.lanes))
                return []

            line(0)
            if one.height % 2:
                code.loop(ZERO, again, 1, [], lambda *_: line(1))
            else:
                line(1)

        def kernel_row(index: Operand, _: Vectors) -> Vectors:
            from_ = moved(code, sums, index, one.pitch, TYPE)
            into = moved(code, out, index, one.outer_row, TYPE)

            def row(turn: Operand, _: Vectors) -> Vectors:
                place = moved(code, from_, turn, one.across, TYPE)
                first = code.address(into, entry(code, table, turn, OUTER), TYPE)
                lines = first, moved(code, first, ONE, one.outer_down, TYPE)
                again = code.binary("sub", entry(code, table, turn, OUTER_ROWS), ONE)
                self.each_vector(
                    code, one.width, lambda at, left: squares(place, lines, again, at, left), 0
                )
                return []

            code.loop(ZERO, count, 1, [], row)
            return []

        code.loop(ZERO, rows, 1, [], kernel_row)
        return self.written(code, name, [sums, out, table, count, rows, alpha, beta])

    def kernel_sums(self) -> str:
        """`void(ptr sums, ptr out, i64 first, i64 after, T alpha, T beta)`: these channels of the
        kernel, from sums that are not yet halved."""
        name = f"@kernel_of_sums_{self.digest}"
        code, one = Code(self.module), self.one
        sums, out = Operand("%sums", "ptr"), Operand("%out", "ptr")
        first, after = Operand("%first", I64), Operand("%after", I64)
        alpha, beta = Operand("%alpha", TYPE), Operand("%beta", TYPE)
        scaled, half = self.scaled(code, alpha, beta), constant(0.5, self.vector)

        def rows(place: Operand, to: Operand, begin: Operand, left: int) -> None:
            columns = []
            for across in range(POINTS):
                column = []
                for down in range(POINTS):
                    plane = number((POINTS * down + across) * one.kernel_plane)
                    at = code.address(code.address(place, begin, TYPE), plane, TYPE)
                    column.append(self.read(code, at, 0, left))
                columns.append(three_taps(code, column, half))
            for down in range(3):
                taps = three_taps(code, [column[down] for column in columns], half)
                for across, value in enumerate(taps):
                    apart = down * one.kernel_down + across * one.kernel_across
                    at = code.address(code.address(to, begin, TYPE), number(apart), TYPE)
                    self.write(code, scaled, value, at, 0, min(left, one.lanes))

        def channel(index: Operand, _: Vectors) -> Vectors:
            place = moved(code, sums, index, one.rows, TYPE)
            to = moved(code, out, index, one.kernel_channel, TYPE)
            whole = one.rows // one.lanes * one.lanes

            def vector(begin: Operand, _: Vectors) -> Vectors:
                rows(place, to, begin, one.lanes)
                return []

            code.loop(ZERO, number(whole), one.lanes, [], vector)
            if whole < one.rows:
                rows(place, to, number(whole), one.rows - whole)
            return []

        code.loop(first, after, 1, [], channel)
        return self.written(code, name, [sums, out, first, after, alpha, beta])

    # parts of them

    def each_vector(
        self, code: Code, limit: int, body: Callable[[Operand, int], None], beyond: int
    ) -> None:
        """`body(first square, numbers that are left)` for each vector of a row of `limit` numbers,
        of which a vector of squares reads `beyond` more than its own."""
        one = self.one
        needed = 2 * one.lanes + beyond
        whole = max((limit - beyond) // (2 * one.lanes), 0)

        def vector(first: Operand, _: Vectors) -> Vectors:
            body(first, needed)
            return []

        if whole:
            code.loop(ZERO, number(whole * one.lanes), one.lanes, [], vector)
        if whole * one.lanes < one.across:
            body(number(whole * one.lanes), limit - 2 * whole * one.lanes)

    def read(
        self, code: Code, base: Operand, start: int, left: int, shown: Operand | None = None
    ) -> Operand:
        """A vector, `start` elements on, of which so many are there, if any are shown."""
        if left <= 0:
            return constant(0.0, self.vector)
        place = code.address(base, number(start), TYPE)
        mask = self.mask(left)
        if shown is not None:
            mask = shown if mask is None else code.binary("and", mask, shown)
        if mask is None:
            return code.load(place, self.vector)
        return masked_load(code, place, self.vector, mask)

    def write(
        self,
        code: Code,
        scaled: Callable[[Operand, Operand, Operand | None], Operand],
        value: Operand,
        base: Operand,
        start: int,
        left: int,
    ) -> None:
        """Put so many elements of a vector `start` elements on."""
        if left <= 0:
            return
        place, mask = code.address(base, number(start), TYPE), self.mask(left)
        value = scaled(value, place, mask)
        if mask is None:
            code.store(value, place)
        else:
            masked_store(code, value, place, mask)

    def scaled(
        self, code: Code, alpha: Operand, beta: Operand
    ) -> Callable[[Operand, Operand, Operand | None], Operand]:
        """alpha times a value plus beta times what is there, which beta = 0 does not read."""
        scale, other = code.splat(alpha, self.vector), code.splat(beta, self.vector)
        reads = code.compare("fcmp une", other, constant(0.0, self.vector))

        def value(found: Operand, place: Operand, mask: Operand | None) -> Operand:
            shown = reads if mask is None else code.binary("and", reads, mask)
            before = masked_load(code, place, self.vector, shown)
            return code.fma(other, before, code.binary("fmul", scale, found))

        return value

    def mask(self, left: int) -> Operand | None:
        """The first lanes; None: all."""
        lanes = self.one.lanes
        return None if left >= lanes else first_lanes(left, lanes)

    def parted(self, code: Code, low: Operand, high: Operand) -> tuple[Operand, Operand]:
        """What is even and what is odd in two vectors."""
        even = list(range(0, 2 * self.one.lanes, 2))
        return shuffled(code, low, high, even), shuffled(code, low, high, [1 + k for k in even])

    def columns(self, code: Code, low: Operand, high: Operand, beyond: Operand) -> Vectors:
        """The four columns of squares that begin two numbers apart."""
        lanes = self.one.lanes
        pair, later = self.parted(code, low, high), range(1, lanes)
        nexts = [shuffled(code, pair[k], beyond, [*later, lanes + k]) for k in range(2)]
        return [*pair, *nexts]

    def joined(self, code: Code, even: Operand, odd: Operand) -> tuple[Operand, Operand]:
        """Two vectors whose even and odd numbers these are."""
        lanes = self.one.lanes
        order = [half + side for half in range(lanes) for side in (0, lanes)]
        return shuffled(code, even, odd, order[:lanes]), shuffled(code, even, odd, order[lanes:])

    def written(self, code: Code, name: str, parameters: list[Operand]) -> str:
        """The name of the function, which is in the module once."""
        code.do("ret void")
        code.function(name[1:], parameters, attributes="noinline nounwind")
        text = self.module.functions.pop().replace("define ", "define internal ", 1)
        if text not in self.module.functions:
            self.module.functions.append(text)
        return name


def entry(code: Code, table: Operand, row: Operand, which: int) -> Operand:
    """A number of the table of rows of squares."""
    place = code.binary("add", code.binary("mul", row, number(NUMBERS)), number(which))
    return code.load(code.address(table, place, I64), I64)
