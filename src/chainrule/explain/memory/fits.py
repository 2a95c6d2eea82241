"""Decides whether a run fits in an amount of memory, and says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from chainrule.dataclass import dataclass, field
from chainrule.errors import InputError, SizeError
from chainrule.execute.free_memory import free_memory
from chainrule.explain.memory.margins import MEASURE, in_words
from chainrule.graph.bytes_text import in_bytes, nbytes_of
from chainrule.graph.in_notebooks import ShownByText

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport

SHOWN = 3  # parts that the reason names


@dataclass(frozen=True)
class Way(ShownByText):
    """A way to fit: what it is, the bytes it needs, and about how long it takes in nanoseconds.

    `is_measured`: that is the time of runs.  Else it may be less or more by the fraction `margin`,
    beside the time of the whole batch without a budget.
    """

    what: str
    needed_nbytes: int
    nanoseconds: float
    is_measured: bool = False
    margin: float = 0.0

    def __str__(self) -> str:
        about = "     " if self.is_measured else "about"
        milliseconds = f"{self.nanoseconds / 1e6:,.3g} ms"
        time = f"{about} {milliseconds:>10} {in_words(self.margin):<5}"
        return f"{in_bytes(self.needed_nbytes):>12}  {time}  {self.what}"


@dataclass(frozen=True)
class Fit(ShownByText):
    """True where `needed_nbytes` are at most `limit_nbytes`; as text, the reason.

    `ways`, of a training step: the ways in which it fits, the quickest first; planned when asked
    for.
    """

    needed_nbytes: int
    limit_nbytes: int
    parts: Mapping[str, int]
    sizes: Mapping[str, int]
    find_ways: Callable[[], tuple[Way, ...]] = field(default=tuple, repr=False, compare=False)

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """The ways to fit; none of a graph."""
        return self.find_ways()

    def __bool__(self) -> bool:
        return self.needed_nbytes <= self.limit_nbytes

    @property
    def reason(self) -> str:
        """What is needed at which sizes, of how much, and what most of it is for."""
        at = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        need, limit = in_bytes(self.needed_nbytes), in_bytes(self.limit_nbytes)
        text = f"{at}: " if at else ""
        text += f"{need} are needed, of {limit}"
        if not self:
            text += f": {in_bytes(self.needed_nbytes - self.limit_nbytes)} too much"
        return f"{text} ({most_of(self.parts, SHOWN)})"

    def __str__(self) -> str:
        lines = [self.reason, *(f"  {way}" for way in self.ways)]
        if any(way.margin for way in self.ways):
            lines.append(f"  {MEASURE}")
        return "\n".join(lines)


def most_of(parts: Mapping[str, int], count: int) -> str:
    """The largest parts in words: `parameters 3 MiB, inputs 2 MiB`."""
    found = sorted(parts.items(), key=lambda pair: -pair[1])[:count]
    return ", ".join(f"{name} {in_bytes(nbytes)}" for name, nbytes in found if nbytes)


def amount_or_sizes(
    amount: int | str | Mapping[str, int] | None, nbytes: int | str | None
) -> tuple[int | str | None, Mapping[str, int]]:
    """The amount and the sizes that the first argument of `step.fits`, and `nbytes`, give.

    InputError for two amounts.
    """
    if isinstance(amount, Mapping):
        return nbytes, amount
    if amount is not None and nbytes is not None:
        raise InputError(
            f"step.fits got two amounts of memory, {amount!r} and nbytes={nbytes!r}",
            hint="leave one of them out",
        )
    return nbytes if amount is None else amount, {}


def fit_of(report: MemoryReport, nbytes: int | str | None) -> Fit:
    """Whether the main run of a report fits in `nbytes`; None stands for the machine's free
    memory (InputError where that is not known).  SizeError where a size was not given."""
    if report.assumed:
        raise SizeError(
            f"whether a run fits depends on {', '.join(report.graph.sizes)}, and "
            f"{', '.join(report.assumed)} was not given",
            hint=f"fits({', '.join(f'{name}=...' for name in report.graph.sizes)}, nbytes=...)",
        )
    if nbytes is None:
        free = free_memory()
        if free is None:
            raise InputError(
                "how much memory is free is not known on this system", hint='nbytes="8GiB"'
            )
        limit = free.nbytes
    else:
        limit = nbytes_of(nbytes)
    return Fit(report.needed_nbytes, limit, report.main.parts, report.sizes)
