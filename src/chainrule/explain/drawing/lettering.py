"""Labels: names as mathematics with real sub- and superscripts, and how much room they take.

Nothing is measured: widths come from a small table for serif faces, a little on the safe side.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from itertools import groupby

from chainrule.dataclass import dataclass

LOWERED_LETTERS = "tsijklmruv"  # those that have a lowered form
_INDICES: Mapping[str, str] = dict(zip("ₜₛᵢⱼₖₗₘᵣᵤᵥ₊₋", "tsijklmruv+−", strict=True))
_LOWERED: Mapping[str, str] = {
    **dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)),
    **_INDICES,
}
_RAISED: Mapping[str, str] = {
    **dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁽⁾", "0123456789()", strict=True)),
    "ᵀ": "⊤",
}
SMALL = 0.7  # the size of indices, of the size of the line
LEAST = 12  # pixels: no letter is smaller
_NARROW, _THIN, _WIDE = "iljI.,;:'|!·()[]{}", "ftr/- ₁", "mwMW⊙Σ@—…"
ELLIPSIS = "…"


class Face(StrEnum):
    """How letters are set: scalars italic, arrays bold, words and signs upright."""

    UPRIGHT = "upright"
    ITALIC = "italic"
    BOLD = "bold"


@dataclass(frozen=True)
class Piece:
    """Letters of one face; `level` is 0 on the line, 1 raised, -1 lowered."""

    text: str
    face: Face = Face.UPRIGHT
    level: int = 0

    def size(self, size: float) -> float:
        """The size of the letters, in pixels, where that of the line is `size`."""
        return max(SMALL * size, LEAST) if self.level else size

    @property
    def ems(self) -> float:
        """The width, in font sizes, of a line of the usual size."""
        return self.width(1.0, SMALL)

    def width(self, size: float, small: float | None = None) -> float:
        """The width in pixels, where the size of the line is `size`."""
        bold = 1.07 if self.face is Face.BOLD else 1.0
        factor = self.size(size) if small is None else small if self.level else size
        return sum(map(_ems, self.text)) * factor * bold


Line = tuple[Piece, ...]


@dataclass(frozen=True)
class Label:
    """One line, or two with a bar between them: numerator and denominator.

    `size` is that of the font in pixels, `width` that of the widest line.
    """

    lines: tuple[Line, ...]
    size: float

    @property
    def is_fraction(self) -> bool:
        """Whether there are two lines with a bar between them."""
        return len(self.lines) == 2

    @property
    def width(self) -> float:
        """The room that the widest line takes, in pixels."""
        return max((width(line, self.size) for line in self.lines), default=0.0)

    @property
    def text(self) -> str:
        """The label as one string: `∂J/∂z`."""
        return "/".join("".join(map(_plain, line)) for line in self.lines)


def _plain(piece: Piece) -> str:
    """The letters; of an index that is more than a number, as TeX has it: _{t−1}."""
    if piece.level >= 0 or piece.text.isdigit():
        return piece.text
    return f"_{piece.text}" if len(piece.text) == 1 else f"_{{{piece.text}}}"


def lowered(text: str) -> str:
    """An index in lowered letters, digits and signs."""
    raised = {plain: low for low, plain in _LOWERED.items()}
    return "".join(raised[letter] for letter in text)


def without_index(text: str) -> str:
    """A name without raised and lowered digits and letters at its end."""
    return text.rstrip("".join((*_LOWERED, *_RAISED)).replace("ᵀ", ""))


def width(line: Line, size: float) -> float:
    """The width of a line in pixels, set in letters of `size` pixels."""
    return sum(piece.width(size) for piece in line)


def ems(line: Line) -> float:
    """The width of a line, in font sizes."""
    return sum(piece.ems for piece in line)


@cache
def _ems(letter: str) -> float:
    """The width of one letter in font sizes: at least that of the usual serif faces."""
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Cf", "Mn"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    if letter in _NARROW:
        return 0.36
    if letter in _THIN:
        return 0.42
    if letter in _WIDE or ord(letter) > 0x2FFF:
        return 0.95
    return 0.74 if letter.isupper() or ord(letter) > 0x17F else 0.56


def pieces(text: str, face: Face) -> Line:
    """A name in Unicode, its raised and lowered digits as letters of their own level.

    The face is for the letters of one-letter names; words are upright, as `softmax` is.
    """
    found: list[tuple[str, int]] = []
    for place, letter in enumerate(text):
        level = -1 if letter in _LOWERED else 1 if letter in _RAISED else 0
        if letter == "," and found and found[-1][1] < 0 and text[place + 1 : place + 2] in _LOWERED:
            level = -1  # between two indices
        shown = _LOWERED.get(letter) or _RAISED.get(letter) or letter
        if found and found[-1][1] == level:
            found[-1] = found[-1][0] + shown, level
        else:
            found.append((shown, level))
    return tuple(Piece(part, Face.UPRIGHT if level else face, level) for part, level in found)


def shortened(line: Line, most: float) -> Line:
    """The line; where it is wider than `most` font sizes, its beginning and its end.

    Of long names, either may be what tells them apart: `weight_in_next` and `weight_out_next`.
    """
    if ems(line) <= most:
        return line
    letters = [Piece(letter, one.face, one.level) for one in line for letter in one.text]
    room = most - _ems(ELLIPSIS)
    head = _fitting(letters, room / 2)
    tail = _fitting(letters[:0:-1], room - ems(tuple(head)))[::-1]
    return _joined([*head, Piece(ELLIPSIS), *tail])


def _fitting(letters: list[Piece], room: float) -> list[Piece]:
    """As many of the first letters as fit."""
    found = []
    for letter in letters:
        room -= letter.ems
        if room < 0:
            break
        found.append(letter)
    return found


def _joined(letters: list[Piece]) -> Line:
    """Neighbours of one face and level as one piece."""
    groups = groupby(letters, key=lambda one: (one.face, one.level))
    return tuple(Piece("".join(one.text for one in same), *look) for look, same in groups)


def fitted(lines: Iterable[Line], room: float, sizes: tuple[float, ...], most: float) -> Label:
    """The lines in the largest of the sizes at which they fit into `room` pixels.

    At the smallest size they may take up to `most` pixels; what is longer is shortened.
    """
    lines = tuple(lines)
    for size in sizes:
        if all(width(line, size) <= room for line in lines):
            return Label(lines, size)
    return Label(tuple(shortened(line, most / sizes[-1]) for line in lines), sizes[-1])
