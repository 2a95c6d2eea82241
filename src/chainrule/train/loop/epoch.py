"""`Epoch`: the results of one epoch of training."""

from __future__ import annotations

from chainrule.dataclass import dataclass
from chainrule.train.evaluation.measures import Measures


@dataclass(frozen=True)
class Epoch:
    """The epoch with this number, from 1; `steps` were taken in all when it ended.

    `objective` is its mean over the rows of the epoch, each at its step, before the update;
    `accuracy` likewise, and None where no classes are named.  `validation` are the measures after
    the last step, None without validation data.  `seconds` is the time of the steps, with their
    data, and without validation and checkpoints.
    """

    number: int
    steps: int
    objective: float
    accuracy: float | None
    validation: Measures | None
    seconds: float
    samples_per_second: float

    def __str__(self) -> str:
        parts = [f"epoch {self.number}", f"objective {self.objective:.4f}"]
        if self.accuracy is not None:
            parts.append(f"accuracy {self.accuracy:.1%}")
        if self.validation is not None:
            parts.append(f"validation objective {self.validation.objective:.4f}")
            if self.validation.accuracy is not None:
                parts.append(f"accuracy {self.validation.accuracy:.1%}")
        parts.append(f"{self.samples_per_second:,.0f} samples/s")
        return "  ".join(parts)
