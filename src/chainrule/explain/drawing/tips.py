"""What a pointer over a box is told: the full name, the type, the bytes, the user's line."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import CodeType

from chainrule.control.wording import in_words
from chainrule.explain.drawing.bands import Entry, Role
from chainrule.explain.drawing.expressions import short_expression
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.units import Unit
from chainrule.explain.reading.statements import Direction
from chainrule.graph.body import holds_bodies
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.node import Node
from chainrule.graph.origin import Origin
from chainrule.graph.types import ArrayType
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import reshape, slice_
from chainrule.primitives.sources import constant

VIEWS = (reshape, slice_, cast)  # by which results are taken out of a loop
LONGEST = 100  # characters of a formula or of a source line


def bytes_text(node: Node) -> str:
    """`1.8 MiB`, or a formula where sizes are named: `4·n·hidden bytes`."""
    nbytes = node.type.nbytes
    if isinstance(nbytes, int):
        return in_bytes(nbytes)
    return f"{nbytes} bytes".replace("*", "·")


class Tips:
    """Writes tooltips; remembers formulas, and lines of code objects (whose own hash is slow)."""

    def __init__(self, name: Callable[[Node], str]) -> None:
        self.name = name
        self._lines: dict[int, tuple[CodeType, list[int | None]]] = {}
        self._abouts: dict[Unit, str] = {}
        self._types: dict[ArrayType, str] = {}

    def source_line(self, origin: Origin, by_optimizer: bool = False) -> str:
        """`model.py:12: h = np.maximum(z, 0)`, or '' where nothing is known.

        What an optimizer computes has a line only where that is the user's own.
        """
        code = origin.code
        if code is None:
            return ""
        if id(code) not in self._lines:
            lines = [position[0] for position in code.co_positions()]
            self._lines[id(code)] = code, lines  # the code stays, so its id is not used again
        lines = self._lines[id(code)][1]
        place = origin.lasti // 2
        line = lines[place] if 0 <= place < len(lines) else None
        if line is None and by_optimizer:
            return ""
        if line is None:
            line = code.co_firstlineno
        text = linecache.getline(code.co_filename, line).strip()
        short = code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
        return f"{short}:{line}" + (f": {_cut(text)}" if text else "")

    def tip(self, entry: Entry) -> str:
        """The lines of a box's tooltip."""
        backward = entry.form is Form.CIRCLE and entry.key.startswith("backward")
        lines = [f"{_subject(entry, backward)}: {self._type(entry.node)}"]
        if entry.role is Role.PARAMETER:
            lines.append("parameter")
        if entry.role is Role.PARAMETER_GRADIENT:
            lines.append("gradient of a parameter")
        if entry.form is Form.COPY:
            lines.append("a value of another pass, shown again")
        if entry.unit is not None:
            lines.append(self._about(entry.unit))
        return "\n".join(line for line in lines if line)

    def _type(self, node: Node) -> str:
        """`float32[4, 3], 48 bytes`."""
        found = self._types.get(node.type)
        if found is None:
            found = self._types[node.type] = f"{node.type}, {bytes_text(node)}"
        return found

    def _about(self, unit: Unit) -> str:
        """The formula, where it is not long, and the user's line."""
        found = self._abouts.get(unit)
        if found is None:
            formula = _out_of_a_loop(unit)
            if not formula and not holds_bodies(unit.value):
                text = short_expression(unit.value, set(unit.nodes), self.name, LONGEST) or ""
                formula = f"{unit.name} = {text}" if text and unit.name else text
            line = self.source_line(unit.value.origin, unit.during.direction is Direction.UPDATE)
            found = self._abouts[unit] = "\n".join(one for one in (formula, line) if one)
        return found


def _subject(entry: Entry, backward: bool) -> str:
    unit = entry.unit
    if unit is None and not entry.name and entry.node.primitive is constant:
        return "a constant without a name"
    if unit is None or entry.name:
        return entry.name or "a value without a name"
    what = unit.name or in_words(unit.value) or "a value without a name"
    return f"{'backward of' if backward else 'computes'} {what}"


def _out_of_a_loop(unit: Unit) -> str:
    """`last comes out of the loop over cell`; "" of what is computed otherwise."""
    if not unit.name or any(one.primitive not in VIEWS for one in unit.nodes):
        return ""
    loop = next(filter(None, map(in_words, unit.reads)), "")
    return f"{unit.name} comes out of {loop}" if loop else ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
