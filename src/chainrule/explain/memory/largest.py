"""Finds the largest size that fits: the formula guesses, real plans around the guess decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from chainrule.dataclass import dataclass
from chainrule.errors import InputError, MemoryLimitError, SizeError
from chainrule.explain.memory.formula import Formula
from chainrule.graph.bind import check_conditions
from chainrule.graph.bytes_text import in_bytes, nbytes_of
from chainrule.graph.in_notebooks import ShownByText

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport

GUESSES = 8  # plans by which the formula may come nearer
NEIGHBOURS = 8  # sizes that are planned above the one that was found
MULTIPLES = (16, 64, 256)  # of these, the next one is planned, too: vectors and tiles are full
FARTHEST = 4096  # sizes that the program may refuse in a row
LARGEST = 1 << 62


@dataclass(frozen=True)
class Largest(ShownByText):
    """The largest size found that fits, and what a run at that size needs.

    `planned` are the needs, in bytes, at all sizes for which a real plan was made.
    """

    name: str
    size: int
    nbytes: int
    limit_nbytes: int
    planned: dict[int, int]

    @property
    def is_monotone(self) -> bool:
        """Whether, among the sizes planned, larger ones need no less."""
        needs = [need for _, need in sorted(self.planned.items())]
        return needs == sorted(needs)

    def __str__(self) -> str:
        above = sorted(size for size in self.planned if size > self.size)
        text = (
            f"{self.name} = {self.size:,} fits: it needs {self.nbytes:,} bytes of "
            f"{self.limit_nbytes:,} ({in_bytes(self.limit_nbytes)})"
        )
        if above:
            text += f"; {self.name} = {above[0]:,} needs {self.planned[above[0]]:,}"
        text += f". {len(self.planned)} sizes were planned"
        if above:
            text += f", {len(above)} of them above, up to {above[-1]:,}: none of these fits"
        if self.is_monotone:
            return text + "."
        return text + f". Not every larger {self.name} needs more, so one beyond may still fit."


def largest(
    report: MemoryReport,
    name: str,
    nbytes: int | str,
    need: Callable[[MemoryReport], int] = lambda report: report.needed_nbytes,
) -> Largest:
    """The largest `name` with which the main run of the report needs at most `nbytes`.

    `need` says what counts of a report.  The other sizes are those of the report.
    MemoryLimitError if none fits, SizeError for an unknown size, InputError where the need does
    not depend on it.
    """
    if name not in report.sizes:
        raise SizeError(
            f"the graph {report.graph.name} has no size called {name!r}",
            hint=f"its sizes are: {', '.join(report.sizes) or 'none, all are integers'}",
        )
    others = {other: size for other, size in report.sizes.items() if other != name}
    curve = report.formulas.peak.bind(**others)
    if all(isinstance(one, int) for one in curve.peaks):
        raise InputError(f"what {report.graph.name} needs does not depend on {name}")
    return _Search(report, name, nbytes_of(nbytes), curve, need).found()


class _Search:
    def __init__(
        self,
        report: MemoryReport,
        name: str,
        limit: int,
        curve: Formula,
        need: Callable[[MemoryReport], int],
    ) -> None:
        self.report, self.name, self.limit, self.curve = report, name, limit, curve
        self.counted = need
        self.planned = {report.sizes[name]: need(report)}

    def need(self, size: int) -> int:
        if size not in self.planned:
            self.planned[size] = self.counted(self.report.at(**{self.name: size}))
        return self.planned[size]

    def fits(self, size: int) -> bool:
        return self.need(size) <= self.limit

    def found(self) -> Largest:
        self._approach()
        low = self._lowest()
        while True:
            low = self._settled(low)
            farther = [size for size in self._above(low) if self.fits(size)]
            if not farther:
                break
            low = max(farther)
        return Largest(self.name, low, self.need(low), self.limit, dict(self.planned))

    def _approach(self) -> None:
        """Plan at the size that the formula gives, corrected by what the last plan had more."""
        size = self.report.sizes[self.name]
        for _ in range(GUESSES):
            more = self.need(size) - self.curve.at(**{self.name: size})
            guess = self._allowed(range(self._guess(self.limit - more), 0, -1))
            if guess is None or guess in self.planned:
                break
            size = guess

    def _guess(self, nbytes: int) -> int:
        """A size at which the formula goes from at most `nbytes` to more, or 1."""
        low, high = 1, 2
        while high < LARGEST and self.curve.at(**{self.name: high}) <= nbytes:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if self.curve.at(**{self.name: middle}) <= nbytes:
                low = middle
            else:
                high = middle
        return low

    def _lowest(self) -> int:
        """The largest planned size that fits; failing these, a smaller one."""
        while not any(map(self.fits, self.planned)):
            size = self._allowed(range(min(self.planned) // 2, 0, -1))
            if size is None:
                raise self._refusal()
            self.need(size)
        return max(filter(self.fits, self.planned))

    def _refusal(self) -> MemoryLimitError:
        size = min(self.planned, key=self.planned.__getitem__)
        need = self.planned[size]
        return MemoryLimitError(
            f"no {self.name} fits in {in_bytes(self.limit)}: {self.name} = {size:,} needs "
            f"{need:,} bytes ({in_bytes(need)})",
            hint="give more memory, or make other sizes smaller",
        )

    def _settled(self, low: int) -> int:
        """From a size that fits, by doubled steps and bisection, to one above which none does."""
        step = 1
        high = min((size for size in self.planned if size > low), default=None)
        while high is None:
            size = self._allowed(range(low + step, LARGEST))
            if size is None:
                return low
            if self.fits(size):
                low, step = size, 2 * step
            else:
                high = size
        while True:
            middle = (low + high) // 2
            between = self._allowed(range(middle, low, -1)) or self._allowed(
                range(middle + 1, high)
            )
            if between is None:
                return low
            low, high = (between, high) if self.fits(between) else (low, between)

    def _above(self, low: int) -> list[int]:
        """Sizes somewhat larger than `low`, which the program allows."""
        near = range(low + 1, low + NEIGHBOURS + 1)
        full = [(low // multiple + 1) * multiple for multiple in MULTIPLES]
        return [size for size in dict.fromkeys([*near, *full]) if self._allowed([size])]

    def _allowed(self, candidates: Iterable[int]) -> int | None:
        """The first of the sizes, within reason, that meets the conditions of the program."""
        for tried, size in enumerate(candidates):
            if tried == FARTHEST:
                break
            try:
                check_conditions(self.report.graph, {**self.report.sizes, self.name: size})
            except SizeError:
                continue
            return size
        return None
