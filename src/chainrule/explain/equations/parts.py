"""The parts of a typeset formula, and their two writers: LaTeX, and Unicode text."""

from __future__ import annotations

from collections.abc import Callable

from chainrule.dataclass import dataclass, replace
from chainrule.explain.reading.symbols import Notation
from chainrule.graph.cached import cached_property
from chainrule.primitives.notation import ATOM, SIDE_BY_SIDE, TEXT_FRACTION

SUPERSCRIPTS: dict[str, str] = dict(zip("0123456789+−()T", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ᵀ", strict=True))
SUBSCRIPTS: dict[str, str] = dict(zip("0123456789+−", "₀₁₂₃₄₅₆₇₈₉₊₋", strict=True))


@dataclass(frozen=True)
class Symbol:
    """The smallest piece, as LaTeX and as text."""

    latex: str
    text: str


@dataclass(frozen=True)
class Name:
    """The name of a value, written in the notation when it is asked for."""

    notation: Notation
    name: str

    @cached_property
    def latex(self) -> str:
        """As LaTeX."""
        return self.notation.latex(self.name)

    @cached_property
    def text(self) -> str:
        """As text."""
        return self.notation.text(self.name)


@dataclass(frozen=True)
class Slot:
    """A place in a record's template that an input or a parameter fills."""

    name: str


@dataclass(frozen=True)
class Row:
    """Pieces one after another."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Fraction:
    """`top` over `bottom`; the text writer puts brackets where a slash needs them."""

    top: Part
    bottom: Part


@dataclass(frozen=True)
class Script:
    """`base` with something below and above on its right."""

    base: Part
    below: Part | None = None
    above: Part | None = None


@dataclass(frozen=True)
class Root:
    """The square root of `body`."""

    body: Part


@dataclass(frozen=True)
class Fence:
    """`body` in brackets; where `only_text`, LaTeX needs none."""

    body: Part
    left: str = "("
    right: str = ")"
    only_text: bool = False


@dataclass(frozen=True)
class Cases:
    """The value of the first row whose condition holds; the last row has none."""

    rows: tuple[tuple[Part, Part | None], ...]


@dataclass(frozen=True)
class Bound:
    """A part and how strongly its outermost symbol binds, in LaTeX and in text.

    `negated` is what a leading minus sign stands before: a + (−b) is written a − b.
    """

    part: Part
    binding: int = ATOM
    text_binding: int = ATOM
    negated: Bound | None = None


Part = Symbol | Name | Slot | Row | Fraction | Script | Root | Fence | Cases | Bound

THIN = Symbol(r"\,", " ")
COMMA = Symbol(", ", ", ")
DOT = Symbol(r" \cdot ", " · ")
PLUS, MINUS = Symbol(" + ", " + "), Symbol(" - ", " − ")
EQUALS = Symbol(" = ", " = ")
TRANSPOSED = Symbol(r"\top", "T")
_DELIMITERS = {"‖": r"\|", "⟨": r"\langle ", "⟩": r"\rangle "}


def row(*parts: Part) -> Row:
    """The parts one after another."""
    return Row(parts)


def upright(word: str) -> Symbol:
    """A word as an operator's name; it must be free of LaTeX."""
    return Symbol(rf"\operatorname{{{word}}}", word)


def separated(parts: list[Part], by: Part = COMMA) -> Row:
    """The parts with `by` between them."""
    shown: list[Part] = []
    for part in parts:
        shown += [by, part] if shown else [part]
    return Row(tuple(shown))


def replaced(part: Part, change: Callable[[Part], Part | None]) -> Part:
    """The part with others in place of pieces of it: where `change` gives one."""
    new = change(part)
    if new is not None:
        return new
    match part:
        case Bound(inner):
            return replace(part, part=replaced(inner, change))
        case Row(pieces):
            return Row(tuple([replaced(one, change) for one in pieces]))
        case Fraction(top, bottom):
            return Fraction(replaced(top, change), replaced(bottom, change))
        case Script(base, below, above):
            scripts = (None if one is None else replaced(one, change) for one in (below, above))
            return Script(replaced(base, change), *scripts)
        case Root(body) | Fence(body):
            return replace(part, body=replaced(body, change))
        case Cases(rows):
            new_rows = []
            for value, held in rows:
                first = replaced(value, change)
                new_rows.append((first, None if held is None else replaced(held, change)))
            return Cases(tuple(new_rows))
        case _:
            return part


def latex(part: Part) -> str:
    """The part in LaTeX's mathematics."""
    while isinstance(part, Bound):
        part = part.part
    if isinstance(part, (Symbol, Name)):
        return part.latex
    if isinstance(part, Row):
        return "".join(map(latex, part.parts))
    match part:
        case Fraction(top, bottom):
            return rf"\frac{{{latex(top)}}}{{{latex(bottom)}}}"
        case Script(base, below, above):
            shown = latex(base)
            shown = shown if len(shown) == 1 or _is_whole(base) else f"{{{shown}}}"
            shown += "" if below is None else f"_{{{latex(below)}}}"
            return shown + ("" if above is None else f"^{{{latex(above)}}}")
        case Root(body):
            return rf"\sqrt{{{latex(body)}}}"
        case Fence(body, left, right, only_text):
            return latex(body) if only_text else _fenced(body, left, right)
        case Cases(rows):
            lines = [
                f"{latex(value)} & "
                + (r"\text{otherwise}" if held is None else rf"\text{{if }} {latex(held)}")
                for value, held in rows
            ]
            return r"\begin{cases} " + r" \\ ".join(lines) + r" \end{cases}"
        case Slot(name):
            raise ValueError(f"the slot {name} is not filled")


def _fenced(body: Part, left: str, right: str) -> str:
    first, last = _DELIMITERS.get(left, left), _DELIMITERS.get(right, right)
    if _is_tall(body):
        return rf"\left{first} {latex(body)} \right{last}"
    return f"{first}{latex(body)}{last}"


def _is_whole(part: Part) -> bool:
    """Whether scripts belong to the part as it is: `\\sum_{...}`, `\\max_{...}`, brackets."""
    if isinstance(part, Bound):
        return _is_whole(part.part)
    if isinstance(part, Fence):
        return not part.only_text
    if not isinstance(part, (Symbol, Name)) or "^" in part.latex or "_" in part.latex:
        return False
    return part.latex.startswith("\\") and part.latex.count("\\") == 1


def _is_tall(part: Part) -> bool:
    match part:
        case Fraction() | Cases() | Root():
            return True
        case Symbol() | Name():
            return r"\frac" in part.latex or r"\sum" in part.latex
        case Bound(inner) | Fence(inner):
            return _is_tall(inner)
        case Script(base):
            return _is_tall(base)
        case Row(parts):
            return any(map(_is_tall, parts))
        case _:
            return False


def text(part: Part) -> str:
    """The part in Unicode, on one line."""
    while isinstance(part, Bound):
        part = part.part
    if isinstance(part, (Symbol, Name)):
        return part.text
    if isinstance(part, Row):
        return "".join(map(text, part.parts))
    match part:
        case Fraction(top, bottom):
            return "/".join(
                text(one) if text_binding(one) > SIDE_BY_SIDE else f"({text(one)})"
                for one in (top, bottom)
            )
        case Script(base, below, above):
            return text(base) + _script(above, "^", SUPERSCRIPTS) + _script(below, "_", SUBSCRIPTS)
        case Root(body):
            shown = text(body)
            return f"√{shown}" if text_binding(body) == ATOM else f"√({shown})"
        case Fence(body, left, right):
            return f"{left}{text(body)}{right}"
        case Cases(rows):
            lines = [
                text(value) + (" otherwise" if held is None else f" if {text(held)}")
                for value, held in rows
            ]
            return "{" + "; ".join(lines) + "}"
        case Slot(name):
            raise ValueError(f"the slot {name} is not filled")


def begins_with(part: Part) -> str:
    """The first letter of the part in Unicode; '' of a part without any."""
    match part:
        case Bound(inner) | Script(inner):
            return begins_with(inner)
        case Row(parts):
            return next(filter(None, map(begins_with, parts)), "")
        case _:
            return text(part)[:1]


def _script(part: Part | None, sign: str, raised: dict[str, str]) -> str:
    if part is None:
        return ""
    shown = text(part)
    if all(letter in raised for letter in shown):
        return "".join(raised[letter] for letter in shown)
    return sign + (shown if len(shown) == 1 else f"{{{shown}}}")


def text_binding(part: Part) -> int:
    """How strongly the outermost symbol of a part binds in text."""
    match part:
        case Bound():
            return part.text_binding
        case Row((only,)):
            return text_binding(only)
        case Row():
            return 0
        case Fraction():
            return TEXT_FRACTION
        case _:
            return ATOM
