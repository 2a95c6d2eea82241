"""Writes the equations of equal blocks once, with an index: x_{l+1} = σ(x_l W_l), l = 0, …, 11."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from operator import sub
from typing import TypeGuard

from chainrule.dataclass import dataclass, field, replace
from chainrule.explain.equations.parts import (
    Name,
    Part,
    Script,
    Symbol,
    replaced,
    row,
    separated,
    text,
)
from chainrule.explain.equations.writing import Line
from chainrule.explain.reading.symbols import Notation, escape

Numbered = tuple[int, Line]
LETTERS = "lkijmpqrs"
FEWEST_SAVED = 4  # lines that are left out, at least
MOST_TRIED = 12  # periods from one line on
MARK, ZERO = 98765, 5000  # digits that no name has; they stand for an index with an offset
_PIECE = re.compile(r"[^\W\d]\w*|\d+|\W")
_SUFFIXED = re.compile(r"(?P<stem>.*[^_])_(?P<number>[1-9]\d*)")
_DIGITED = re.compile(r"(?P<stem>.*[^\W\d_])(?P<number>0|[1-9]\d*)")
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_IN_TEXT = re.compile(rf"(?P<lowered>[₀-₉]{{9}})|(?P<under>_?){MARK}(?P<offset>\d{{4}})")
_IN_WORDS = re.compile(rf"\\_{MARK}(\d{{4}})")
_IN_LATEX = re.compile(rf"{MARK}(\d{{4}})")


@dataclass(frozen=True)
class Token:
    """A name or an auxiliary symbol in pieces: those in which equal blocks differ are numbers."""

    pieces: tuple[tuple[str, str], ...]  # what each is, and how its number is written
    numbers: tuple[int, ...]


@dataclass
class Folds:
    """What has been written with an index: `zeros` are stems that have the index 0 without a
    number; `auxiliaries` have a number among those of a block, and the index of the block."""

    letter: str
    zeros: dict[str, None] = field(default_factory=dict)
    auxiliaries: dict[int, tuple[int, int]] = field(default_factory=dict)
    count: int = 0  # of auxiliary symbols in one block
    notation: Notation | None = None

    @property
    def remarks(self) -> list[Part]:
        """Which names have the index 0 without a number: `x₀ = x`."""
        found: list[Part] = []
        for stem in self.zeros:
            index = _with_index(f"{stem}_{MARK}{ZERO}", escaped(f"{stem}_{MARK}{ZERO}"), "0")
            plain = index.text.replace("_0", "₀")
            said = stem if self.notation is None else self.notation.text(stem)
            latex = escaped(stem) if self.notation is None else self.notation.latex(stem)
            found.append(Symbol(f"{index.latex} = {latex}", f"{plain} = {said}"))
        return found

    def folded(self, lines: Sequence[Numbered], given: bool = False) -> list[Numbered]:
        """The lines, of which equal stretches that follow each other stand there once."""
        read = [_Read(number, line, self) for number, line in lines]
        after: dict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(read):
            after[one.skeleton].append(place)
        found: list[Numbered] = []
        place = 0
        while place < len(read):
            best = self._longest(read, place, after)
            if best is None:
                found.append((read[place].number, read[place].shown(None)))
                place += 1
            else:
                found += best.lines(given)
                place += best.period * best.count
        return found

    def _longest(self, read: list[_Read], start: int, after: dict[str, list[int]]) -> _Fold | None:
        """The longest stretch of equal blocks that begins here."""
        places = after[read[start].skeleton]
        first = bisect_right(places, start)
        best: _Fold | None = None
        for other in places[first : first + MOST_TRIED]:
            period = other - start
            count, step = _regular(read, start, period)
            is_longer = best is None or period * count > best.period * best.count
            if is_longer and period * (count - 1) >= FEWEST_SAVED and step:
                best = _Fold(self, read[start : start + period * count], period, count, step)
        if best is not None:
            best.settle()
        return best


def _regular(read: list[_Read], start: int, period: int) -> tuple[int, int]:
    """How many blocks of so many lines follow each other, in which the same numbers grow by one (or
    all become less by one) from block to block; and that step."""
    steps: list[tuple[int, ...]] = []
    step, count = 0, 1
    own = _own(read[start : start + period])
    while start + period * (count + 1) <= len(read):
        at = start + period * count
        before, own = own, _own(read[at : at + period])
        for place in range(period):
            one, two = read[at - period + place], read[at + place]
            if one.skeleton != two.skeleton or one.forms != two.forms:
                return count, step
            if [before.get(n, -n) for n in one.symbols] != [own.get(n, -n) for n in two.symbols]:
                return count, step
            grows = tuple(map(sub, two.numbers, one.numbers))
            if count > 1:
                if grows != steps[place]:
                    return count, step
                continue
            for each in {*grows} - {0}:
                if abs(each) != 1 or step not in (0, each):
                    return count, step
                step = each
            steps.append(grows)
        count += 1
    return count, step


def _own(block: list[_Read]) -> dict[int, int]:
    """The auxiliary symbols that a block defines, by their numbers, counted from 1."""
    return {one: at for at, one in enumerate((read.defines for read in block if read.defines), 1)}


class _Read:
    """One line: its names and auxiliary symbols, and the text without their numbers."""

    def __init__(self, number: int, line: Line, folds: Folds) -> None:
        self.number, self.line, self.folds = number, line, folds
        self.tokens: list[Token | int] = []
        self.defines = 0  # the auxiliary symbol on the left

        def stripped(part: Part) -> Part | None:
            found = self._token(part)
            if found is None:
                return None
            self.tokens.append(found)
            stems = [stem for stem, _ in found.pieces] if isinstance(found, Token) else ["aux"]
            return Symbol("", f"⟦{' '.join(stems)}⟧")

        left, sides, kind = line.composed
        shown = [text(replaced(one, stripped)) for one in (left, *sides)]
        self.kind = "" if kind is None else text(kind)
        self.defines = _auxiliary(left.part) or self.defines
        self.skeleton = " = ".join([*shown, line.tail_text])
        named = [one for one in self.tokens if isinstance(one, Token)]
        self.forms = tuple([one.pieces for one in named])
        self.numbers = tuple([number for one in named for number in one.numbers])
        self.symbols = tuple([one for one in self.tokens if isinstance(one, int)])

    def _token(self, part: Part) -> Token | int | None:
        if isinstance(part, Name):
            self.folds.notation = part.notation
            return _taken_apart(part.name)
        if _is_number(part):
            return Token((("", "index"),), (int(part.text),))
        number = _auxiliary(part)
        if number in self.folds.auxiliaries:
            place, index = self.folds.auxiliaries[number]
            return Token(((f"aux{place}", "number"),), (index,))
        return number

    def shown(self, change: Callable[[Part], Part | None] | None, tail: Part | None = None) -> Line:
        """The line with other names; with those of earlier folds, where none are given."""
        known, line = self.folds.auxiliaries, self.line

        def usual(part: Part) -> Part | None:
            number = _auxiliary(part)
            if number is None or number not in known:
                return None
            assert isinstance(part, Script)
            return Script(part.base, separated([_symbol(one) for one in known[number]], COMMA))

        if change is None and not known:
            return line
        return line.changed(usual if change is None else change, tail, keeps_kind=change is None)


COMMA = Symbol(",", ",")


class _Fold:
    """Equal blocks of lines: `period` lines each, in which numbers grow by `step`."""

    def __init__(self, folds: Folds, read: list[_Read], period: int, count: int, step: int) -> None:
        self.folds, self.read, self.period, self.count = folds, read, period, count
        self.step = step
        self.own = [_own(block) for block in self.blocks]
        first = {form: min(several, key=lambda one: one * step)
                 for (_, form), several in reversed([*self._varying()])}  # fmt: skip
        self.base = first.get("index", next(iter(reversed(first.values()))))

    @property
    def blocks(self) -> list[list[_Read]]:
        """The lines of each block."""
        return [self.read[at : at + self.period] for at in range(0, len(self.read), self.period)]

    def _columns(self) -> Iterator[tuple[Token | int, ...]]:
        """The tokens at one place of each block."""
        for lines in zip(*self.blocks, strict=True):
            yield from zip(*(one.tokens for one in lines), strict=True)

    def settle(self) -> None:
        """Remember which auxiliary symbols are those of which block."""
        known = self.folds
        for number, own in enumerate(self.own):
            for one, at in own.items():
                known.auxiliaries[one] = known.count + at, self.base + self.step * number
        known.count += len(self.own[0])
        for (stem, form), several in self._varying():
            if 0 in several and form == "suffix" and not self._is_derivative(stem):
                known.zeros[stem] = None

    def _is_derivative(self, stem: str) -> bool:
        """Whether a piece of a name is what stands below the stroke of dJ/dx."""
        return any(stem == f"d{piece}" for (piece, _), _ in self._varying())

    def _varying(self) -> Iterator[tuple[tuple[str, str], set[int]]]:
        for column in self._columns():
            tokens = [one for one in column if isinstance(one, Token)]
            for piece, *numbers in zip(
                tokens[0].pieces if tokens else (), *(one.numbers for one in tokens), strict=True
            ):
                if len({*numbers}) > 1:
                    yield piece, {*numbers}

    def lines(self, given: bool) -> Iterator[Numbered]:
        """The lines of the first block, for all."""
        letter = self.folds.letter
        last = self.base + self.step * (self.count - 1)
        between = {2: ", ", 3: f", {self.base + self.step}, "}
        ends = f"{self.base}{between.get(self.count, ', …, ')}{last}"
        latex = rf",\quad {letter} = {ends.replace('…', chr(92) + 'ldots')}"
        tail = Symbol(latex, f", {letter} = {ends}")
        if given:
            tail = Symbol(
                rf"\ ({latex.removeprefix(',' + chr(92) + 'quad ')})", f" ({letter} = {ends})"
            )
        for place, several in enumerate(zip(*self.blocks, strict=True)):
            first = several[0]
            change = self._change([one.tokens for one in several])
            said = tail if not given or place + 1 == self.period else row()
            kinds = {one.kind for one in several}
            line = first.line.changed(change, said, keeps_kind=len(kinds) == 1)
            yield first.number, line

    def _change(self, columns: list[list[Token | int]]) -> Callable[[Part], Part | None]:
        tokens = iter(zip(*columns, strict=True))
        own = self.own[0]

        def change(part: Part) -> Part | None:
            number = _auxiliary(part)
            if not isinstance(part, Name) and number is None and not _is_number(part):
                return None
            column = next(tokens)
            first = column[0]
            if isinstance(part, Symbol):
                values = [one.numbers[0] for one in column if isinstance(one, Token)]
                is_same = len({*values}) == 1
                return part if is_same else _index(self.folds.letter, values[0] - self.base)
            if isinstance(part, Script):
                known = self.folds.auxiliaries.get(number or 0)
                if known is None:
                    return part
                value = known[1] - self.base if number not in own else 0
                index = _index(self.folds.letter, value)
                return Script(part.base, separated([_symbol(known[0]), index], COMMA))
            assert isinstance(part, Name) and isinstance(first, Token)
            name = self._generic(
                part.name, [one.numbers for one in column if isinstance(one, Token)]
            )
            if name == part.name:
                return part
            notation = part.notation
            if part.name in notation.arrays:
                notation = replace(notation, arrays=notation.arrays | {name})
            return _with_index(notation.text(name), notation.latex(name), self.folds.letter)

        return change

    def _generic(self, name: str, numbers: list[tuple[int, ...]]) -> str:
        """The name with a mark where the blocks differ."""
        found = ""
        for (piece, form), number, *rest in zip(
            _taken_apart(name).pieces, *numbers[:1], *numbers[1:], strict=True
        ):
            if len({number, *rest}) > 1:
                shown = f"{MARK}{ZERO + number - self.base:04}"
            else:
                shown = str(number)
            match form:
                case "":
                    found += piece
                case "suffix":
                    found += f"_{shown}" if number or len(shown) > 1 else ""
                case _:
                    found += shown
        return found


def _taken_apart(name: str) -> Token:
    """`blocks[3].W1` as the pieces blocks [ 3 ] . W 1, each identifier with its suffix `_0`."""
    pieces: list[tuple[str, str]] = []
    numbers: list[int] = []

    def add(piece: str, form: str, number: int) -> None:
        pieces.append((piece, form))
        numbers.append(number)

    for piece in _PIECE.findall(name):
        if piece.isdigit():
            add("", "index", int(piece))
        elif not (piece[0].isalpha() or piece[0] == "_"):
            add(piece, "", 0)
        else:
            stem, suffix = piece, 0
            if found := _SUFFIXED.fullmatch(piece):
                stem, suffix = found["stem"], int(found["number"])
            if found := _DIGITED.fullmatch(stem):
                add(found["stem"], "", 0)
                add("", "digits", int(found["number"]))
            else:
                add(stem, "", 0)
            add(stem, "suffix", suffix)
    return Token(tuple(pieces), tuple(numbers))


def _is_number(part: Part) -> TypeGuard[Symbol]:
    return isinstance(part, Symbol) and part.text.isdigit() and part.latex == part.text


def _auxiliary(part: Part) -> int | None:
    """The number of an auxiliary symbol; None of others."""
    if isinstance(part, Script) and part.above is None and isinstance(part.below, Symbol):
        if isinstance(part.base, Symbol) and part.below.text.isdigit():
            return int(part.below.text)
    return None


def _symbol(number: int) -> Symbol:
    return Symbol(str(number), str(number))


def _index(letter: str, offset: int) -> Symbol:
    sign = f"+{offset}" if offset > 0 else f"-{-offset}" if offset else ""
    return Symbol(letter + sign, (letter + sign).replace("-", "−"))


def escaped(stem: str) -> str:
    """A stem in LaTeX."""
    return stem if len(stem) == 1 else rf"\mathrm{{{escape(stem)}}}"


def _with_index(plain: str, latex: str, letter: str) -> Symbol:
    """The text and LaTeX of a name, with an index for the marks in it."""

    def in_text(found: re.Match[str]) -> str:
        lowered = found["lowered"]
        digits = lowered.translate(_LOWERED) if lowered else ""
        if lowered and not digits.startswith(str(MARK)):
            return found[0]
        offset = int(digits[-4:] if lowered else found["offset"]) - ZERO
        index = _index(letter, offset).text
        if not lowered and not found["under"]:
            return index
        return f"_{index}" if len(index) == 1 else f"_{{{index}}}"

    def in_latex(found: re.Match[str]) -> str:
        return _index(letter, int(found[1]) - ZERO).latex

    latex = _IN_WORDS.sub(lambda one: rf"}}_{{{in_latex(one)}}}\mathrm{{", latex)
    return Symbol(_IN_LATEX.sub(in_latex, latex), _IN_TEXT.sub(in_text, plain))
