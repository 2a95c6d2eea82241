"""Equations as they are printed, read by the rules of mathematics and of NumPy's broadcasting.

Nothing here sees how an equation was made: brackets, axes and shapes are taken from the text alone.
A number and a space before an array multiply it, a space between arrays is a matrix product.
Derivatives of functions are differences of their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
from equation_functions import FUNCTIONS, axes_of, reduced_by, shape_of, zeros

STEP = 1e-6
WIDE_STEP = 1e-4  # of second differences, whose rounding is 1e-16 / STEP²
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?( · 10[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)?")
PAIRS = {"(": ")", "[": "]", "{": "}", "⟨": "⟩"}


class Unreadable(Exception):
    """The text has something in it that this reader does not know."""


def _transposed(x: np.ndarray) -> np.ndarray:
    """Each matrix of a stack transposed."""
    return np.swapaxes(x, -1, -2)


class Row(np.ndarray):
    """A transposed vector: a bᵀ is an outer product."""


def read(text: str, values: Mapping[str, Any]) -> np.ndarray:
    """The value of an expression in which the names of `values` stand."""
    reader = _Reader(text, values)
    if any(len([*split_by(text, sign)]) > 1 for sign in (*COMPARISONS, " ∧ ", " ∨ ")):
        return np.asarray(reader.condition(text))
    result = reader.sum()
    if reader.rest():
        raise Unreadable(reader.rest())
    return np.asarray(result)


def sides(text: str) -> list[str]:
    """The parts of an equation between its equality signs."""
    return [*split_by(text, " = ")]


def split_by(text: str, by: str) -> Iterator[str]:
    """The parts of a text between separators that are in no bracket."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter in PAIRS) - (letter in PAIRS.values())
        if depth == 0 and text.startswith(by, place) and place >= start:
            yield text[start:place]
            start = place + len(by)
    yield text[start:]


