"""How the ranks of a group have a value: all of it, a part along one axis, or a part of a sum."""

from __future__ import annotations

from chainrule.dataclass import dataclass
from chainrule.graph.types import ArrayType


@dataclass(frozen=True)
class Layout:
    """Where `axis` is an integer, rank i of a group has the i-th of equal parts along it; where
    `partial`, the ranks have arrays whose sum is the value; else each rank has all of it."""

    axis: int | None = None
    partial: bool = False

    def __str__(self) -> str:
        if self.partial:
            return "a part of the sum"
        return "whole" if self.axis is None else f"split along axis {self.axis}"


WHOLE, PARTIAL = Layout(), Layout(partial=True)


def fits(type_: ArrayType, layout: Layout, ways: int) -> bool:
    """Whether a value of this type has so many equal parts, none of them empty."""
    axis = layout.axis
    if axis is None:
        return True
    return axis < type_.ndim and type_.shape[axis] > 0 and type_.shape[axis] % ways == 0


def local_type(type_: ArrayType, layout: Layout, ways: int) -> ArrayType:
    """The type of what each rank has."""
    axis = layout.axis
    if axis is None:
        return type_
    length = type_.shape[axis] // ways
    return type_.with_shape((*type_.shape[:axis], length, *type_.shape[axis + 1 :]))
