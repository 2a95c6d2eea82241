"""A placed drawing as SVG: text stays text, nothing is loaded, the same bytes every time."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from html import escape
from textwrap import wrap

from chainrule.explain.drawing.bands import Role
from chainrule.explain.drawing.figure import Arrow, Form, Placement, Rectangle
from chainrule.explain.drawing.lettering import Face, Label, Line, Piece, shortened, width
from chainrule.explain.drawing.looks import BELOW_FRACTION, LINE, Look
from chainrule.explain.drawing.palette import LINES, OUTLINES, css
from chainrule.explain.drawing.scene import Scene

NOTE_LINE = 15.0  # pixels from one line of a note to the next
EDGE = 16.0  # from the left side to the words on the bands
LETTER = 6.6  # pixels for each letter of these
STACK = 4.0  # how far the second outline of a fold is behind the first
THINNEST, WIDEST = 1.0, 5.0  # of dashed arrows that show bytes
MESSAGE = 3.2  # pixels, of arrows from one lane to another
STUB, STUB_ROOM, STUB_SIZE = 26.0, 4.2, 12  # broken arrows; their names, in ems and pixels
CLOSE = 14.0  # pixels: a number is not so near to the end of an arrow
Ends = list[tuple[float, float]]  # where arrows begin and end at a box
_FORBIDDEN = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Written on the elements themselves, and lines of several pieces from their left end on: not all
# programs that read SVG take styles by class, or know the middle of several pieces.
_FACES = {Face.ITALIC: ' font-style="italic"', Face.BOLD: ' font-weight="bold"', Face.UPRIGHT: ""}
# The width of letters, of the room that is left for them: 0.87 in Times, 1.03 in DejaVu Serif.
LIKELY = 0.95


def svg_of(
    scene: Scene, placement: Placement, theme: str, show_bytes: bool, most: float = math.inf
) -> str:
    """The whole picture; its notes are broken into lines of at most `most` pixels."""
    return _Picture(scene, placement, theme, show_bytes, most).svg()


def clean(text: str) -> str:
    """Text for XML: escaped, and without what no XML document may contain."""
    return escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


class _Picture:
    """One drawing; methods give SVG elements."""

    def __init__(
        self, scene: Scene, placement: Placement, theme: str, show_bytes: bool, most: float
    ) -> None:
        self.scene, self.placement, self.theme, self.most = scene, placement, theme, most
        self.show_bytes = show_bytes
        self.originals = {kept.copy.key: kept.source for kept in scene.figure.kept}
        sizes = [size for size in scene.saved_nbytes.values() if size]
        self.most_nbytes = max(sizes, default=0)
        self.notes = list(self._notes())
        self.body = list(self._body())
        digest = hashlib.sha256(f"{theme}{scene.title}{self.body}".encode(errors="replace"))
        self.scope = f"d{digest.hexdigest()[:10]}"

    def svg(self) -> str:
        """The document; ids begin with a hash of the content: two may be on one page."""
        width, height = _n(self._width()), _n(self.placement.height)
        scene, scope = self.scene, self.scope
        body = "\n".join(self.body).replace("url(#head-", f"url(#{scope}-")
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" id="{scope}" width="{width}" '
                f'height="{height}" viewBox="0 0 {width} {height}" role="img" '
                f'aria-labelledby="{scope}-title {scope}-desc">',
                f'<title id="{scope}-title">{clean(scene.title)}</title>',
                f'<desc id="{scope}-desc">{clean(scene.description)}</desc>',
                f"<style>{css(self.theme, scope)}</style>",
                f"<defs>{''.join(self._heads())}</defs>",
                f'<rect class="page" width="{width}" height="{height}"/>',
                *(
                    f'<text class="note" x="{_n(x)}" y="{_n(y)}">{clean(note)}</text>'
                    for x, y, note in self.notes
                ),
                body,
                "</svg>",
                "",
            ]
        )

    def _width(self) -> float:
        longest = max((x - EDGE + len(note) * LETTER for x, _, note in self.notes), default=0.0)
        return max(self.placement.width, longest + 2 * EDGE)

    def _heads(self) -> Iterator[str]:
        for line in LINES:
            yield (
                f'<marker id="{self.scope}-{line}" viewBox="0 0 10 8" refX="9.5" refY="4" '
                'markerWidth="11" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
                f'<path class="{line}-head" d="M0 0L10 4L0 8Z"/></marker>'
            )

    def _notes(self) -> Iterator[tuple[float, float, str]]:
        """The words of each band and where they begin: the backward ones below it, the others
        above."""
        room = max(self.placement.width, self.most) - 2 * EDGE
        letters = int(min(room / LETTER, 10_000))
        for note, (top, bottom) in zip(self.scene.notes, self.placement.spans, strict=True):
            lines = wrap(note, letters)
            if note.startswith("←"):
                y = min(bottom + 24, self.placement.height - 28)
                x = self._beside_copies(y, len(lines[0]) * LETTER)
            else:
                x, y = EDGE, top - 22 - NOTE_LINE * (len(lines) - 1)
            for place, line in enumerate(lines):
                yield x, y + NOTE_LINE * place, line

    def _beside_copies(self, y: float, width: float) -> float:
        """The x of words of this width, which do not run into the small copies below a band."""
        x = EDGE
        boxes = [self.placement.boxes[kept.copy.key] for kept in self.placement.copies]
        for box in sorted(boxes, key=lambda one: one.x):
            level = box.y < y + 6 and y - 14 < box.y + box.height
            if level and box.x - 8 < x + width and x < box.x + box.width + 8:
                x = box.x + box.width + 8
        return x

    def _body(self) -> Iterator[str]:
        looks, placement = self.scene.looks, self.placement
        for boxes in (placement.groups, placement.mirrored_groups):
            for key, box in boxes.items():
                yield self._frame(box, looks[key])
        for box in placement.rest:
            yield f'<rect class="frame" {_xywh(box)} rx="8"/>'
        for arrow in placement.arrows:
            yield self._arrow(arrow)
        ends: dict[str, list[tuple[float, float]]] = {}
        for arrow in placement.arrows:
            if arrow.begins:
                ends.setdefault(arrow.source, []).append(arrow.points[0])
            if arrow.ends:
                ends.setdefault(arrow.target, []).append(arrow.points[-1])
        yield from self._stubs()
        for key, box in placement.boxes.items():
            yield self._box(box, looks[key], ends.get(key, []))

    def _frame(self, box: Rectangle, look: Look) -> str:
        x, y, title = _n(box.x + 9), _n(box.y + 16), clean(look.label.text)
        return (
            f'<g><title>{clean(look.tip)}</title><rect class="frame" {_xywh(box)} rx="8"/>'
            f'<text class="title" x="{x}" y="{y}">{title}</text></g>'
        )

    def _arrow(self, arrow: Arrow) -> str:
        path = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in arrow.points)
        target = self.scene.looks[arrow.target]
        kept = arrow.kept or self.scene.looks[arrow.source].role is Role.COPY
        line = "saved" if kept else OUTLINES[target.role]
        if line == "forward" or target.role is Role.COPY:
            line = "saved" if kept else "forward"
        width = ""
        if self.show_bytes and arrow.kept:
            width = f' style="stroke-width:{_n(self._thickness(arrow))}"'
        elif self.scene.is_message(arrow.source, arrow.target):
            width = f' style="stroke-width:{MESSAGE}"'
        head = f' marker-end="url(#head-{line})"' if arrow.ends else ""
        return f'<path class="line {line}-line"{width} d="{path}"{head}/>'

    def _stubs(self) -> Iterator[str]:
        """The names of the values that broken arrows carry: that of the square at either end."""
        said: set[tuple[float, float]] = set()
        for stub in self.placement.stubs:
            looks = self.scene.looks[stub.source], self.scene.looks[stub.target]
            squares = [one for one in looks if one.form is not Form.CIRCLE]
            lines = (squares or looks)[0].label.lines
            if (stub.x, stub.y) in said:
                continue
            said.add((stub.x, stub.y))
            line = (*lines[0], *(one for more in lines[1:] for one in (Piece("/"), *more)))
            line = shortened(tuple(Piece(one.text, level=one.level) for one in line), STUB_ROOM)
            side = "before" if stub.is_left else "after"
            x = stub.x + (STUB - 3) * (1 if stub.is_left else -1)
            if stub.is_left and len(line) > 1:
                side, x = "after", x - LIKELY * width(line, STUB_SIZE)
            x, y = _n(x), _n(stub.y - 4)
            yield f'<text class="small {side}" x="{x}" y="{y}">{_pieces(line, STUB_SIZE)}</text>'

    def _thickness(self, arrow: Arrow) -> float:
        pair = self.originals.get(arrow.source, arrow.source), arrow.target
        nbytes = self.scene.saved_nbytes.get(pair)
        if not nbytes:
            return THINNEST
        return THINNEST + (WIDEST - THINNEST) * (nbytes / self.most_nbytes) ** 0.5

    def _box(self, box: Rectangle, look: Look, ends: Ends) -> str:
        match look.form:
            case Form.CIRCLE:
                outline = f'<rect class="box" {_xywh(box)} rx="{_n(box.height / 2)}"/>'
            case Form.FOLDED:
                outline = _stacked(box)
            case _:
                outline = f'<rect class="box" {_xywh(box)}/>'
        words = "".join((*self._words(box, look), _number(box, look, ends)))
        return (
            f'<g class="{look.role}"><title>{clean(look.tip)}</title>{outline}{words}</g>'
        )  # fmt: skip

    def _words(self, box: Rectangle, look: Look) -> Iterator[str]:
        x, y = box.centre
        if look.form is Form.FOLDED:
            x, y = x - STACK / 2, y + STACK / 2
        y -= 0.0 if look.form is Form.CIRCLE else LINE * len(look.captions) / 2
        lift = BELOW_FRACTION / 2 if look.captions and look.label.is_fraction else 0.0
        yield from _label(x, y - lift, look.label)
        match look.form:
            case Form.CIRCLE:
                below = box.y + box.height + LINE - 2
            case Form.FOLDED:
                below = y + 19
            case _:
                below = y + 26 + 2 + lift
        for place, caption in enumerate(look.captions):
            text = clean(caption)
            yield f'<text class="small" x="{_n(x)}" y="{_n(below + LINE * place)}">{text}</text>'


def _number(box: Rectangle, look: Look, ends: Ends) -> str:
    """The place in the order of computation, at the corner that is farthest from arrows."""
    if not look.number:
        return ""
    inset = 7.0
    left, right = box.x + inset - 1, box.x + box.width - inset + 1
    corners = [
        (left, box.y + 4, ""),
        (right, box.y + 4, " after"),
        (left, box.y + box.height + 4, ""),
        (right, box.y + box.height + 4, " after"),
    ]
    if look.role is Role.BACKWARD:
        corners.reverse()
    if look.captions:  # stand where the lower ones are
        corners = [one for one in corners if one[1] < box.centre[1]]

    def room(corner: tuple[float, float, str]) -> float:
        return min(((corner[0] - x) ** 2 + (corner[1] - y) ** 2 for x, y in ends), default=0.0)

    free = [corner for corner in corners if room(corner) > CLOSE**2]
    x, y, side = free[0] if free else max(corners, key=room)
    return f'<text class="number{side}" x="{_n(x)}" y="{_n(y)}">{look.number}</text>'


def _label(x: float, y: float, label: Label) -> Iterator[str]:
    """One line in the middle, or two with a bar between them."""
    size = label.size
    if len(label.lines) == 1:
        yield _text(x, y + 0.33 * size, label.lines[0], size)
        return
    top, bottom = label.lines
    half = label.width / 2 + 2
    yield _text(x, y - 0.30 * size, top, size)
    yield f'<path class="bar" d="M{_n(x - half)} {_n(y)}H{_n(x + half)}"/>'
    yield _text(x, y + 0.98 * size, bottom, size)


def _text(x: float, y: float, line: Line, size: float) -> str:
    start, side = x, ""
    if len(line) > 1:
        start, side = x - LIKELY * width(line, size) / 2, ' class="after"'
    place = f'x="{_n(start)}" y="{_n(y)}" font-size="{_n(size)}"'
    return f"<text{side} {place}>{_pieces(line, size)}</text>"


def _pieces(line: Line, size: float) -> str:
    found, raised = [], 0.0
    for piece in line:
        wanted = {0: 0.0, 1: -0.36, -1: 0.2}[piece.level] * size
        attributes = _FACES[piece.face]
        attributes += f' dy="{_n(wanted - raised)}"' if wanted != raised else ""
        attributes += f' font-size="{_n(piece.size(size))}"' if piece.level else ""
        raised = wanted
        text = clean(piece.text)
        found.append(f"<tspan{attributes}>{text}</tspan>" if attributes else text)
    return "".join(found)


def _stacked(box: Rectangle) -> str:
    """The outline of a fold: two sheets, one behind the other."""
    width, height = box.width - STACK, box.height - STACK
    behind = Rectangle(box.x + STACK, box.y, width, height)
    front = Rectangle(box.x, box.y + STACK, width, height)
    return "".join(f'<rect class="box" {_xywh(one)} rx="6"/>' for one in (behind, front))


def _xywh(box: Rectangle) -> str:
    return (
        f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}"'
    )  # fmt: skip


def _n(number: float) -> str:
    """A coordinate: one digit after the point, none where it is 0."""
    return f"{number:.1f}".removesuffix(".0")
