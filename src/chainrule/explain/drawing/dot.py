"""A drawing as Graphviz DOT: the same boxes and arrows, for other tools to lay out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from chainrule.explain.drawing.bands import Role
from chainrule.explain.drawing.figure import Form, Group
from chainrule.explain.drawing.listing import lines_of
from chainrule.explain.drawing.looks import Look
from chainrule.explain.drawing.palette import LIGHT, OUTLINES, THICK
from chainrule.explain.drawing.scene import Scene

_SHAPES = {Form.SQUARE: "box", Form.CIRCLE: "ellipse", Form.FOLDED: "box3d", Form.COPY: "box"}


def dot_of(scene: Scene) -> str:
    """DOT text; strings are quoted, so any name is safe."""
    return "\n".join(_lines(scene)) + "\n"


def quoted(text: str) -> str:
    """A DOT string: quotes and backslashes escaped, line breaks as `\\n`, no control characters."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _lines(scene: Scene) -> Iterator[str]:
    figure = scene.figure
    yield f"digraph {quoted(scene.title)} {{"
    yield "  rankdir=LR;"
    yield '  node [fontname="serif", style="filled"];'
    bands = scene.bands
    for number, (band, note) in enumerate(zip(bands, scene.notes, strict=True)):
        yield f"  subgraph {quoted(f'cluster {number}')} {{"
        yield f'    label={quoted(note)}; color="transparent"; labeljust="l";'
        yield from lines_of(band, partial(_frame, scene), partial(_box, scene), "}")
        yield "  }"
    for band in bands:
        for link in band.links:
            is_thick = scene.is_message(link.source, link.target)
            style = _link_style(scene.looks[link.source], scene.looks[link.target], is_thick)
            yield f"  {quoted(link.source)} -> {quoted(link.target)}{style};"
    for kept in figure.kept:
        source = kept.source
        if figure.hide_forward:
            source = kept.copy.key
            yield f"  {_box(scene, source)}"
        colour = LIGHT.saved
        yield (
            f"  {quoted(source)} -> {quoted(kept.target)} "
            f'[style="dashed", color="{colour}", constraint="false"];'
        )
    yield "}"


def _box(scene: Scene, key: str) -> str:
    return f"{quoted(key)} {_attributes(scene.looks[key])};"


def _frame(scene: Scene, group: Group, number: int) -> tuple[str, str]:
    title = quoted(scene.looks[group.key].label.text)
    return (
        f"subgraph {quoted('cluster ' + group.key)} {{",
        f'label={title}; color="gray"; style="solid";',
    )


def _attributes(look: Look) -> str:
    words = "\n".join((look.label.text, *look.captions))
    outline = getattr(LIGHT, OUTLINES[look.role])
    style = "filled,dashed" if look.role is Role.COPY else "filled"
    thick = ', penwidth="2.5"' if look.role in THICK else ""
    return (
        f'[label={quoted(words)}, tooltip={quoted(look.tip)}, shape="{_SHAPES[look.form]}", '
        f'style="{style}", fillcolor="{LIGHT.fills[look.role]}", color="{outline}"{thick}]'
    )


def _link_style(source: Look, target: Look, is_thick: bool) -> str:
    if source.role is Role.COPY:
        return f' [style="dashed", color="{LIGHT.saved}"]'
    outline = OUTLINES[target.role]
    parts = [] if outline == "forward" else [f'color="{getattr(LIGHT, outline)}"']
    parts += ['penwidth="3"'] if is_thick else []
    return f" [{', '.join(parts)}]" if parts else ""
