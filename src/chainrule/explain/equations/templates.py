"""Parses a record's LaTeX template into parts, from which both writers write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from string import Formatter

from chainrule.explain.equations.parts import (
    Bound,
    Cases,
    Fence,
    Fraction,
    Name,
    Part,
    Root,
    Row,
    Script,
    Slot,
    Symbol,
)

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|.", re.DOTALL)
_GLYPHS = {
    r"\odot": "⊙", r"\cdot": "·", r"\times": "×", r"\neq": "≠", r"\leq": "≤", r"\geq": "≥",
    r"\wedge": "∧", r"\vee": "∨", r"\neg": "¬", r"\sum": "∑", r"\prod": "∏", r"\top": "T",
    r"\sigma": "σ", r"\Phi": "Φ", r"\ell": "ℓ", r"\partial": "∂", r"\arg": "arg ", r"\,": " ",
    r"\ldots": "…", r"\|": "‖", r"\langle": "⟨", r"\rangle": "⟩", r"\{": "{", r"\}": "}",
    r"\lfloor": "⌊", r"\rfloor": "⌋", r"\infty": "∞", r"\to": "→", r"\circ": "∘", "-": "−",
}  # fmt: skip
_WORDS = (r"\operatorname", r"\mathrm", r"\mathit", r"\mathbf", r"\text")

Token = str | Slot


def symbol_of(latex: str, plain: str = "") -> Part:
    """A symbol that is given as LaTeX; its text is read off the LaTeX unless it is given."""
    parts = _Reader([*_tokens(latex)]).row()
    return Symbol(latex, plain) if plain else parts


@lru_cache(maxsize=1024)
def parsed(template: str) -> Part:
    """The template of a `Latex` record; its fields are slots."""
    tokens: list[Token] = []
    for literal, field, _, _ in Formatter().parse(template):
        tokens += _tokens(literal)
        if field is not None:
            tokens.append(Slot(field))
    return _Reader(tokens).row()


def filled(part: Part, slots: Mapping[str, Part | None]) -> Part:
    """The part with its slots filled; a script whose slot is None is left out."""

    def fill(one: Part) -> Part:
        return filled(one, slots)

    match part:
        case Slot(name):
            return slots.get(name) or Row(())
        case Row(parts):
            return Row(tuple(map(fill, parts)))
        case Fraction(top, bottom):
            return Fraction(fill(top), fill(bottom))
        case Script(base, below, above):
            under = None if below is None or _is_empty(below, slots) else fill(below)
            over = None if above is None or _is_empty(above, slots) else fill(above)
            return fill(base) if under is None and over is None else Script(fill(base), under, over)
        case Root(body):
            return Root(fill(body))
        case Fence(body, left, right, only_text):
            return Fence(fill(body), left, right, only_text)
        case Symbol() | Name() | Cases() | Bound():
            return part


def _is_empty(part: Part, slots: Mapping[str, Part | None]) -> bool:
    match part:
        case Slot(name):
            return slots.get(name) is None
        case Row((only,)):
            return _is_empty(only, slots)
        case _:
            return False


def _tokens(latex: str) -> list[str]:
    found = (token.group() for token in _TOKEN.finditer(latex))
    return [" " if token.isspace() else token for token in found]


class _Reader:
    """Reads tokens from left to right; templates nest a few levels, so this may recurse."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.place = tokens, 0

    def row(self, until: str = "") -> Part:
        parts: list[Part] = []
        while self.place < len(self.tokens):
            token = self._next()
            if token == until:
                break
            if isinstance(token, str) and token in ("^", "_"):
                parts.append(self._script(parts.pop() if parts else Row(()), token))
            else:
                parts.append(self._part(token))
        return parts[0] if len(parts) == 1 else Row(tuple(parts))

    def _next(self) -> Token:
        self.place += 1
        return self.tokens[self.place - 1]

    def _group(self) -> Part:
        """What follows a command: a group in braces, or one token."""
        while self.tokens[self.place] == " ":
            self.place += 1
        return self._part(self._next())

    def _part(self, token: Token) -> Part:
        if isinstance(token, Slot):
            return token
        if token == "{":
            return self.row("}")
        if token == "(":
            return Fence(self.row(")"))
        if token == r"\frac":
            return Fraction(self._group(), self._group())
        if token == r"\sqrt":
            return Root(self._group())
        if token == r"\left":
            left = _GLYPHS.get(first := str(self._next()), first)
            body = self.row(r"\right")
            return Fence(body, left, _GLYPHS.get(last := str(self._next()), last))
        if token in _WORDS:
            return self._word(token)
        if token == " ":
            return Symbol(" ", " ")
        plain = _GLYPHS.get(token, token.lstrip("\\"))
        return Symbol(token + (" " if token[-1].isalpha() and len(token) > 1 else ""), plain)

    def _word(self, command: str) -> Part:
        letters: list[str] = []
        depth = 0
        while True:
            token = str(self._next())
            depth += (token == "{") - (token == "}")
            letters.append(token)
            if depth == 0:
                break
        inner = "".join(letters[1:-1])
        return Symbol(f"{command}{{{inner}}}", inner.replace("\\", ""))

    def _script(self, base: Part, sign: str) -> Script:
        part = self._group()
        old = base if isinstance(base, Script) else Script(base)
        if sign == "_":
            return Script(old.base, part, old.above)
        return Script(old.base, old.below, part)
