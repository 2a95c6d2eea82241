"""The text of every box: names as mathematics, signs of operators, titles of folds."""

from __future__ import annotations

from chainrule.explain.drawing.bands import Entry, Role
from chainrule.explain.drawing.expressions import constant_text
from chainrule.explain.drawing.folding import Fold
from chainrule.explain.drawing.lettering import (
    ELLIPSIS,
    Face,
    Label,
    Line,
    Piece,
    fitted,
    pieces,
    without_index,
)
from chainrule.explain.drawing.units import Unit, Units
from chainrule.explain.drawing.wording import Wording, wording
from chainrule.explain.reading.bodies import results
from chainrule.explain.reading.statements import Direction
from chainrule.explain.reading.symbols import Notation, parted
from chainrule.graph.node import Node

ROOM, MOST = 44.0, 150.0  # pixels of text in a box of the usual width, and in the widest
COPY_ROOM, COPY_MOST = 28.0, 100.0
NAME_SIZES, FRACTION_SIZES, SIGN_SIZES = (21.0, 18.0, 15.0), (16.0, 14.0), (22.0, 18.0, 15.0)
COPY_SIZES, COPY_FRACTION_SIZES, FOLD_SIZES = (14.0, 12.0), (11.5,), (16.0, 14.0)
WIDEST_FOLD = 230.0
PRIME = "′"


class Labels:
    """Writes labels in the notation of one graph."""

    def __init__(self, units: Units, notation: Notation) -> None:
        self.units, self.notation = units, notation
        self.results = results(units.reading.graph)
        self._wordings: dict[str, Wording] = {}
        self._texts: dict[str, str] = {}
        self._operators: dict[str, Label] = {}

    def short(self, node: Node) -> str:
        """The name of a value within a formula: its last part; `·` where it has none, of a
        constant its number or `const`."""
        name = self.units.sources.get(node) or self.units.reading.names.get(node)
        name = name or self.units.reading.sources.get(node) or ""
        return self.name_text(name) if name else constant_text(node)

    def name_text(self, name: str) -> str:
        """A name as it stands in a box: `blocks[0].W1` is W₁, derivatives have a slash."""
        found = self._texts.get(name)
        if found is None:
            whole = name in self.notation.symbols or parted(name)
            last = name if whole else name.rpartition(".")[2] or name
            found = self._texts[name] = self.notation.text(last)
        return found

    def full_text(self, name: str) -> str:
        """The whole name in the notation."""
        return self.notation.text(name) if "." in name else self.name_text(name)

    def value(self, entry: Entry) -> Label:
        """The label of a square, or of a small copy of one."""
        copy = entry.role is Role.COPY
        room, most = (COPY_ROOM, COPY_MOST) if copy else (ROOM, MOST)
        fraction = self.notation.fraction(entry.name)
        if fraction is not None:
            parts = parted(entry.name)
            assert parts is not None
            lines = [
                self._differential(text, name)
                for text, name in zip(fraction, parts, strict=True)
            ]  # fmt: skip
            sizes = COPY_FRACTION_SIZES if copy else FRACTION_SIZES
            return fitted(lines, room, sizes, most)
        sizes = COPY_SIZES if copy else NAME_SIZES
        if not entry.name:
            return fitted([pieces(self._inside(entry.node), Face.UPRIGHT)], room, sizes, most)
        face = self._face(entry.name)
        if "." in entry.name and entry.node in self.units.owners:  # its frame has the rest
            return fitted([pieces(self.name_text(entry.name), face)], room, sizes, most)
        whole = fitted([pieces(self.full_text(entry.name), face)], room, sizes, most)
        if "." not in entry.name or ELLIPSIS not in whole.text:
            return whole
        return fitted([pieces(ELLIPSIS + self.name_text(entry.name), face)], room, sizes, most)

    def _inside(self, node: Node) -> str:
        """A value without a name, by the circle that has it inside: (ℓ), (φ′)."""
        made_from = node.origin.node
        forward = self.units.owners.get(made_from) if made_from is not None else None
        owners = forward or self.units.owners.get(node)
        if not owners:
            return constant_text(node)
        text = self._wording(owners[0]).whole
        if not forward:
            return f"({text})"
        return f"({text}){PRIME}" if " " in text else f"({text}{PRIME})"

    def _differential(self, text: str, name: str) -> Line:
        """∂ and what is differentiated."""
        if parted(name) or not text.startswith("∂") or name in self.notation.seeds:
            return pieces(text, Face.UPRIGHT)
        last = text[1:].rpartition(".")[2] or text[1:]
        return (Piece("∂"), *pieces(last, self._face(name)))

    def _face(self, name: str) -> Face:
        """One letter is bold for an array and italic for a scalar; words are upright."""
        text = without_index(self.name_text(name))
        letters = sum(1 for letter in text if letter.isalpha())
        if letters != 1:
            return Face.UPRIGHT
        return Face.BOLD if name in self.notation.arrays else Face.ITALIC

    def operator(self, entry: Entry) -> Label:
        """The label of a circle; backward ones have a prime."""
        assert entry.unit is not None
        text = self._wording(entry.unit).sign
        if _is_mirrored(entry):
            text = _primed(text)
        label = self._operators.get(text)
        if label is None:
            italic = text.rstrip("₂′") in ("ℓ", "φ", "f")
            line = pieces(text, Face.ITALIC if italic else Face.UPRIGHT)
            label = self._operators[text] = fitted([line], ROOM - 6, SIGN_SIZES, MOST)
        return label

    def function(self, entry: Entry) -> str:
        """The name of the function whose circle says φ; of a backward one, of its derivative."""
        assert entry.unit is not None
        name = self._wording(entry.unit).name
        return _primed(name) if name and _is_mirrored(entry) else name

    def _wording(self, unit: Unit) -> Wording:
        found = self._wordings.get(unit.key)
        if found is None:
            found = self._wordings[unit.key] = wording(unit, self.short, self.results)
        return found

    def fold(self, fold: Fold, mirrored: bool) -> tuple[Label, str]:
        """The title of a fold, and a caption that says what is inside."""
        first = fold.units[: len(fold.units) // fold.count]  # of equal stretches, the first
        names = [unit.name for unit in first if unit.name]
        ends = [self.name_text(name) for name in (names[:1] + names[-1:] if names else [])]
        title = fold.title
        if fold.units[0].during.direction is Direction.UPDATE and fold.count > 1:
            title = title or "update"
        if fold.stretch is not None or not title:
            title = " … ".join(dict.fromkeys(ends)) or "unnamed values"
        title = f"({title})" if mirrored and " " in title else title
        title += PRIME if mirrored else ""
        if fold.stretch is not None:
            first, last, total = fold.stretch
            caption = f"{first:,}–{last:,} of {total:,}"
        elif fold.count > 1:
            caption = f"×{fold.count:,}"
        else:
            caption = f"{len(fold.units):,} operator{'s' if len(fold.units) > 1 else ''}"
        return fitted([pieces(title, Face.UPRIGHT)], ROOM, FOLD_SIZES, WIDEST_FOLD), caption


def _is_mirrored(entry: Entry) -> bool:
    return entry.key.startswith("backward")


def _primed(text: str) -> str:
    """The text as a derivative: tanh′, (mean pool)′."""
    return f"({text}){PRIME}" if " " in text.replace("[ ]", "") else text + PRIME
