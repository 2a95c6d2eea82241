"""Writes zeros as text and for a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from chainrule.graph.words import printable

if TYPE_CHECKING:
    from chainrule.explain.zeros.found import Cause, ZeroElements, Zeros
    from chainrule.explain.zeros.units import DeadUnits


def text(found: Zeros) -> str:
    """The whole report."""
    lines = [f"zeros of {printable(found.graph)}"]
    for one in sorted(found.gradients, key=lambda one: one.count < one.size):
        lines += [f"  {line}" for line in of_value(one)]
    lines += [f"  {of_units(one)}" for one in found.dead]
    if len(lines) == 1:
        lines.append("  no element of a gradient is 0, and no unit is dead")
    return "\n".join(lines)


def of_value(one: ZeroElements) -> Iterator[str]:
    """A line for the value, and one for each cause."""
    name = printable(one.name)
    if one.size == 1:
        yield f"{name} is 0"
    elif one.count == one.size:
        yield f"{name} is 0 in all {one.size:,} elements"
    else:
        share = f"{100 * one.count / one.size:.3g} %"
        yield f"{name} is 0 in {one.count:,} of its {one.size:,} elements ({share})"
    for cause in one.causes:
        yield f"  {of_cause(cause)}"
    if one.others:
        yield f"  {_elements(one.others)}: for other reasons"


def of_cause(cause: Cause) -> str:
    """`1,552 elements: h = maximum(z, 0) passes nothing back (model.py:12)`."""
    place = f" ({printable(cause.place)})" if cause.place else ""
    within = f" {cause.within}" if cause.within else ""
    also = "".join(f", and {one}" for one in cause.also)
    return f"{_elements(cause.count)}: {cause.because}{within}{place}{also}"


def _elements(count: int) -> str:
    return f"{count:,} element{'' if count == 1 else 's'}"


def of_units(one: DeadUnits) -> str:
    """`h: 2 of 256 units are dead, 0 for all 64 of the batch: 3, 17`; of what comes out of a loop
    `0 at all 8 t, for all 64 of the batch`."""
    listed = ", ".join(_unit(unit) for unit in one.units)
    more = ", ..." if one.count > len(one.units) else ""
    verb = "unit is dead" if one.count == 1 else "units are dead"
    if one.count > 1 or one.size > 1:
        verb = f"of {one.size:,} units {'is' if one.count == 1 else 'are'} dead"
    where = [
        f"at all {one.iterations:,} t" if one.iterations > 1 else "",
        f"for all {one.batch:,} of the batch" if one.batch > 1 or one.iterations == 1 else "",
        f"at all {one.places:,} places" if one.places > 1 else "",
    ]
    told = ", ".join(filter(None, where))
    return f"{printable(one.name)}: {one.count:,} {verb}, 0 {told}: {listed}{more}"


def html(found: Zeros) -> str:
    """The report for a notebook."""
    first, _, rest = text(found).partition("\n")
    return f"<p><b>{escape(first)}</b></p>\n<pre>{escape(rest)}</pre>\n"


def _unit(index: tuple[int, ...]) -> str:
    return (
        str(index[0]) if len(index) == 1 else str(list(index)).replace("[", "(").replace("]", ")")
    )
