"""Checks that arrays agree with annotations: a named size is one number in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from chainrule.errors import SizeError
from chainrule.graph.sizes import size_values, sizes
from chainrule.graph.structure import flatten
from chainrule.graph.types import ArrayType

Axis = tuple[str, int, sizes.Size, int]  # the argument, its axis, the size stated, the size given


def refuse_contradictions(name: str, where: str, axes: Iterable[Axis]) -> None:
    """SizeError where two arrays of a call of `name` show different numbers for one named size."""
    found: dict[str, int] = {}
    shown_by: dict[str, str] = {}
    for argument, axis, size, got in axes:
        expected = size_values.evaluate(size, found)
        if isinstance(expected, int):
            if expected == got:
                continue
            by = [f"{one} from {shown_by[one]}" for one in sorted(sizes.names(size))]
            raise SizeError(
                f"axis {axis} of the argument {argument} of {name} is annotated {size}, which is "
                f"{expected} ({'; '.join(by)}), got {got}",
                where=where,
                hint="give arrays that agree, or two sizes two names in the annotations",
            )
        solved = size_values.solve(size, got, found) or {}
        found.update(solved)
        shown_by.update(dict.fromkeys(solved, f"axis {axis} of {argument}"))


def axes_of(name: str, stated: Any, given: Any) -> Iterator[Axis]:
    """The axes of an argument, or of a container's parts, whose annotated size has a name.

    An array with another number of axes overrides its annotation, as one of another dtype does.
    """
    specs, structure = flatten(stated, name)
    arrays, found = flatten(given, name)
    if structure.leaf_names != found.leaf_names:
        return
    for leaf_name, spec, array in zip(found.leaf_names, specs, arrays, strict=True):
        shape = getattr(array, "shape", None)
        if not isinstance(spec, ArrayType) or shape is None or len(shape) != spec.ndim:
            continue
        for axis, (size, got) in enumerate(zip(spec.shape, shape, strict=True)):
            if isinstance(size, sizes.Size) and isinstance(got, int):
                yield leaf_name, axis, size, got
