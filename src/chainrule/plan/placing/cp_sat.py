"""The same question for CP-SAT, the constraint solver of OR-tools (an optional package)."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from chainrule.errors import UnsupportedError
from chainrule.plan.placing.blocks import Block, arena_nbytes
from chainrule.plan.placing.effort import problem
from chainrule.plan.placing.improve import Found


def solved(
    blocks: Sequence[Block], found: Found, seconds: float, capacity: int | None, threads: int
) -> Found:
    """The best arena that CP-SAT finds within `seconds`, or `found` if it finds none; with a
    capacity the first one within it.

    UnsupportedError where OR-tools is not installed.
    """
    asked, cp_model = problem(blocks), _cp_model()
    limit = found.nbytes if capacity is None else capacity
    if found.nbytes <= found.lower_bound or not found.lower_bound <= limit:
        return found
    unit = gcd(*asked.size.tolist())
    limit //= unit
    model = cp_model.CpModel()
    arena = model.new_int_var(found.lower_bound // unit, limit, "arena")
    starts: dict[int, Any] = {}
    for piece in asked.pieces:
        spans = []
        for number, size in zip(piece.numbers.tolist(), (piece.size // unit).tolist(), strict=True):
            starts[number] = model.new_int_var(0, limit - size, f"offset {number}")
            spans.append(model.new_fixed_size_interval_var(starts[number], size, f"block {number}"))
            model.add(starts[number] + size <= arena)
        for section in range(len(piece.load)):
            members = piece.member[piece.section == section].tolist()
            model.add_no_overlap([spans[member] for member in members])
    if capacity is None:
        model.minimize(arena)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = threads
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Found(found.offsets, found.nbytes, found.strategy, (limit + 1) * unit)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return found
    offsets = [0] * len(blocks)
    for number, start in starts.items():
        offsets[number] = int(solver.value(start)) * unit
    bound = found.lower_bound
    if capacity is None:
        bound = max(bound, int(solver.best_objective_bound) * unit)
    return Found(offsets, arena_nbytes(blocks, offsets), "CP-SAT", bound)


def _cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model  # pyright: ignore[reportMissingImports]  # optional
    except ImportError as error:
        raise UnsupportedError(
            "CP-SAT is part of OR-tools, which is not installed",
            hint="pip install 'chainrule[placement]', or place(...), which needs no other package",
        ) from error
    return cp_model
