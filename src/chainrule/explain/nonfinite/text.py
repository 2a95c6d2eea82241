"""Writes a diagnosis as text, for a notebook, and for rich."""

from __future__ import annotations

from html import escape
from typing import Any

from chainrule.explain.nonfinite.diagnosis import IN_PROGRAM, Diagnosis, Forward, Operand, Poisoned
from chainrule.explain.nonfinite.elements import at
from chainrule.explain.nonfinite.phrases import UNNAMED, number
from chainrule.graph.words import printable

FORWARD_PASS = "the forward pass"
MOST = 8  # poisoned values that are listed


def headline(found: Diagnosis) -> str:
    """The first line: what became NaN or inf, when, where, and from which elements."""
    first = found.elements[0]
    if found.phase == IN_PROGRAM:
        return _constant(found)
    if not found.was_computed:
        return f"{at(found.value, first.index)} is {found.became} {found.phase}"
    line = f"{_what(found)} became {found.became} in {found.phase}"
    line += "".join(f", in {one}" for one in found.inside)
    line += f", {printable(found.place)}" if found.place else ""
    line += f": {', '.join(first.operands)}" if first.operands else ""
    said = found.phase == FORWARD_PASS and found.forward is Forward.NOT_FINITE
    return line if said else f"{line}; {found.forward}"


def text(found: Diagnosis) -> str:
    """The whole report."""
    lines = [headline(found)]
    if found.where:
        lines.append("  where: " + _indented(found.where, 4))
    if found.because:
        lines.append(f"  because: {found.because}")
    lines.append(f"  elements: {_elements(found)}")
    for one in found.elements[1:] if found.was_computed else ():
        if one.operands:
            lines.append(f"    {list(one.index)}: {', '.join(one.operands)}")
    lines += [f"  from: {_operand(one)}" for one in found.inputs]
    if found.poisoned:
        lines.append(f"  then: {_chain(found.poisoned)}")
    if found.hint:
        lines.append("  try: " + _indented(found.hint, 7))
    return "\n".join(lines)


def html(found: Diagnosis) -> str:
    """The report for a notebook."""
    first, _, rest = text(found).partition("\n")
    return f"<p><b>{escape(first)}</b></p>\n<pre>{escape(rest)}</pre>\n"


def rich_text(found: Diagnosis) -> Any:
    """The report as rich shows it; names are text, whatever markup they hold."""
    from rich.text import Text

    first, line, rest = text(found).partition("\n")
    return Text.assemble((first, "bold red"), line, rest)


def _constant(found: Diagnosis) -> str:
    """The headline for a constant, by its name or by what it is a part of, where it has these."""
    if found.part_of or found.value == UNNAMED:
        whose = f", a part of {found.part_of}," if found.part_of else ""
        return f"a constant of the program{whose} is {found.became}"
    uniform = found.count == found.size
    name = found.value if uniform else at(found.value, found.elements[0].index)
    return f"{name}, a constant of the program, is {found.became}"


def _what(found: Diagnosis) -> str:
    if found.part_of:
        return f"{found.value}, a part of {found.part_of},"
    is_named = found.expression not in ("", found.value)
    return f"{found.value} = {found.expression}" if is_named else found.value


def _elements(found: Diagnosis) -> str:
    places = ", ".join(str(list(index)) for index in found.indices)
    if not found.indices[0]:
        return "a single number"
    verb = "is" if found.count == 1 else "are"
    what = f"{found.count:,} of {found.size:,} {verb} not finite"
    if found.at_fault < found.count:
        what += f", of which {found.at_fault:,} {'is' if found.at_fault == 1 else 'are'} at fault"
    return f"{what}: {places}" + (", ..." if found.at_fault > len(found.indices) else "")


def _operand(one: Operand) -> str:
    of = one.statistics
    if of.count == 1 and not of.nan + of.infinite:
        return f"{one.value}: {one.type} = {number(of.least)}"
    parts = []
    if of.count > of.nan + of.infinite:
        parts = [f"{number(of.least, 4)} to {number(of.greatest, 4)}", f"mean {number(of.mean, 4)}"]
    parts += [f"{of.nan:,} NaN"] if of.nan else []
    parts += [f"{of.infinite:,} infinite"] if of.infinite else []
    return f"{one.value}: {one.type}, {', '.join(parts) or 'no elements'}"


def _chain(poisoned: tuple[Poisoned, ...]) -> str:
    shown = [f"{one.name} ({one.count:,} of {one.size:,})" for one in poisoned[:MOST]]
    more = len(poisoned) - MOST
    return ", ".join(shown) + (f", and {more:,} more" if more > 0 else "")


def _indented(lines: str, width: int) -> str:
    return ("\n" + " " * width).join(printable(one) for one in lines.split("\n"))
