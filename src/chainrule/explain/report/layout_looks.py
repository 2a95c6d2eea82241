"""Boxes of the page as plain data: what is drawn in each, how large it is, what it is called."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from chainrule.explain.drawing.bands import Entry, Role
from chainrule.explain.drawing.figure import SIDE, Item
from chainrule.explain.drawing.folding import Fold
from chainrule.explain.drawing.lettering import Face, Label, ems, pieces
from chainrule.explain.drawing.looks import (
    COPY_SIDE,
    MARGIN,
    TITLE_SIZE,
    Look,
    Looks,
    caption_width,
)
from chainrule.explain.drawing.palette import DARK, LIGHT, OUTLINES, THICK
from chainrule.explain.drawing.units import Unit
from chainrule.explain.report.outline_groups import Kind, PageScope

LONGEST_TITLE = 60  # letters


def label_data(label: Label) -> dict[str, Any]:
    """Lines of runs [text, face, level]; two lines are a fraction."""
    lines = [[[one.text, one.face, one.level] for one in line] for line in label.lines]
    return {"size": label.size, "width": round(label.width, 2), "lines": lines}


def item_data(item: Item, entry: Entry, looks: Looks, makes: str) -> dict[str, Any]:
    """One box; `makes` is the name of the value that a circle computes."""
    look = looks.of[item.key]
    found: dict[str, Any] = {
        "key": item.key,
        "form": item.form,
        "role": look.role,
        "width": item.width,
        "height": item.height,
        "label": label_data(look.label),
        "number": look.number,
        "name": entry.name,
        "makes": makes,
        "tip": look.tip,
    }
    if item.beside:
        found["beside"] = True
    if item.below:
        found |= {"caption": look.captions[0], "below": item.below, "again": label_data(look.again)}
    if look.role is Role.BACKWARD and entry.unit is not None:
        found["of"] = entry.unit.name
    return found


def copy_width(look: Look) -> int:
    """The width of a small copy of a box."""
    return round(max(COPY_SIDE, look.again.width + 2 * MARGIN))


def box_data(
    scope: PageScope, units: tuple[Unit, ...], looks: Looks, *, mirrored: bool
) -> dict[str, dict[str, Any]]:
    """The `box` of a scope that is folded; if `mirrored`, also the `mirror` below it."""
    fold = Fold(scope.key, scope.title, units, scope.count)
    item = looks.fold(fold, mirrored=False)
    look = looks.of[item.key]
    caption = place_text(scope) or look.captions[0]
    least = max(SIDE, caption_width(caption) + 3 * MARGIN)
    box = {"form": item.form, "height": item.height, "caption": caption, "tip": look.tip}

    def with_label(label: Label, role: Role) -> dict[str, Any]:
        told = {"role": role, "label": label_data(label)}
        return box | told | {"width": round(max(least, told["label"]["width"] + 3 * MARGIN))}

    found = {"box": with_label(look.label, look.role)}
    if mirrored:
        found["mirror"] = with_label(looks.labels.fold(fold, True)[0], Role.BACKWARD)
    return found


def scope_title(scope: PageScope, units: tuple[Unit, ...], looks: Looks) -> str:
    """What stands above the frame of an open scope: the function, or the first and last name."""
    first = units[: len(units) // scope.count]
    names = [looks.labels.name_text(unit.name) for unit in first if unit.name]
    words = scope.title or " … ".join(dict.fromkeys(names[:1] + names[-1:])) or "unnamed values"
    words = words if len(words) <= LONGEST_TITLE else words[: LONGEST_TITLE - 1] + "…"
    if scope.kind is Kind.REPEAT:
        return f"{words} ×{scope.count:,}"
    return f"{words} ({place_text(scope)})" if scope.place else words


def title_width(title: str) -> float:
    """The room that a title needs, in pixels."""
    return round(ems(pieces(title, Face.UPRIGHT)) * TITLE_SIZE, 2)


def place_text(scope: PageScope) -> str:
    """`3 of 12`, `41–80 of 3,000`, or '' for a scope that is none of several."""
    match scope.place:
        case (number, count):
            return f"{number:,} of {count:,}"
        case (first, last, count):
            return f"{first:,}–{last:,} of {count:,}"
        case _:
            return ""


def colours() -> dict[str, Any]:
    """The palette, light and dark; the line that outlines each role; which outlines are thick."""
    return {
        "light": asdict(LIGHT),
        "dark": asdict(DARK),
        "outlines": OUTLINES,
        "thick": list(THICK),
    }
