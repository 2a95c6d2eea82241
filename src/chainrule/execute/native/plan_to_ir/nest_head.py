"""The arguments of the function of a loop nest, and what it computes before the first row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chainrule.execute.native.plan_to_ir.emit import Code, Module, Operand, count, lanes
from chainrule.execute.native.plan_to_ir.emit_instances import (
    Places,
    Points,
    memory_type,
    register_type,
)
from chainrule.execute.native.plan_to_ir.shares import emit_finish
from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance, Store
from chainrule.plan.loops.nest import FAILED_NBYTES, NestLayout
from chainrule.primitives.affine import row_major

Z = Operand("0", "i64")


class NestHead:
    """The function of a nest but for its rows.

    `pointers` say where the array of each value is, `share` where a part's share of the workspace;
    `begin` and `end` which rows, or groups of rows, the part has.  `uniform` are the values that
    are the same everywhere.
    """

    def __init__(self, module: Module, layout: NestLayout) -> None:
        self.module, self.layout = module, layout
        self.code = code = Code(module)
        arrays = layout.arrays
        self.parameters = [Operand(f"%a{k}", "ptr") for k in range(len(arrays))]
        self.pointers: dict[Node, Operand] = dict(zip(arrays, self.parameters, strict=True))
        self.workspace, self.flag = Operand("%workspace", "ptr"), Operand("%failed", "ptr")
        self.begin, self.end = Operand("%begin", "i64"), Operand("%end", "i64")
        self.part = Operand("%part", "i64")
        self.share = self.workspace
        self.uniform: dict[Instance, Operand] = {}
        if layout.part_nbytes:
            offset = code.binary("mul", self.part, count(layout.part_nbytes))
            self.share = code.address(self.workspace, offset, "i8")
        if layout.fails:
            offset = code.binary("mul", self.part, count(FAILED_NBYTES))
            self.flag = code.address(self.flag, offset, "i8")

    def uniform_values(self) -> None:
        """Emit what is the same everywhere."""
        nest = self.layout.nest
        places = Places(self.code, self.pointers, [Z] * len(nest.rows), [Z] * len(nest.columns))
        points = self.points(places, 0, None, self.uniform.__getitem__)
        points.values = self.uniform
        for one in nest.instances:
            if one.uniform:
                points.compute(one)

    def points(
        self,
        places: Places,
        width: int,
        mask: Operand | None,
        outer: Callable[[Instance], Operand],
    ) -> Points:
        """What emits instances of the nest at some place."""
        return Points(places, width, mask, outer, self.failed, self.layout.nest.rounded)

    def begin_shares(self) -> None:
        """Reductions that parts share go to the share of this one."""
        for store, offset in self.layout.shares.items():
            self.pointers[store.node] = self.code.address(self.share, count(offset), "i8")

    def end_total(self, store: Store, value: Operand) -> None:
        """Write a reduction to one number: a part's share, or the result."""
        code = self.code
        pointer = self.pointers[store.node]
        if store not in self.layout.shares:
            value = code.convert("fptrunc", value, register_type(store.node.dtype))
            pointer = code.address(pointer, count(store.place[0]), memory_type(store.node.dtype))
        code.store(value, pointer)

    def failed(self, bad: Operand) -> None:
        """Note that an index was out of range."""
        code = self.code
        if lanes(bad.type):
            packed = code.convert("bitcast", bad, f"i{lanes(bad.type)}")
            bad = code.compare("icmp ne", packed, Operand("0", packed.type))
        wide = code.convert("zext", bad, "i64")
        code.store(code.binary("or", code.load(self.flag, "i64"), wide), self.flag)

    def finish(self, name: str, attributes: str) -> None:
        """Add the function, and `name_finish` where the nest runs in parts."""
        self.code.do("ret void")
        tail = [self.workspace, Operand("%failed", "ptr"), self.begin, self.end, self.part]
        self.code.function(name, [*self.parameters, *tail], attributes=attributes)
        if self.layout.parts > 1 and self.layout.folds:
            emit_finish(self.module, self.layout, f"{name}_finish", attributes)


def digits_of(code: Code, flat: Operand, sizes: tuple[int, ...]) -> list[Operand]:
    """The index along each axis that a flat index in C order means."""
    found: list[Operand] = []
    for place, (size, stride) in enumerate(zip(sizes, row_major(sizes), strict=True)):
        digit = flat if stride == 1 else code.binary("udiv", flat, count(stride))
        found.append(digit if place == 0 else code.binary("urem", digit, count(size)))
    return found


def inner_closure(x: Instance, order: Sequence[Instance]) -> list[Instance]:
    """What a value is computed from in the same column, operands first."""
    seen: set[Instance] = set()
    pending = [x] if x.inner else []
    while pending:
        one = pending.pop()
        if one not in seen:
            seen.add(one)
            pending += [operand for operand in one.operands if operand.inner]
    return [one for one in order if one in seen]
