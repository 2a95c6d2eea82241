"""Predicts the cost of a Jacobian or Hessian, and refuses those that do not fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from chainrule.dataclass import dataclass, field
from chainrule.errors import MemoryLimitError
from chainrule.execute.free_memory import SWITCH, refuse_beyond_free
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.graph.in_notebooks import ShownByText
from chainrule.schedule.plain import most_nbytes

SUGGESTED = (64, 16, 4, 1)  # rows at a time


@dataclass(frozen=True, eq=False)
class Bill(ShownByText):
    """What one call takes: `rows` rows of `width` numbers, `at_once` of them at a time.

    `in_parts` says that `rows=` asked for this, and that the result is filled part by part.
    `flops` are floating-point operations, `nbytes` the bytes of the result, `peak_nbytes` what is
    allocated when most is, the result included and the arguments not.
    """

    title: str
    rows: int
    width: int
    at_once: int
    nbytes: int
    in_parts: bool
    executor: str
    graph: Graph = field(repr=False)

    @property
    def passes(self) -> int:
        """How often the graph runs."""
        return -(-self.rows // self.at_once) if self.at_once else 1

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of all passes."""
        return self.passes * sum(int(node.primitive.flops(node)) for node in self.graph.nodes)

    @cached_property
    def peak_nbytes(self) -> int:
        """The most bytes that are allocated beside the arguments, by the plan of the executor."""
        run = self.graph.memory(executor=self.executor).main
        beside = run.peak_nbytes - run.usage.given_nbytes
        return beside + (self.nbytes if self.in_parts else 0)

    @cached_property
    def bound_nbytes(self) -> int:
        """No less than `peak_nbytes`, and known without a plan."""
        return self.nbytes + most_nbytes(self.graph)

    def __str__(self) -> str:
        parts = f", {self.at_once:,} rows at a time" if self.in_parts else ""
        return (
            f"{self.title}, {self.rows:,} x {self.width:,}{parts}: {self.flops:,} operations, "
            f"{self.nbytes:,} bytes ({in_bytes(self.nbytes)}) for the result, "
            f"{self.peak_nbytes:,} ({in_bytes(self.peak_nbytes)}) at the peak"
        )


def refuse_beyond(bill: Bill, in_parts: Callable[[int], Bill], instead: str) -> None:
    """MemoryLimitError where a call cannot have its bytes, with the rows at a time that can.

    `in_parts(rows)` is the bill of so many; `instead` says what needs no matrix.
    """
    try:
        refuse_beyond_free(bill.bound_nbytes, lambda: bill.peak_nbytes)
    except MemoryLimitError as error:
        _explain(bill, in_parts, instead, error)


def _explain(
    bill: Bill, in_parts: Callable[[int], Bill], instead: str, error: MemoryLimitError
) -> NoReturn:
    free = error.free_nbytes
    at_once = f", {bill.at_once:,} rows at a time," if bill.in_parts else ","
    what = (
        f"{bill.title}, {bill.rows:,} x {bill.width:,}{at_once} needs {bill.peak_nbytes:,} bytes "
        f"({in_bytes(bill.peak_nbytes)}) beside its arguments, and {free:,} ({in_bytes(free)}) "
        f"are free ({error.source})\n"
        f"  the result alone has {bill.nbytes:,} bytes ({in_bytes(bill.nbytes)}), and takes "
        f"{bill.flops:,} floating-point operations"
    )
    hint = f"{_smaller(bill, in_parts, free) or instead};\n{SWITCH}"
    found = MemoryLimitError(what, hint=hint)
    found.needed_nbytes, found.free_nbytes = bill.peak_nbytes, free
    found.source = error.source
    raise found from None


def _smaller(bill: Bill, in_parts: Callable[[int], Bill], free: int) -> str:
    """The most rows at a time, of a few numbers, that fit; nothing where none do."""
    if bill.nbytes > free:
        return ""
    for rows in SUGGESTED:
        if rows < bill.at_once:
            other = in_parts(rows)
            if other.peak_nbytes <= free:
                need = f"{other.peak_nbytes:,} bytes ({in_bytes(other.peak_nbytes)})"
                return f"rows={rows} makes {rows} rows at a time, and needs {need} in all"
    return ""
