"""Prints the memory of ranks: a line for each, and what is there at its peak by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from chainrule.explain.memory.overhead import compiled_words
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.columns import in_columns
from chainrule.graph.words import printable

if TYPE_CHECKING:
    from chainrule.devices.reports.memory import ParallelMemory, RankMemory

ROWS = 12  # values of a rank that are shown
WIDEST = 5  # ranks side by side


def text(report: ParallelMemory, rows: int = ROWS) -> str:
    """The ranks side by side, then the `rows` largest values of each; ranks that need the same
    are shown once."""
    sizes = ", ".join(f"{name} = {size}" for name, size in report.sizes.items())
    alike = together(report.ranks)
    lines = [
        f"memory of {printable(report.name)} on {len(report.ranks)} "
        f"rank{'s' if len(report.ranks) > 1 else ''}, {sizes or 'all sizes fixed'}, "
        f"executor {report.executor}",
        "",
        *_table(alike),
    ]
    for ranks in alike:
        one = ranks[0]
        shown = one.held[:rows]
        left = one.held[rows:]
        lines += ["", f"{called(ranks)}, {one.peak_nbytes:,} bytes at {one.at}"]
        lines += in_columns(
            [
                (
                    f"  {value.name}",
                    value.kind,
                    f"{value.nbytes * value.count:,}",
                    f"{value.count} x {value.nbytes:,}" if value.count > 1 else "",
                )
                for value in shown
            ],
            (2,),
        )
        if left:
            nbytes = sum(value.nbytes * value.count for value in left)
            lines.append(f"  and {len(left)} more, {nbytes:,} bytes in all")
    if report.compiled:
        lines += ["", f"on each device, {compiled_words(report.compiled)}"]
    return "\n".join(lines)


def _table(alike: Sequence[Sequence[RankMemory]]) -> list[str]:
    """A line for each kind, a column for each rank; turned where there are many ranks."""
    parts = [ranks[0].parts for ranks in alike]
    kinds = [kind for kind in parts[0] if any(one[kind] for one in parts)]
    head = (
        "at the peak" if len(alike) > WIDEST else "bytes at the peak",
        *(called(ranks) for ranks in alike),
    )
    rows = [(kind, *(f"{one[kind]:,}" for one in parts)) for kind in kinds]
    rows.append(("peak", *(f"{ranks[0].peak_nbytes:,}" for ranks in alike)))
    is_wide = len(alike) > WIDEST
    if not is_wide:
        rows.append(("", *(in_bytes(ranks[0].peak_nbytes) for ranks in alike)))
    if any(max(ranks[0].waiting, default=0) for ranks in alike):
        rows.append(("if messages wait", *(f"{ranks[0].most_nbytes:,}" for ranks in alike)))
    table = [head, *rows]
    if is_wide:
        table = list(zip(*table, strict=True))
    return in_columns(table, range(1, len(table[0])))


def together(ranks: Iterable[RankMemory]) -> list[list[RankMemory]]:
    """Those that need the same, in the order of their first."""
    found: dict[tuple[object, ...], list[RankMemory]] = {}
    for one in ranks:
        found.setdefault((one.during, one.held), []).append(one)
    return list(found.values())


def called(ranks: Sequence[RankMemory]) -> str:
    """`rank 0`, `ranks 0, 2, 4`, or `ranks 0, 2 ... 14`."""
    numbers = [str(one.rank) for one in ranks]
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    shown = (
        ", ".join(numbers) if len(numbers) < 5 else f"{numbers[0]}, {numbers[1]} ... {numbers[-1]}"
    )
    return f"ranks {shown}"
