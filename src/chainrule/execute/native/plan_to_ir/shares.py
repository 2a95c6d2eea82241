"""What the parts of a nest add to its reductions over rows: begun, and combined at the end."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from chainrule.execute.native.plan_to_ir.emit import (
    Code,
    Module,
    Operand,
    constant,
    count,
    like,
    with_lanes,
)
from chainrule.execute.native.plan_to_ir.emit_instances import memory_type
from chainrule.execute.native.plan_to_ir.reducers import combined
from chainrule.plan.loops.loop_work import Store
from chainrule.plan.loops.nest import NestLayout, is_total, total_dtype

Z = Operand("0", "i64")


def fill(code: Code, pointer: Operand, dtype: np.dtype, value: float | int, size: int) -> None:
    """Write one number `size` times."""
    number = constant(value, memory_type(dtype))

    def one(index: Operand, kept: list[Operand]) -> list[Operand]:
        code.store(number, code.address(pointer, index, number.type))
        return kept

    width = 16
    if size >= width:
        wide = constant(value, with_lanes(memory_type(dtype), width))

        def vector(index: Operand, kept: list[Operand]) -> list[Operand]:
            code.store(wide, code.address(pointer, index, number.type), dtype.itemsize)
            return kept

        code.loop(Z, count(size // width * width), width, [], vector)
    code.loop(count(size // width * width), count(size), 1, [], one)


def emit_finish(module: Module, layout: NestLayout, name: str, attributes: str) -> None:
    """The function that combines the parts' shares of the reductions."""
    code = Code(module)
    parameters = [Operand(f"%a{k}", "ptr") for k in range(len(layout.folds))]
    workspace = Operand("%workspace", "ptr")
    for store, result in zip(layout.folds, parameters, strict=True):
        dtype = total_dtype(store)
        shares = [
            code.address(workspace, count(part * layout.part_nbytes + layout.shares[store]), "i8")
            for part in range(layout.parts)
        ]
        size = 1 if is_total(store) else prod(store.node.shape)
        width = 16 if size >= 16 else 0
        combine = _combiner(code, store, shares, result, dtype)
        if width:
            code.loop(Z, count(size // width * width), width, [], combine(width))
        code.loop(count(size // max(width, 1) * width), count(size), 1, [], combine(0))
    code.do("ret void")
    code.function(name, [*parameters, workspace], attributes=attributes)


def _combiner(
    code: Code, store: Store, shares: list[Operand], result: Operand, dtype: np.dtype
) -> Callable[[int], Callable[[Operand, list[Operand]], list[Operand]]]:
    node = store.node
    stored, final = memory_type(dtype), memory_type(node.dtype)

    def of_width(width: int) -> Callable[[Operand, list[Operand]], list[Operand]]:
        def loaded(share: Operand, index: Operand) -> Operand:
            value = code.load(code.address(share, index, stored), with_lanes(stored, width))
            return (
                value if dtype.kind != "b" else code.convert("trunc", value, like("i1", value.type))
            )

        def body(index: Operand, kept: list[Operand]) -> list[Operand]:
            total = loaded(shares[0], index)
            for share in shares[1:]:
                total = combined(code, node, dtype, total, loaded(share, index))
            cast = "zext" if dtype.kind == "b" else "fptrunc"
            total = code.convert(cast, total, with_lanes(final, width))
            code.store(total, code.address(result, index, final))
            return kept

        return body

    return of_width
