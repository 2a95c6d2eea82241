"""The readable text of a plan: for each instruction what it is, its threads and why, its results.

A line for each instruction, and one for each further loop nest or product in it; under it, how
the values come about.  Unnamed values are called as in the text of the (concrete) graph.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING

from chainrule.graph.body import Chosen, bodies_of
from chainrule.graph.node import Node
from chainrule.graph.words import printable
from chainrule.plan.duration import alone, work_nanoseconds
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.foreign import ForeignWork
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.products.calls import Call
from chainrule.plan.products.formula import formula
from chainrule.plan.roles import Role, nbytes_of, repeats_compiled_code, roles_of
from chainrule.plan.routine_work import RoutineWork
from chainrule.plan.rows_work import RowsWork
from chainrule.plan.sharing import Sharing
from chainrule.plan.work import NestWork, ProductWork, Work, parts_inside
from chainrule.schedule.in_html import Instruction, table
from chainrule.schedule.lives import Life, lives_of
from chainrule.schedule.names_in_messages import Wording
from chainrule.schedule.records import Compute

if TYPE_CHECKING:
    from chainrule.plan.planner import Plan

WIDTH = 100
LEAST = 100.0  # nanoseconds that are worth telling
SMALL = 64  # bytes of a number that is not worth telling
FOREIGN = "reference evaluation between native parts"
REPEATED = "compiled code"

Row = tuple[str, str, str, str]  # what, threads and why, bytes, names


def text(plan: Plan) -> str:
    """The plan as text; the same plan gives the same text, on any speeds."""
    lines = [f"plan of {plan.graph.name}", *_Text(plan).lines(), *_wrapped(summary(plan), "")]
    return "\n".join(lines)


def html(plan: Plan) -> str:
    """The same as a table for notebooks."""
    head = ("", "work", "threads", "bytes", "value")
    rows = _Text(plan).instructions()
    title = f"plan of {printable(plan.graph.name)}"
    return table(title, head, _cells(rows), summary(plan))


def _cells(rows: Iterable[tuple[list[Row], list[str]]]) -> Iterator[Instruction]:
    for number, (several, notes) in enumerate(rows, 1):
        (what, why, nbytes, names), *further = several
        more = [f"then {other}; {threads}" for other, threads, *_ in further]
        yield (str(number), what, why, nbytes.removesuffix(" bytes"), names), [*more, *notes]


def summary(plan: Plan) -> str:
    """One line: instructions, threads, bytes of scratch memory and of results."""
    schedule = plan.schedule
    taken = set(plan.overwrites.values())
    fresh = sum(nbytes_of(node) for node in schedule.results if node not in taken)
    parts = [
        _counted(len(plan.works), "instruction") + _repeated(plan),
        f"up to {plan.threads} threads" if plan.threads > 1 else "1 thread",
        f"{schedule.scratch_nbytes:,} bytes of scratch memory{_waste(plan)}",
        f"{fresh:,} bytes of results",
    ]
    if taken:
        parts.append(f"{sum(map(nbytes_of, taken)):,} bytes updated in place")
    called = sum(map(repeats_compiled_code, plan.foreign))
    flows = [one.flow for one in plan.works if isinstance(one, FlowWork)]
    choices = sum(isinstance(one, Chosen) for one in flows)
    if loops := called + len(flows) - choices:
        parts.append(f"{_counted(loops, 'loop')} of {REPEATED}")
    if choices:
        parts.append(f"{_counted(choices, 'choice')} of {REPEATED}")
    if len(plan.foreign) > called:
        parts.append(f"{len(plan.foreign) - called} by reference evaluation")
    return ", ".join(parts)


def instructions(plan: Plan) -> list[tuple[str, str]]:
    """For each instruction what it is, and the names of the values that it writes."""
    shown = _Text(plan)
    found = []
    for compute, work in zip(plan.computes, plan.works, strict=True):
        pieces = [what for what, _ in shown.pieces(work)]
        more = f" and {len(pieces) - 1} more" if len(pieces) > 1 else ""
        found.append((pieces[0] + more, ", ".join(map(shown.word, compute.nodes))))
    return found


def _repeated(plan: Plan) -> str:
    """How many instructions run again, and what that costs."""
    made, seen = list[Work](), set[Node]()
    for work in plan.works:
        if seen.issuperset(work.writes):
            made.append(work)
        seen.update(work.writes)
    again = len(made)
    if not again:
        return ""
    more = sum(work_nanoseconds(work, plan.speeds) for work in made)
    once = sum(work_nanoseconds(work, plan.speeds) for work in plan.works) - more
    share = f" ({more / once:.1%} more)".replace("%", " %")
    return f" ({again} of them again: about {_microseconds(more)}{share})"


def _waste(plan: Plan) -> str:
    """How much of the scratch memory is above the largest load, the least that could be."""
    waste = plan.schedule.scratch_nbytes - plan.load_nbytes
    if not plan.schedule.scratch_nbytes:
        return ""
    return f" ({waste:,} wasted)" if waste else " (none wasted)"


def shared(sharing: Sharing, nanoseconds: float, threads: int) -> str:
    """How many of `threads` threads do a piece of work that takes one so long, and why."""
    time = _microseconds(nanoseconds)
    if sharing.parts > 1:
        return f"{sharing.parts} threads: about {time} of work on one"
    if sharing.obstacle:
        return f"1 thread: about {time}, but {sharing.obstacle}"
    if nanoseconds < LEAST:
        return f"1 thread: {time}"
    return f"1 thread: about {time}" + (", not worth two" if threads > 1 else "")


class _Text:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.roles = plan, roles_of(plan.graph)
        self.word = Wording(plan.schedule).name
        self.named = plan.graph.name_of
        self.taken = set(plan.overwrites.values())
        self.lives = lives_of((one.reads, one.nodes) for one in plan.computes)
        self.made: set[Node] = set()  # by the instructions so far
        self.seen: set[Node] = set()
        self.written = {node for work in plan.works for node in work.writes}

    def instructions(self) -> list[tuple[list[Row], list[str]]]:
        """For each instruction its rows, and what stands under them."""
        pairs = list(zip(self.plan.computes, self.plan.works, strict=True))
        tables = [self._rows(compute, work) for compute, work in pairs]
        notes = [[*self._notes(work), *self._again(n)] for n, (_, work) in enumerate(pairs)]
        return list(zip(tables, notes, strict=True))

    def lines(self) -> list[str]:
        """Those of all instructions, the columns of the table aligned."""
        every = self.instructions()
        rows = [row for several, _ in every for row in several]
        widths = [max((len(row[place]) for row in rows), default=0) for place in range(3)]
        digits = len(str(len(every)))
        found: list[str] = []
        for number, (several, under) in enumerate(every, 1):
            for place, (what, why, nbytes, names) in enumerate(several):
                label = str(number) if not place else ""
                cells = (
                    f"{label:>{digits}}",
                    f"{what:<{widths[0]}}",
                    f"{why:<{widths[1]}}",
                    f"{nbytes:>{widths[2]}}",
                    names,
                )
                found.append(f"  {'  '.join(cells)}".rstrip())
            for note in under:
                found += _wrapped(note, " " * (digits + 6))
        return found

    def _rows(self, compute: Compute, work: Work) -> list[Row]:
        """One for each loop nest, product, or node without a kernel."""
        names = ", ".join(map(self.word, compute.nodes))
        nbytes = f"{sum(map(nbytes_of, compute.nodes)):,} bytes"
        (what, why), *further = self.pieces(work)
        return [(what, why, nbytes, names), *((*piece, "", "") for piece in further)]

    def pieces(self, work: Work) -> Iterator[tuple[str, str]]:
        """What runs one after another, and how many threads do it."""
        threads = self.plan.threads
        match work:
            case NestWork() | ProductWork() | RoutineWork():
                times = alone(work, self.plan.speeds)
                for (what, sharing), taken in zip(self._parts(work), times, strict=True):
                    yield what, shared(sharing, taken, threads)
            case RowsWork():
                each = prod(work.table.shape[1:])
                yield f"rows {work.count} of {work.height} x {each}", "1 thread: rows may be alike"
            case FlowWork(flow=Chosen()):
                is_shared = parts_inside(work) > 1
                why = "threads share large parts" if is_shared else "1 thread: a value decides"
                yield f"one of two branches of {REPEATED}", why
            case FlowWork():
                why = (
                    f"{threads} threads: each does some" if work.parts > 1 else "one after another"
                )
                yield f"{_iterations(work.node)} of {REPEATED}", why
            case ForeignWork(node=node) if repeats_compiled_code(node):
                yield f"{_iterations(node)} of {REPEATED}, called from Python", "one after another"
            case ForeignWork():
                yield FOREIGN, "1 thread: no native kernel"

    def _parts(self, work: NestWork | ProductWork | RoutineWork) -> Iterator[tuple[str, Sharing]]:
        """What it does, part by part, and how threads share that."""
        match work:
            case NestWork():
                for layout in work.layouts:
                    yield _loops(layout), layout.sharing
            case ProductWork():
                for call, (term, _) in zip(work.calls, work.products.terms, strict=True):
                    for matrix, node in zip((call.x, call.y), term.inputs, strict=True):
                        if matrix.pack is not None:
                            what = f"copy of {self.word(node)}: {_loops(matrix.pack)}"
                            yield what, matrix.pack.sharing
                    yield _product(call), call.sharing
            case RoutineWork():
                yield _routine(work), work.sharing

    def _notes(self, work: Work) -> list[str]:
        """How the values come about, what is computed on the way, and what once more."""
        in_place = [self.word(node) for node in work.writes if node in self.taken]
        match work:
            case NestWork():
                notes = [_operations(work)]
                if in_place:
                    notes.append(f"in place: {', '.join(in_place)}")
            case ProductWork():
                computed = formula(work.products, self.word, self.named)
                notes = [f"{computed}, in place" if in_place else computed]
            case RowsWork():
                names = ", ".join(dict.fromkeys(one.primitive.name for one in work.inner))
                touched = self.word(work.indices)
                notes = [
                    f"{names}, {work.writes[0].primitive.name}: of the rows in {touched} alone"
                ]
                notes.append(f"in place: {', '.join(in_place)}")
            case RoutineWork() | FlowWork() | ForeignWork():
                place = work.node.origin.short()
                notes = [work.node.expression + (f", at {place}" if place else "")]
                notes = [one.note for one in bodies_of(work.node) if one.note] + notes
        again = [n for n in work.inner if n in self.made and self.roles.get(n) is not Role.SCALAR]
        within = [n for n in work.inner if n in self.named and n not in self.written]
        if fresh := [node for node in within if node not in self.made]:
            notes.append(f"on the way, never stored: {', '.join(map(self.word, fresh))}")
        if again:
            known = [self.word(node) for node in again if node in self.named]
            others = len(again) - len(known)
            unnamed = [_counted(others, "unnamed value")] if others else []
            notes.append(f"computed again, cheaper than stored: {', '.join([*known, *unnamed])}")
        self.made.update(work.writes, work.inner)
        return notes

    def _again(self, number: int) -> Iterator[str]:
        """Which values are written another time, for which instructions, and what that saves."""
        work = self.plan.works[number]
        price = ""
        if self.seen.issuperset(work.writes):  # else a nest has taken it in
            sources = [self.word(node) for node in work.reads if nbytes_of(node) >= SMALL]
            price = f" from {_listed(sources)}" if sources else ""
            price += f", in about {_microseconds(work_nanoseconds(work, self.plan.speeds))}"
        self.seen.update(work.writes)
        for life in self.lives.writes[number]:
            if not life.number:
                continue
            free = self.lives.last[Life(life.node, life.number - 1)] + 2, number
            read = [str(n) for n, reads in enumerate(self.lives.reads, 1) if life in reads]
            if not read:
                continue  # written on the way to another
            span = f"from {free[0]} to {free[1]}" if free[0] < free[1] else f"during {number}"
            yield (
                f"{self.word(life.node)} is computed again{price}, for {_listed(read)}: its "
                f"{nbytes_of(life.node):,} bytes are free {span}"
            )


def _loops(layout: NestLayout) -> str:
    """`loops 16 x 4096`: rows and columns, as they were merged."""
    return f"loops {layout.row_count} x {prod(layout.nest.columns)}"


def _operations(work: NestWork) -> str:
    """The operations in the order in which a point meets them; sweeps over a row, and lanes."""
    names = [one.primitive.name for one in (*work.inner, *work.writes)]
    layout = work.layouts[-1]
    sweeps = sum(not sweep.is_empty for sweep in layout.sweeps)
    known = ", ".join(dict.fromkeys(names))
    if not sweeps:
        return known
    lanes = _counted(max(layout.width, 1), "lane") + (" of rows" if layout.lanes else "")
    return f"{known}; {_counted(sweeps, 'sweep')}, {lanes}"


def _product(call: Call) -> str:
    """`product 256 x 784 x 10`: rows of the result, what is summed over, columns; `of windows`
    that are read where they lie, `by Winograd` with fewer multiplications."""
    gemm = call.gemm
    rows, columns = (gemm.m, gemm.n) if gemm.a_is_x else (gemm.n, gemm.m)
    count = "product" if gemm.calls == 1 else f"{gemm.calls} products"
    windows = " of windows" if gemm.has_windows else ""
    windows += ", by Winograd" if call.winograd is not None else ""
    return f"{count} {rows} x {gemm.k} x {columns}{windows}"


def _routine(work: RoutineWork) -> str:
    """`LAPACK dpotrf, 3 matrices`, `LAPACK dtrsm, 2 blocks of columns`."""
    *stack, blocks = work.stack
    parts = [f"LAPACK {', '.join(work.routine.routines)}"]
    parts += [f"{prod(stack):,} matrices"] if stack else []
    parts += [f"{blocks} blocks of columns"] if blocks > 1 else []
    return ", ".join(parts)


def _microseconds(nanoseconds: float) -> str:
    """`31 µs`, `4.6 µs`, `4 µs`; below what is worth saying, `under 0.1 µs`."""
    value = nanoseconds / 1000
    if nanoseconds < LEAST:
        return "under 0.1 µs"
    return f"{value:,.0f} µs" if value >= 9.95 else f"{value:.1f} µs".replace(".0 ", " ")


def _iterations(node: Node) -> str:
    params = dict(node.params)
    if "length" in params:
        return _counted(params["length"], "iteration")
    most = "" if params["limit"] is None else f"at most {params['limit']:,} "
    back = ", forth and back," if "states" in params else ""
    return f"{most}iterations while a condition holds{back}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), *words[-1:]] if len(words) > 2 else words)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"


def _wrapped(note: str, indent: str) -> Iterable[str]:
    return textwrap.wrap(
        note,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
