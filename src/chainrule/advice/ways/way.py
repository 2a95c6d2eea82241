"""A way to train a step, as data: what it takes, what it changes, and the code that does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass, field

if TYPE_CHECKING:
    from chainrule.explain.cost.measured_runs import Measure, Run

NONE, ROUNDING, OTHER = "none", "rounding", "other"  # changes of the trajectory


@dataclass(frozen=True)
class TrainingWay:
    """One way.

    `needed_nbytes` are those of the device that needs most, of `devices`; `seconds` are of a step
    on `rows` rows.  `extra_flops` are operations beyond those of the plain step on as many rows,
    `sent_nbytes` what devices send each other in a step, `idle` the share of their time in which
    they wait.  `noise` is by how much the variance of a step's gradient is multiplied, `trajectory`
    what becomes of the training: none (the same bits), rounding, or other.  `why_not` says why it
    does not fit; "" where it does.  `measured_seconds` are those of runs, None before any.
    """

    what: str
    kind: str
    needed_nbytes: int
    seconds: float
    rows: int
    code: str
    devices: int = 1
    extra_flops: int = 0
    sent_nbytes: int = 0
    idle: float = 0.0
    noise: float = 1.0
    trajectory: str = NONE
    why_not: str = ""
    measured_seconds: float | None = None
    run: Callable[[Measure], Run] | None = field(default=None, repr=False, compare=False)

    @property
    def fits(self) -> bool:
        """Whether it can be taken."""
        return not self.why_not

    @property
    def seconds_a_sample(self) -> float:
        """Predicted seconds of a step, by its rows."""
        return self.seconds / self.rows

    def json(self) -> dict[str, Any]:
        """The numbers in a dict that `json.dumps` takes."""
        found = {name: one for name, one in vars(self).items() if name != "run"}
        return {**found, "fits": self.fits, "seconds_a_sample": self.seconds_a_sample}
