"""A drawing in words: what each band is, and the sentences that a screen reader says."""

from __future__ import annotations

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.bands import Flat
from chainrule.explain.drawing.figure import Band, Form
from chainrule.explain.drawing.folding import Folding
from chainrule.explain.drawing.labels import Labels
from chainrule.explain.drawing.mirrored import Mirror
from chainrule.explain.reading.statements import Direction

MOST_TOLD = 40  # values of which the description says how they are computed


@dataclass(frozen=True)
class Told:
    """What a drawing leaves out or adds: words on loops and choices of the forward and of the
    backward pass of which no body is drawn; lanes; how many inputs that nothing reads."""

    closed: tuple[str, str] = ("", "")
    has_lanes: bool = False
    unread: int = 0


NOTHING_MORE = Told()


def notes(
    bands: list[Flat],
    drawn: list[Band],
    mirror: Mirror | None,
    objective: str,
    hidden: bool,
    told: Told = NOTHING_MORE,
) -> list[str]:
    """One line for each band that is drawn; `drawn` are the bands after folding."""
    forward, backward = told.closed
    found = []
    if bands[0].entries and not hidden:
        thick = "thick: messages from stage to stage" if told.has_lanes else ""
        rest = f"{told.unread} inputs that nothing reads are not drawn" if told.unread else ""
        more = "; ".join(one for one in (thick, forward, rest) if one)
        found.append(f"forward →{f' ({more})' if more else ''}")
    if mirror is not None:
        dashed = "; dashed: values saved by the forward pass" if mirror.saved else ""
        more = f"; {backward}" if backward else ""
        found.append(f"← backward (gradients of {objective}{dashed}{more})")
    return found + [_note(*one) for one in zip(bands[1:], drawn[1:], strict=True)]


def _note(band: Flat, drawn: Band) -> str:
    has_copies = any(item.form is Form.COPY for item in drawn.items)
    dashed = " (dashed: values from above)" if has_copies else ""
    if band.title:
        return f"{band.note}{dashed}"
    match band.during.direction:
        case Direction.UPDATE:
            return f"update →{dashed}"
        case Direction.TANGENT:
            return f"tangents →{dashed}"
        case _:
            return f"{'further gradients' if band.during.order < 2 else 'backward again'} →{dashed}"


def description(
    bands: list[Flat], mirror: Mirror | None, folding: Folding, labels: Labels, title: str
) -> str:
    """How many boxes there are, and how the first values are computed."""
    squares = sum(entry.form is Form.SQUARE for band in bands for entry in band.entries)
    circles = sum(entry.form is Form.CIRCLE for band in bands for entry in band.entries)
    parts = [f"{title}: {_count(squares, 'variable')} and {_count(circles, 'operator')}."]
    if mirror is not None:
        gradients = sum(entry.form is Form.SQUARE for entry in mirror.band.entries)
        parts.append(f"Below the forward pass, {_count(gradients, 'gradient')}.")
    named = [unit for band in bands for unit in band.units if unit.name]
    names = {unit.value: unit.name for unit in named} | dict(labels.units.sources)
    told = []
    for unit in named[:MOST_TOLD]:
        reads = [names[node] for node in unit.reads if names.get(node)]
        told.append(f"{unit.name} from {', '.join(reads)}" if reads else unit.name)
    if told:
        more = f", and {_count(len(named) - MOST_TOLD, 'more')}" if len(named) > MOST_TOLD else ""
        parts.append(f"Computed in this order: {'; '.join(told)}{more}.")
    if folding.folds:
        parts.append(f"{_count(len(folding.folds), 'box', 'boxes')} stand for several operators.")
    return " ".join(parts)


def _count(number: int, noun: str, plural: str = "") -> str:
    if noun == "more":
        return f"{number:,} more"
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
