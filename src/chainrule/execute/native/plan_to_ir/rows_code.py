"""Writes the update of the rows of a table that a batch touches: sums by row, then their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.execute.native.plan_to_ir.emit import Code, Operand, count
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.rows_work import RowsWork
from chainrule.schedule.records import Buffer

if TYPE_CHECKING:
    from chainrule.execute.native.plan_to_ir.segment_code import SegmentWriter

NONE = Operand("-1", "i32")
NULL = Operand("null", "ptr")
SET = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"


def emit_rows(segment: SegmentWriter, work: RowsWork, workspace: Buffer) -> None:
    """The instruction, by one thread.

    First no row has a sum; then each update is added to the sum of its row, in the order of the
    indices as without this; at last the rows of all sums are updated.
    """
    segment.barriers.serial()
    code = segment.code
    room = segment.pointer(workspace)
    rows = code.address(room, count(work.rows_offset), "i8")
    sums = code.address(room, count(work.sums_offset), "i8")
    indices = segment.value(work.indices)
    zero, end = count(0), count(work.count)
    code.module.declare(SET)
    nbytes = work.count * work.row_nbytes
    code.do(f"call void @llvm.memset.p0.i64(ptr {sums.text}, i8 0, i64 {nbytes}, i1 false)")

    def row_of(number: Operand) -> Operand:
        type_ = f"i{8 * work.indices.dtype.itemsize}"
        row = code.load(code.address(indices, number, type_), type_)
        row = row if type_ == "i64" else code.convert("sext", row, "i64")
        from_the_end = code.binary("add", row, count(work.height))
        return code.select(code.compare("icmp slt", row, zero), from_the_end, row)

    def forget(number: Operand, values: list[Operand]) -> list[Operand]:
        code.store(NONE, code.address(room, row_of(number), "i32"))
        return values

    def add(number: Operand, values: list[Operand]) -> list[Operand]:
        row, (used,) = row_of(number), values
        slot = code.address(room, row, "i32")
        known = code.convert("sext", code.load(slot, "i32"), "i64")
        is_new = code.compare("icmp slt", known, zero)
        place = code.select(is_new, used, known)
        code.store(code.convert("trunc", place, "i32"), slot)
        code.store(row, code.address(rows, place, "i64"))
        _run_rows(segment, work, work.adds, number, _shifted(code, work, sums, place, row))
        return [code.binary("add", used, code.convert("zext", is_new, "i64"))]

    def update(place: Operand, values: list[Operand]) -> list[Operand]:
        row = code.load(code.address(rows, place, "i64"), "i64")
        _run_rows(segment, work, work.update, row, _shifted(code, work, sums, place, row))
        return values

    code.loop(zero, end, 1, [], forget)
    (used,) = code.loop(zero, end, 1, [zero], add)
    code.loop(zero, used, 1, [], update)


def _shifted(code: Code, work: RowsWork, sums: Operand, place: Operand, row: Operand) -> Operand:
    """Where the gradient of the whole table would begin, for its row to be the sum in `place`."""
    distance = code.binary("sub", place, row)
    return code.address(sums, code.binary("mul", distance, count(work.row_nbytes)), "i8")


def _run_rows(
    segment: SegmentWriter, work: RowsWork, layout: NestLayout, number: Operand, scattered: Operand
) -> None:
    """Call the code of a nest for what belongs to one index, or to one row of the table."""
    code, each = segment.code, count(work.rows_each)
    arrays = [scattered if one is work.scattered else segment.value(one) for one in layout.arrays]
    flags = segment.slot("failed") if layout.fails else NULL
    begin = code.binary("mul", number, each)
    after = code.binary("add", begin, each)
    name = segment.writer.kernel(layout)
    segment.run(name, [*arrays, NULL, flags, begin, after, count(0)])
