"""Reductions of one row: accumulators in the lanes of vectors, combined when the row ends."""

from __future__ import annotations

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.execute.native.plan_to_ir.emit import (
    Code,
    Operand,
    constant,
    element,
    is_float,
    lanes,
    with_lanes,
)
from chainrule.execute.native.plan_to_ir.emit_instances import register_type
from chainrule.execute.native.plan_to_ir.scalars import Typed, emit_expression
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance
from chainrule.primitives.primitive import Fold
from chainrule.primitives.reduce import PLACES, argmax

FLOAT64 = np.dtype(np.float64)


def identity(node: Node, dtype: np.dtype) -> float | int:
    """What a reduction begins with."""
    kernel = node.primitive.kernel
    assert isinstance(kernel, Fold)
    value = float(kernel.initial)
    if dtype_kind(dtype) == "f":
        return value
    if abs(value) != float("inf"):
        return int(value)
    return least(dtype) if value < 0 else greatest(dtype)


def least(dtype: np.dtype) -> int:
    """The least integer or boolean of a dtype."""
    return 0 if dtype.kind == "b" else int(np.iinfo(dtype).min)


def greatest(dtype: np.dtype) -> int:
    """The greatest integer or boolean of a dtype."""
    return 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)


def combined(code: Code, node: Node, dtype: np.dtype, x: Operand, y: Operand | Typed) -> Operand:
    """Two partial results as one."""
    kernel = node.primitive.kernel
    assert isinstance(kernel, Fold)
    y = y if isinstance(y, Typed) else Typed(y, dtype)
    return emit_expression(code, kernel.combine, {"x": (x, dtype), "y": y}, dtype)


def halves(code: Code, x: Operand) -> tuple[Operand, Operand]:
    """The lower and the upper lanes of a vector; scalars where there are two."""
    count = lanes(x.type)
    if count == 2:
        type_ = element(x.type)
        low, high = (
            code.emit(f"extractelement {x.type} {x.text}, i64 {lane}", type_) for lane in (0, 1)
        )
        return low, high
    half = count // 2
    type_ = with_lanes(x.type, half)
    parts = []
    for start in (0, half):
        picked = ", ".join(f"i32 {lane}" for lane in range(start, start + half))
        text = f"shufflevector {x.type} {x.text}, {x.type} poison, <{half} x i32> <{picked}>"
        parts.append(code.emit(text, type_))
    return parts[0], parts[1]


def across(code: Code, node: Node, dtype: np.dtype, x: Operand) -> Operand:
    """The partial results in the lanes of a vector as one."""
    while lanes(x.type):
        x = combined(code, node, dtype, *halves(code, x))
    return x


@dataclass(frozen=True, eq=False)
class Reducer:
    """The reduction `node` of `value` over the columns of a row."""

    node: Node
    value: Instance

    @property
    def is_position(self) -> bool:
        """Whether it carries a position beside the value."""
        return self.node.primitive in PLACES

    def start(self, width: int) -> list[Operand]:
        """The accumulators before the first column."""
        dtype = self.value.node.dtype
        type_ = with_lanes(register_type(dtype), width)
        if not self.is_position:
            return [constant(identity(self.node, dtype), type_)]
        return [
            constant(identity(self.node, dtype), type_),
            constant(2**62, with_lanes("i64", width)),
        ]

    def step(
        self,
        code: Code,
        kept: list[Operand],
        value: Typed,
        position: Operand | None,
        mask: Operand | None,
    ) -> list[Operand]:
        """The accumulators after one more value in each lane."""
        if self.is_position:
            assert position is not None
            return self._better(code, [value.operand, position], kept, mask)
        dtype = self.value.node.dtype
        if mask is not None:
            nothing = constant(identity(self.node, dtype), value.operand.type)
            value = Typed(code.select(mask, value.operand, nothing), dtype)
        return [combined(code, self.node, dtype, kept[0], value)]

    def merge(self, code: Code, x: list[Operand], y: list[Operand]) -> list[Operand]:
        """Two sets of accumulators as one."""
        if self.is_position:
            return self._better(code, y, x, None)
        return [combined(code, self.node, self.value.node.dtype, x[0], y[0])]

    def finish(self, code: Code, kept: list[Operand]) -> Operand:
        """The result: all lanes together."""
        while lanes(kept[0].type):
            pairs = [halves(code, one) for one in kept]
            kept = self.merge(code, [low for low, _ in pairs], [high for _, high in pairs])
        return self.result(kept)

    def result(self, kept: list[Operand]) -> Operand:
        """What the accumulators say, in each lane."""
        return kept[1] if self.is_position else kept[0]

    def _better(
        self, code: Code, new: list[Operand], old: list[Operand], mask: Operand | None
    ) -> list[Operand]:
        """The more extreme value with its position; NaN is before all, and of equals the first."""
        (x, place), (best, best_place) = new, old
        wanted = "gt" if self.node.primitive is argmax else "lt"
        if is_float(x.type):
            beyond = code.compare(f"fcmp o{wanted}", x, best)
            lost = code.compare("fcmp uno", x, x)
            lost_before = code.compare("fcmp uno", best, best)
            sound = code.binary("xor", lost_before, constant(1, lost_before.type))
            wins = code.binary("and", code.binary("or", beyond, lost), sound)
            both = code.binary("and", lost, lost_before)
            same = code.binary("or", code.compare("fcmp oeq", x, best), both)
        else:
            signed = "s" if self.value.node.dtype.kind == "i" else "u"
            wins = code.compare(f"icmp {signed}{wanted}", x, best)
            same = code.compare("icmp eq", x, best)
        earlier = code.compare("icmp slt", place, best_place)
        wins = code.binary("or", wins, code.binary("and", same, earlier))
        if mask is not None:
            wins = code.binary("and", wins, mask)
        return [code.select(wins, x, best), code.select(wins, place, best_place)]
