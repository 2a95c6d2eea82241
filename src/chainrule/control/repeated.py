"""`Repeated`, the static parameters that the primitives `while_` and `unwind` share."""

from __future__ import annotations

import math

import numpy as np

from chainrule.control.packing import packed_type, strong
from chainrule.dataclass import dataclass
from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.families import BOOL


@dataclass(frozen=True)
class Repeated:
    """`body` is done on `carries` values as long as `condition` holds, at most `limit` times.

    Of an `unwind`, `step` is done on `states` values as long as the condition holds, and `body`
    goes back through its iterations, on the carries.  All read `constants` values first; the result
    holds the carries of `dtype`.
    """

    body: Body
    condition: Body
    carries: int
    constants: int
    limit: int | None
    dtype: np.dtype
    step: Body | None = None
    states: int = 0

    @property
    def forth(self) -> Body:
        """What is done as long as the condition holds."""
        return self.step or self.body

    @property
    def back(self) -> int:
        """The place of the first carry among what the body takes."""
        return self.constants + self.states

    @property
    def read(self) -> tuple[int, ...]:
        """The numbers of the states that an iteration back reads."""
        graph = self.body.graph
        used = {parent for node in graph.nodes for parent in node.inputs}
        used |= {node for _, node in graph.outputs}
        inputs = [item.node for item in graph.inputs[self.constants : self.back]]
        return tuple([place for place, node in enumerate(inputs) if node in used])

    @property
    def segments(self) -> tuple[int, int]:
        """How many iterations a segment of the way back has, and how many segments are kept."""
        assert self.limit is not None
        length = max(math.isqrt(self.limit), 1)
        return length, -(-self.limit // length) if self.read else 0

    @property
    def shown(self) -> list[ArrayType]:
        """The types of the carries of the dtype."""
        return [node.type for _, node in self.body.graph.outputs if node.dtype == self.dtype]

    @property
    def type(self) -> ArrayType:
        """The carries of the dtype in one array."""
        return packed_type(self.dtype, self.shown)

    def type_on(self, *types: ArrayType) -> ArrayType:
        """The type of the result on inputs of these types; TypeError where something differs."""
        inputs = [item.type for item in self.body.graph.inputs]
        if [strong(one) for one in inputs] != [strong(one) for one in types]:
            raise TypeError(f"the body takes {inputs}, got {types}")
        there = inputs[: self.back] if self.step else inputs
        for one in (self.forth, self.condition):
            if [item.type for item in one.graph.inputs] != there:
                raise TypeError(f"{one} takes other types than the body")
        if inputs[self.back :] != [node.type for _, node in self.body.graph.outputs]:
            raise TypeError("the body changes the types of what it carries")
        if there[self.constants :] != [node.type for _, node in self.forth.graph.outputs]:
            raise TypeError("the iteration changes the types of what it carries")
        if [node.type for _, node in self.condition.graph.outputs] != [array_type(BOOL, ())]:
            raise TypeError("a condition is one boolean")
        return self.type

    def carried_nbytes(self, *operands: np.ndarray) -> int:
        """The bytes of constants that do not lie in C order, and of carries of other dtypes."""
        taken = sum(one.nbytes for one in operands[: self.constants] if not one.flags.c_contiguous)
        outputs = self.body.graph.outputs
        return taken + sum(int(n.type.nbytes) for _, n in outputs if n.dtype != self.dtype)


def repeated(out: Node) -> Repeated:
    """What a node does."""
    return Repeated(**dict(out.params))
