"""A `Schedule` computes a hyperparameter from the number of steps, by a rule on nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chainrule.dataclass import dataclass, field

ScheduleRule = Callable[[Any, Mapping[str, Any]], Any]  # of Values, as for an Optimizer's rule


@dataclass(frozen=True)
class Schedule:
    """What takes the place of a number among the scalars of an optimizer.

    `scalars` are its own numbers with their defaults.  Each becomes an input of the graph under
    the name of what is scheduled and its own: `learning_rate_base`.

    `rule(steps, scalars)` returns the scheduled number, a 0-d node of float64, from the number of
    steps taken before this one and the schedule's numbers, which are 0-d float64 nodes too.

    `checks` has, for a scalar, a function that raises InputError where a number cannot be that
    scalar; without one it can be every finite number.
    """

    name: str
    scalars: tuple[tuple[str, float], ...]
    rule: ScheduleRule = field(repr=False)
    checks: Mapping[str, Callable[[Any], Any]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value:g}' for name, value in self.scalars)})"
