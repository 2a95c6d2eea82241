"""Buffers placed in one arena by CP-SAT, the constraint solver of OR-tools: a referee for
`chainrule.place_buffers`.  `pip install ortools`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from ortools.sat.python import cp_model

from chainrule.schedule.placement.place import Placement, place_buffers


def place_by_cp_sat(
    buffers: Sequence[tuple[int, int, int]],
    *,
    seconds: float = 60.0,
    capacity: int | None = None,
    threads: int = 1,
) -> Placement:
    """As `place_buffers` of (start, stop, nbytes), by CP-SAT: the best arena that it finds within
    `seconds`; with a capacity the first one within it."""
    quick = place_buffers(buffers, seconds=0)
    limit = quick.nbytes if capacity is None else capacity
    if quick.nbytes <= quick.lower_bound or quick.lower_bound > limit:
        return quick
    unit = gcd(*(nbytes for _, _, nbytes in buffers))
    limit //= unit
    model = cp_model.CpModel()
    arena = model.new_int_var(quick.lower_bound // unit, limit, "arena")
    offsets, alive = [], []
    for number, (_, _, nbytes) in enumerate(buffers):
        size = nbytes // unit
        offsets.append(model.new_int_var(0, limit - size, f"offset {number}"))
        alive.append(model.new_fixed_size_interval_var(offsets[-1], size, f"buffer {number}"))
        model.add(offsets[-1] + size <= arena)
    for moment in sorted({start for start, _, _ in buffers}):
        together = [n for n, (start, stop, _) in enumerate(buffers) if start <= moment < stop]
        model.add_no_overlap([alive[number] for number in together])
    if capacity is None:
        model.minimize(arena)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = threads
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return replace(quick, lower_bound=(limit + 1) * unit)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return quick
    found = tuple(int(solver.value(offset)) * unit for offset in offsets)
    nbytes = max(offset + size for offset, (_, _, size) in zip(found, buffers, strict=True))
    bound = quick.lower_bound
    if capacity is None:
        bound = max(bound, int(solver.best_objective_bound) * unit)
    return replace(quick, offsets=found, nbytes=nbytes, lower_bound=bound, strategy="CP-SAT")
