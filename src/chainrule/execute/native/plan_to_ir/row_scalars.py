"""What a sweep over the columns of a row needs to know of the row, before the loop begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chainrule.execute.native.plan_to_ir.emit import Code, Operand, with_lanes
from chainrule.execute.native.plan_to_ir.emit_instances import Index, Points, register_type
from chainrule.execute.native.plan_to_ir.quotients import (
    FUSED_NBYTES,
    Divisor,
    divides_floats,
    divisor,
)
from chainrule.plan.loops.loop_work import Instance, Kind
from chainrule.plan.loops.sweeps import Sweep, is_row_quotient

if TYPE_CHECKING:
    from chainrule.execute.native.plan_to_ir.lanes_code import LanesCode
    from chainrule.execute.native.plan_to_ir.nest_code import NestCode

Divisors = dict[Instance, Divisor]  # by quotient


@dataclass(eq=False)
class RowScalars:
    """Operands that are the same for all columns: values that these read, divisors, and indices
    that were checked."""

    values: dict[Instance, Operand] = field(default_factory=dict)
    divisors: Divisors = field(default_factory=dict)
    indices: dict[Index, Operand] = field(default_factory=dict)

    def splat(self, code: Code, width: int) -> RowScalars:
        """The same with values and divisors in every lane of vectors."""

        def wide(x: Operand) -> Operand:
            return code.splat(x, with_lanes(x.type, width))

        values = {one: wide(x) for one, x in self.values.items()}
        divisors = {one: Divisor(*map(wide, by)) for one, by in self.divisors.items()}
        return RowScalars(values, divisors, self.indices)


def row_scalars(nest: NestCode | LanesCode, sweep: Sweep) -> RowScalars:
    """Those of the row at hand; the places of its arrays are known afterwards, too."""
    points, places = nest.row_points(), nest.places
    found = RowScalars()
    wanted: dict[Instance, None] = {}
    for one in sweep.computes:
        if one.source is not None:
            places.row_pointer(one.source, one.place)
    for store in (*sweep.stores, *sweep.rereads.values()):
        places.row_pointer(store.node, store.place)
    for one in sweep.computes:
        values = one.operands
        if one.kind is Kind.ONE_HOT:
            _fix(found, points, values[1:], one.node.shape[1:], one.node.param("wrap"))
            values = values[:1]
        elif one.kind is Kind.GATHER:
            _fix(found, points, values, one.node.inputs[0].shape, one.node.param("wrap"))
            values = ()
        wanted.update(dict.fromkeys(values))
    for store in sweep.stores:
        wanted.setdefault(store.value)
        if store.indices:
            _fix(found, points, store.indices, store.node.shape, store.node.param("wrap"))
    wanted.update(dict.fromkeys(fold.operands[0] for fold in sweep.folds))
    found.values = {one: nest.outer(one) for one in wanted if not one.inner}
    found.divisors = _divisors(nest, sweep)
    return found


def _fix(
    found: RowScalars,
    points: Points,
    operands: Sequence[Instance],
    shape: Sequence[int],
    wrap: bool,
) -> None:
    """Check the indices of the first axes of the shape that belong to the row."""
    for operand, size in zip(operands, shape, strict=False):
        if not operand.inner:
            found.indices[operand, size, wrap] = points.in_range(operand, size, wrap)


def _divisors(nest: NestCode | LanesCode, sweep: Sweep) -> Divisors:
    """One division for the row, where all columns are divided by the same number."""
    found: Divisors = {}
    known: dict[Instance, Divisor] = {}
    if nest.layout.vector_nbytes < FUSED_NBYTES:
        return found
    for one in sweep.computes:
        if not is_row_quotient(one) or not one.operands[0].inner:
            continue
        by = one.operands[1]
        if divides_floats(register_type(by.node.dtype)):
            if by not in known:
                known[by] = divisor(nest.code, nest.outer(by))
            found[one] = known[by]
    return found
