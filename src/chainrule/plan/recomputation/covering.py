"""What must be executed again so that moments fit into the budget, as a linear program for HiGHS.

The dual solution of the relaxation is turned into a bound that holds whatever the tolerance of the
solver (Neumaier and Shcherbina, Mathematical Programming 99, 2004).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import monotonic
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.plan.recomputation.problem import Problem

TOLERANCE = 1e-6  # of HiGHS, for integers


@dataclass(frozen=True)
class Moment:
    """The first execution of `node`, with its ancestors `past`: `crossing` are those that are
    needed later and may have to be alive beside `allowed` bytes of what the node needs itself;
    `fixed` are those that cannot execute again afterwards."""

    node: int
    past: frozenset[int]
    crossing: frozenset[int]
    fixed: frozenset[int]
    allowed_nbytes: int

    def missing_nbytes(self, problem: Problem, again: Sequence[float]) -> float:
        """By how much what is alive is above what is allowed, if so much is executed again."""
        alive = sum(problem.nbytes[u] * max(0.0, 1 - again[u]) for u in self.crossing)
        return alive - self.allowed_nbytes


@dataclass(frozen=True, eq=False)
class Program:
    """Least `costs` times z for z in [0, upper] with `matrix` times z at most `right`.

    The first variables are how often each node executes again, which for a sequence are integers;
    their costs are `integers`, which `costs` counts in `scale`.
    """

    costs: np.ndarray
    matrix: Any
    right: Any
    upper: Any
    integers: tuple[int, ...]
    scale: int

    def relaxed(self, deadline: float) -> tuple[int, list[float]] | None:
        """The cost that the relaxation proves, and how often it executes each node again; None
        where time is over."""
        from scipy.optimize import linprog

        left = deadline - monotonic()
        if left <= 0:
            return None
        found = linprog(
            self.costs,
            A_ub=self.matrix,
            b_ub=self.right,
            bounds=np.stack([np.zeros_like(self.upper), self.upper], 1),
            method="highs",
            options={"time_limit": left},
        )
        if found.status != 0:
            return None
        # Weak duality: for any y <= 0, costs.z >= y.right + min over the box of (costs - yA).z
        y = np.minimum(found.ineqlin.marginals, 0.0)
        reduced = np.minimum(self.costs - self.matrix.T @ y, 0.0)
        proved = float(y @ self.right) + float(reduced @ self.upper)
        rounding = 1e-9 * (1.0 + float(np.abs(y) @ np.abs(self.right)))
        return self.whole(proved - rounding), list(found.x[: len(self.integers)])

    def integral(self, deadline: float, most_nodes: int) -> int:
        """The cost that branching over the integers proves, in so many nodes of the search."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        left = deadline - monotonic()
        if left <= 0:
            return 0
        found = milp(
            self.costs,
            integrality=np.arange(len(self.costs)) < len(self.integers),
            bounds=Bounds(0, self.upper),
            constraints=LinearConstraint(self.matrix, -np.inf, self.right),
            # Presolving saves a third of the time, but HiGHS may then print a line of its own.
            options={
                "time_limit": left,
                "node_limit": most_nodes,
                "mip_rel_gap": 0.0,
                "presolve": False,
            },
        )
        if found.status == 0:  # solved: the cost of the solution, without the rounding of sums
            return sum(one for one, x in zip(self.integers, found.x, strict=False) if x > 0.5)
        proved = getattr(found, "mip_dual_bound", None)
        if proved is None or not math.isfinite(proved):
            return 0
        return self.whole(proved - TOLERANCE * (1 + abs(proved)))

    def whole(self, proved: float) -> int:
        """The least cost there can be that is not below what is proved."""
        unit = max(1, math.gcd(*self.integers))
        return max(0, math.ceil(proved * self.scale / unit) * unit)


def program_of(problem: Problem, moments: Sequence[Moment]) -> Program:
    """The program of these moments.

    Beside x[u], how often u executes again, there are for each moment r[u], whether u does so
    after it, and a[u], whether the value is alive at it.
    """
    from scipy.sparse import coo_array

    upper = [1.0] * problem.size
    entries: list[tuple[int, int, float]] = []
    right: list[float] = []

    def at_most(terms: Sequence[tuple[int, float]], limit: float) -> None:
        entries.extend((len(right), column, number) for column, number in terms)
        right.append(limit)

    for moment in moments:
        own = set(problem.inputs[moment.node])
        again = {u: len(upper) + at for at, u in enumerate(sorted(moment.past))}
        upper += [0.0 if u in moment.fixed else 1.0 for u in again]
        alive = {u: len(upper) + at for at, u in enumerate(sorted(moment.past - own))}
        upper += [1.0] * len(alive)
        for u, r in again.items():
            at_most([(r, 1.0), (u, -1.0)], 0.0)
            for p in problem.inputs[u]:
                if p not in own:
                    at_most([(r, 1.0), (again[p], -1.0), (alive[p], -1.0)], 0.0)
        for u in sorted(moment.crossing):
            at_most([(again[u], -1.0), (alive[u], -1.0)], -1.0)
        unit = max(1, max((problem.nbytes[u] for u in alive), default=1))
        stored = [(a, problem.nbytes[u] / unit) for u, a in alive.items() if problem.nbytes[u]]
        at_most(stored, moment.allowed_nbytes / unit)
    rows, columns, numbers = zip(*entries, strict=True)
    scale = max(1, max(problem.cost))
    costs = np.zeros(len(upper))
    costs[: problem.size] = np.array(problem.cost, float) / scale
    return Program(
        costs=costs,
        matrix=coo_array((numbers, (rows, columns)), shape=(len(right), len(upper))).tocsr(),
        right=np.array(right),
        upper=np.array(upper),
        integers=problem.cost,
        scale=scale,
    )
