"""The scale factors of products: sums of numbers times and over 0-d values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant
from chainrule.execute.native.plan_to_ir.emit_instances import Places, Points, register_type
from chainrule.graph.node import Node
from chainrule.plan.loops.fuse import Nest
from chainrule.plan.loops.loop_work import Builder
from chainrule.plan.products.fold import Coefficient
from chainrule.plan.roles import Role


@dataclass(frozen=True)
class Coefficients:
    """Writes coefficients into a function; `pointer` says where the array of a node begins.

    `strides` are those of the values in memory that may be read.
    """

    code: Code
    strides: Mapping[Node, tuple[int, ...]]
    roles: Mapping[Node, Role]
    pointer: Callable[[Node], Operand]

    def value(self, coefficient: Coefficient, dtype: np.dtype) -> Operand:
        """As one number of the dtype."""
        code, type_ = self.code, register_type(dtype)
        total: Operand | None = None
        for monomial in coefficient:
            value = constant(monomial.number, type_)
            for node in monomial.times:
                factor = self._scalar(node)
                one = monomial.number == 1 and value.text[0] != "%"
                value = factor if one else code.binary("fmul", value, factor)
            for node in monomial.over:
                value = code.binary("fdiv", value, self._scalar(node))
            total = value if total is None else code.binary("fadd", total, value)
        assert total is not None
        return total

    def _scalar(self, node: Node) -> Operand:
        """A 0-d value: read, or computed of what can be read."""
        nest = Nest((), (), self.roles, self.strides, (), self.strides)
        builder = Builder(nest, self.roles, self.strides, self.strides)
        wanted = builder.at(node, ())
        arrays = [one.source for one in builder.found if one.source is not None]
        places = Places(self.code, {one: self.pointer(one) for one in arrays})
        points = Points(places, 0, None, lambda one: points.values[one], lambda bad: None)
        for one in builder.found:
            points.compute(one)
        return points.values[wanted]
