"""The position of a training: its epoch, its batch, and the sums for averages."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass
class Sums:
    """Over some steps: of the objective, each times its rows; of rows; of seconds.

    `correct` is the count of rows that were classified right, at their beginning.
    """

    objective: float = 0.0
    rows: int = 0
    seconds: float = 0.0
    correct: float = 0.0

    def add(self, later: Sums) -> None:
        """Take in steps that came later."""
        self.objective += later.objective
        self.rows += later.rows
        self.seconds += later.seconds

    @property
    def mean(self) -> float:
        """The mean objective; NaN over no rows."""
        return self.objective / self.rows if self.rows else float("nan")

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds if self.seconds else float("nan")

    def accuracy(self, correct: float | None) -> float | None:
        """The fraction of rows that were right, from the count now; None without a count."""
        return None if correct is None or not self.rows else (correct - self.correct) / self.rows


@dataclass
class Position:
    """`epoch` epochs are done, and `batch` batches of the next one.

    `line` are the sums since the last line of the history, `before` those of this epoch before it.
    """

    epoch: int = 0
    batch: int = 0
    line: Sums = field(default_factory=Sums)
    before: Sums = field(default_factory=Sums)

    def copy(self) -> Position:
        """The same, in an object of its own."""
        return Position(self.epoch, self.batch, replace(self.line), replace(self.before))

    def json(self) -> dict[str, Any]:
        """As JSON has it; sums that are not finite are text."""
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "line": _sums_json(self.line),
            "before": _sums_json(self.before),
        }

    @classmethod
    def read(cls, found: Any) -> Position:
        """From what `json` gave; ValueError where it has another shape."""
        try:
            epoch, batch = found["epoch"], found["batch"]
            line, before = _sums(found["line"]), _sums(found["before"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"no position: {error}") from error
        if not all(type(one) is int and one >= 0 for one in (epoch, batch)):
            raise ValueError(f"epoch {epoch!r}, batch {batch!r}")
        return cls(epoch, batch, line, before)


def _sums_json(sums: Sums) -> dict[str, Any]:
    return {**asdict(sums), "objective": repr(sums.objective)}


def _sums(found: dict[str, Any]) -> Sums:
    written: dict[str, Any] = {**found, "objective": float(found["objective"])}
    sums = Sums(**written)
    if type(sums.rows) is not int or not all(
        type(one) in (int, float) for one in (sums.seconds, sums.correct)
    ):
        raise ValueError(f"no sums: {found}")
    return sums
