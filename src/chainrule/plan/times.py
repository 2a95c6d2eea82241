"""The predicted time of each instruction of a plan beside the one that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING

from chainrule.dataclass import dataclass
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.uses import uses
from chainrule.plan.duration import plan_nanoseconds
from chainrule.plan.text import instructions

if TYPE_CHECKING:
    from chainrule.plan.planner import Plan

Row = tuple[str, str, str, str, str, str]


@dataclass(frozen=True, eq=False)
class PlanTimes(ShownByText):
    """What `plan.measured()` gives: nanoseconds, one number for each instruction of the plan.

    `print` it for a table: for each instruction what it is, both times, the measured one by the
    predicted one, and the values that it writes.
    """

    plan: Plan
    measured: Sequence[float]

    @cached_property
    def predicted(self) -> tuple[float, ...]:
        """For this machine, which was calibrated once."""
        return plan_nanoseconds(self.plan, uses.speeds_here(self.plan))

    def __str__(self) -> str:
        rows: list[Row] = [("", "instruction", "predicted", "measured", "ratio", "writes")]
        times = zip(self.predicted, self.measured, strict=True)
        whole = fsum(self.predicted), fsum(self.measured)
        for number, ((what, names), pair) in enumerate(
            zip(instructions(self.plan), times, strict=True), 1
        ):
            rows.append((str(number), what, *_cells(*pair), names))
        rows.append(("", "all", *_cells(*whole), ""))
        widths = [max(len(row[place]) for row in rows) for place in range(5)]
        lines = [_line(row, widths) for row in rows]
        return "\n".join([f"times of {self.plan.graph.name}, in microseconds", *lines])


def _cells(predicted: float, measured: float) -> tuple[str, str, str]:
    ratio = f"{measured / predicted:.2f}" if predicted else "-"
    return f"{predicted / 1000:,.1f}", f"{measured / 1000:,.1f}", ratio


def _line(row: Row, widths: Sequence[int]) -> str:
    number, what, *times, names = row
    first = f"{number:>{widths[0]}}  {what:<{widths[1]}}"
    cells = (f"{cell:>{width}}" for cell, width in zip(times, widths[2:], strict=True))
    return "  ".join(["", first, *cells, names]).rstrip()