def function(variable: str, text: str, values: Mapping[str, Any]) -> Callable[..., Any]:
    """The function of a variable that an equation such as φ(z) = max(z, 0) defines."""
    return lambda below, x: read(text, {**values, variable: x})


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, text: str, values: Mapping[str, Any]) -> None:
        self.text, self.place, self.values = text, 0, values
        self.names = sorted([*values, *FUNCTIONS], key=len, reverse=True)

    def rest(self) -> str:
        return self.text[self.place :]

    def take(self, *signs: str) -> str:
        """The sign that comes next, which is passed over; '' where none does."""
        for sign in signs:
            if sign and self.text.startswith(sign, self.place):
                self.place += len(sign)
                return sign
        return ""

    def name(self) -> str:
        """The name that comes next: v₁₂ and not v₁; '' where none does."""
        name = self.take(*self.names)
        if name in self.values and self.rest()[:1] in set("₀₁₂₃₄₅₆₇₈₉"):
            raise Unreadable(name + self.rest())
        return name

    def inside(self) -> str:
        """The text up to the bracket that closes the one before this place, passed over too."""
        depth, start = 1, self.place
        while depth:
            if self.place == len(self.text):
                raise Unreadable(self.text)
            letter = self.text[self.place]
            depth += (letter in PAIRS) - (letter in PAIRS.values())
            self.place += 1
        return self.text[start : self.place - 1]

    def of(self, text: str, values: Mapping[str, Any] | None = None) -> Any:
        return read(text, self.values if values is None else values)

    def sum(self) -> Any:
        result = self.term()
        while sign := self.take(" + ", " − "):
            right = self.term()
            result = result + right if sign == " + " else result - right
        return result

    def term(self) -> Any:
        if self.take("−"):
            return -self.term()
        if self.take("∑"):
            below = self.below()
            self.take(" ")
            return reduced_by(np.sum)(below, self.term())
        result = self.chain()
        while self.take(" ⊙ "):
            result = result * self.chain()
        return result

    def chain(self) -> Any:
        """Factors side by side."""
        result = self.fraction()
        while self.text.startswith(" ", self.place) and self.is_factor():
            is_dot = self.take(" · ")
            if not is_dot:
                self.place += 1
            result = _product(result, self.fraction())
        return result

    def is_factor(self) -> bool:
        after = self.text[self.place + 1 : self.place + 3]
        return after[:1] not in ("⊙", "+", "−", "=", "<", ">", "≤", "≥", "≠", "∧", "∨", "") and (
            not self.rest().startswith((" if ", " otherwise", " at "))
        )

    def fraction(self) -> Any:
        result = self.powered()
        while self.take("/"):
            result = result / self.powered()
        return result

    def powered(self) -> Any:
        result = self.atom()
        while self.place < len(self.text):
            if self.take("ᵀ"):
                result = (
                    np.swapaxes(result, -1, -2)
                    if np.ndim(result) > 1
                    else np.reshape(result, (1, -1)).view(Row)
                )
            elif self.take("^"):
                exponent = self.inside() if self.take("{") else self.letter()
                result = result ** self.of(exponent.removeprefix("⊙"))
            elif self.text[self.place] in "⁻⁰¹²³⁴⁵⁶⁷⁸⁹":
                digits = re.match("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", self.rest())
                assert digits is not None
                self.place += len(digits[0])
                result = result ** float(digits[0].translate(SUPERSCRIPTS))
            elif self.take("["):
                result = result[tuple(map(self.index, split_by(self.inside(), ", ")))]
            else:
                break
        return result

    def letter(self) -> str:
        self.place += 1
        return self.text[self.place - 1]

    def index(self, text: str) -> Any:
        if ":" in text and text.replace("−", "-").strip("-:0123456789") == "":
            parts = text.replace("−", "-").split(":")
            return slice(*(int(one) if one else None for one in parts))
        if found := re.fullmatch(r"\(0, …, (\d+)\)", text):
            return np.arange(int(found[1]) + 1)
        value = np.asarray(self.of(text))
        return value.astype(np.int64) if value.ndim else int(value)

    def below(self) -> str:
        if self.take("_{"):
            return self.inside()
        if self.take("_"):
            return self.letter()
        digits = re.match("[₀₁₂₃₄₅₆₇₈₉]*", self.rest())
        assert digits is not None
        self.place += len(digits[0])
        return digits[0]

    def atom(self) -> Any:
        if self.take("prod("):
            return self.pulled(*split_by(self.inside(), ", "))
        if name := self.name():
            is_call = name in FUNCTIONS and self.rest()[:1] in ("_", "(")  # a value may be `mean`
            found = FUNCTIONS[name] if is_call else self.values.get(name, FUNCTIONS.get(name))
            return self.called(found) if callable(found) else found
        if self.text.startswith("∂", self.place):
            return self.pulled("1", self.local())
        if number := NUMBER.match(self.rest()):
            self.place += len(number[0])
            mantissa, _, power = number[0].partition(" · 10")
            return float(f"{mantissa}e{power.translate(SUPERSCRIPTS) or 0}")
        match sign := self.letter():
            case "(":
                return self.of(self.inside())
            case "∞":
                return np.inf
            case "√":
                return np.sqrt(self.atom())
            case "𝟏":
                return np.ones(shape_of(self.below()))
            case "𝐈":
                return np.eye(*shape_of(self.below()))
            case "⟨":
                return np.sum(np.multiply(*map(self.of, split_by(self.inside(), ", "))))
            case "‖" | "|":
                end = self.text.index(sign, self.place)
                inner = self.of(self.text[self.place : end])
                self.place = end + 1
                if sign == "|":
                    return np.abs(inner)
                is_norm = self.take("²_F" if np.ndim(inner) > 1 else "²")
                if not is_norm:
                    raise Unreadable(self.text)
                return np.sum(inner * inner)
            case "[":
                return self.bracketed(self.inside())
            case "{":
                return self.cases([*split_by(self.inside(), "; ")])
        raise Unreadable(self.text[self.place - 1 :])

    def bracketed(self, text: str) -> Any:
        """1 where a condition holds; arrays one after another; numbers."""
        parts = [*split_by(text, ", ")]
        if len(parts) == 1 and re.search("[<>=≤≥≠¬]", text):
            return self.condition(text) * 1.0
        arrays = [self.of(one) for one in parts]
        axes, _ = axes_of(self.below(), 1)
        ndim = max(map(np.ndim, arrays))
        if not ndim:
            return np.array(arrays)
        arrays = [np.reshape(one, (1,) * ndim) if np.size(one) == 1 else one for one in arrays]
        return np.concatenate(arrays, axis=axes[0])

    def cases(self, rows: list[str]) -> Any:
        result = self.of(rows[-1].removesuffix(" otherwise"))
        for one in rows[-2::-1]:
            value, condition = split_by(one, " if ")
            result = np.where(self.condition(condition), self.of(value), result)
        return result

    def condition(self, text: str) -> Any:
        for word, both in ((" ∨ ", np.logical_or), (" ∧ ", np.logical_and)):
            if len(parts := [*split_by(text, word)]) > 1:
                return reduce(both, map(self.condition, parts))
        if text.startswith("¬ "):
            return np.logical_not(self.condition(text[3:].removeprefix("(").removesuffix(")")))
        for sign, compare in COMPARISONS.items():
            if len(parts := [*split_by(text, sign)]) == 2:
                return compare(*map(self.of, parts))
        return np.asarray(self.of(text), bool)

    def called(self, function: Callable[..., Any]) -> Any:
        below = self.below()
        mark = self.take("′", "″")
        if not self.take("("):
            raise Unreadable(self.rest())
        content = self.inside()
        if function is zeros:
            return self.placed(content, zeros(below))
        given = [self.of(one) for one in split_by(content, ", ")]
        if mark:
            (x,), h = given, STEP if mark == "′" else WIDE_STEP
            behind, here, ahead = (function(below, x + step) for step in (-h, 0, h))
            return (ahead - behind) / (2 * h) if mark == "′" else (ahead - 2 * here + behind) / h**2
        return function(below, *given)

    def placed(self, text: str, into: np.ndarray) -> np.ndarray:
        """Zeros, with an array added at some places."""
        array, places = split_by(text, " at ")
        index = tuple(map(self.index, split_by(places[1:-1], ", ")))
        np.add.at(into, index, self.of(array))
        return into

    def local(self) -> str:
        """The text of ∂f(x, y)/∂x, or ∂f(x, y)/∂(2 x)."""
        start = self.place
        self.place = self.text.index("(", start) + 1
        self.inside()
        if not self.take("/∂"):
            raise Unreadable(self.rest())
        if not self.take(*self.values):
            if not self.take("("):
                raise Unreadable(self.rest())
            self.inside()
        return self.text[start : self.place]

    def pulled(self, upstream: str, local: str) -> Any:
        """The sum of upstream times the derivative of a function by what its text says.

        By a symbol: wherever the symbol stands.  By an expression: by the arguments that read so.
        """
        found = re.fullmatch(r"∂(.*)\)/∂(.*)", local)
        if found is None:
            raise Unreadable(local)
        call, variable = found[1] + ")", found[2]
        if variable not in self.values:
            if call.count(variable) != 1:
                raise Unreadable(local)
            value = self.of(variable)
            values = {**self.values, "ξ": value}
            call, variable = call.replace(variable, "(ξ)" if "(" in variable else "ξ"), "ξ"
        else:
            values = dict(self.values)
        weights, x = self.of(upstream), np.asarray(values[variable], np.float64)
        total = np.zeros(x.shape)
        for place in np.ndindex(x.shape):
            ahead, behind = x.copy(), x.copy()
            ahead[place] += STEP
            behind[place] -= STEP
            difference = read(call, {**values, variable: ahead})
            difference = difference - read(call, {**values, variable: behind})
            total[place] = np.sum(weights * difference) / (2 * STEP)
        return total


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    " > ": np.greater,
    " < ": np.less,
    " ≥ ": np.greater_equal,
    " ≤ ": np.less_equal,
    " ≠ ": np.not_equal,
    " = ": np.equal,
}


def _product(x: Any, y: Any) -> Any:
    """What stands side by side."""
    if np.ndim(x) == 0 or np.ndim(y) == 0:
        return x * y
    if np.size(x) == 1 and np.shape(y)[-2:][0] != 1:  # a number with axes of length 1
        return np.reshape(x, ()) * y
    if isinstance(y, Row) and np.ndim(x) == 1:
        return np.outer(x, y)
    return np.matmul(x, y)
