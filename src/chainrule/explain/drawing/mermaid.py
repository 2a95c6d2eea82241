"""A drawing as Mermaid text, for pages that render it: the same boxes and arrows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from chainrule.explain.drawing.bands import Role
from chainrule.explain.drawing.figure import Form, Group
from chainrule.explain.drawing.listing import lines_of
from chainrule.explain.drawing.looks import Look
from chainrule.explain.drawing.palette import LIGHT, OUTLINES, THICK
from chainrule.explain.drawing.scene import Scene

_BRACKETS = {
    Form.SQUARE: ("[", "]"),
    Form.CIRCLE: ("((", "))"),
    Form.FOLDED: ("[[", "]]"),
    Form.COPY: ("[", "]"),
}


def mermaid_of(scene: Scene) -> str:
    """Mermaid text; boxes are numbered, and their labels quoted, so any name is safe."""
    return "\n".join(_Text(scene).lines()) + "\n"


def quoted(text: str) -> str:
    """A Mermaid string: whatever is neither a letter nor a digit is written by its code.

    A space stays, and so does what is not ASCII: no syntax begins with it.
    """
    shown = "".join(
        c if c.isalnum() or c == " " or (ord(c) > 0x7F and c.isprintable()) else f"#{ord(c)};"
        for c in text.replace("\n", " ")
        if c.isprintable() or c == "\n"
    )
    return f'"{shown}"'


class _Text:
    """The lines of one drawing; `number` gives every box an identifier."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        figure = scene.figure
        self.bands = scene.bands
        keys = [item.key for band in self.bands for item in band.items]
        keys += [kept.copy.key for kept in figure.kept] if figure.hide_forward else []
        self.number = {key: f"n{place}" for place, key in enumerate(keys)}

    def lines(self) -> Iterator[str]:
        figure = self.scene.figure
        yield "flowchart LR"
        for place, (band, note) in enumerate(zip(self.bands, self.scene.notes, strict=True)):
            yield f"  subgraph band{place} [{quoted(note)}]"
            yield from lines_of(band, partial(self._frame, place), self._box, "end")
            yield "  end"
        for band in self.bands:
            for link in band.links:
                dashed = self.scene.looks[link.source].role is Role.COPY
                thick = self.scene.is_message(link.source, link.target)
                arrow = "-.->" if dashed else "==>" if thick else "-->"
                yield f"  {self.number[link.source]} {arrow} {self.number[link.target]}"
        for kept in figure.kept:
            source = kept.source
            if figure.hide_forward:
                source = kept.copy.key
                yield f"  {self._box(source)}"
            yield f"  {self.number[source]} -.-> {self.number[kept.target]}"
        for role in Role:
            yield f"  classDef {role} {_style(role)}"

    def _frame(self, band: int, group: Group, number: int) -> tuple[str]:
        title = quoted(self.scene.looks[group.key].label.text)
        return (f"subgraph group{band}x{number} [{title}]",)

    def _box(self, key: str) -> str:
        look: Look = self.scene.looks[key]
        left, right = _BRACKETS[look.form]
        words = quoted(" ".join((look.label.text, *look.captions)))
        return f"{self.number[key]}{left}{words}{right}:::{look.role}"


def _style(role: Role) -> str:
    outline = getattr(LIGHT, OUTLINES[role])
    dashed = ",stroke-dasharray:4 3" if role is Role.COPY else ""
    thick = ",stroke-width:3px" if role in THICK else ""
    return f"fill:{LIGHT.fills[role]},stroke:{outline},color:{LIGHT.ink}{thick}{dashed}"
