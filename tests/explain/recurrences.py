"""Recurrences as they are printed, computed step by step: `h_t = tanh(z_t), t = 1, …, n`.

Nothing here sees how an equation was made.  All values but those that are given come from the text
alone: a value with an index is one more name, h₄ for h_{t−1} in the fifth step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from equation_functions import SUBSCRIPTS
from equation_text import Unreadable, read, sides, split_by

from chainrule.explain.equations import Equations
from chainrule.explain.reading.symbols import notation_of
from chainrule.graph.graph import Graph

LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
RANGE = re.compile(r", (?P<letter>\w) (?:= (?P<ends>[^=]*?)|≥ 0)(?=, \w [=≥]|$)")
INDEX = re.compile(r"_(?:\{(?P<several>[^{}]*)\}|(?P<one>[A-Za-z])(?![A-Za-z0-9_{]))")
NAMED = re.compile(r"[\w.⁽⁾⁰¹²³⁴⁵⁶⁷⁸⁹′]*$")
OVER = re.compile(r"∑_\{(?P<letter>\w) = (?P<ends>[^{}]*)\} ")
STEPS_AT_MOST = 1000

Line = tuple[list[tuple[str, str]], str, tuple | None]  # letters with ends; the text; the shape


class Solving:
    """`values` by their text, `numbers` by letter: sizes, indices, and how often a loop is done."""

    def __init__(self, values: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        self.values, self.numbers = dict(values), dict(sizes)
        self.zeros: dict[str, str] = {}  # x₀, where it is called x
        self.conditions: dict[str, str] = {}  # by the letter for how often a loop is done
        self.series: set[tuple[str, int]] = set()  # what has so many indices on the left

    def solve(self, lines: list[Line]) -> None:
        """Compute what all lines define, in an order in which this can be done."""
        pending = _grouped(lines)
        while pending:
            left = [group for group in pending if not self._done(group)]
            if len(left) == len(pending):
                raise Unreadable(f"none of these can be computed: {left}")
            pending = left

    def _done(self, group: list[Line]) -> bool:
        try:
            if group[0][0]:
                self._loop(group)
            else:
                self._define(*group[0][1:])
        except Unreadable:
            return False
        return True

    def _define(self, text: str, shape: tuple) -> None:
        left, *right = sides(text)
        shown = [self.said(side) for side in right if "prod(" not in side]
        value = self._read(shown[-1])
        if shape is not None:
            sizes = tuple(self._number(str(one).replace("-", "−")) for one in shape)
            value = np.broadcast_to(value, sizes)
        self.values[self.said(left, is_new=True)] = value

    def _loop(self, group: list[Line]) -> None:
        """All steps of the lines of one loop."""
        letter, ends = group[0][0][0]
        inner = [(ranges[1:], text, shape) for ranges, text, shape in group]
        *_, last = ends.split(", ")
        if last.isalpha() and last not in self.numbers:
            self.numbers[last] = self._until(letter, inner, self.conditions[last])
            return
        for step in self._steps(ends):
            self.numbers[letter] = step
            self.solve(inner)
        del self.numbers[letter]

    def _until(self, letter: str, inner: list[Line], condition: str) -> int:
        for step in range(STEPS_AT_MOST):
            self.numbers[letter] = step
            if step:
                self.solve(inner)
            if not self._read(self.said(condition)):
                return step
        raise Unreadable(f"{condition} has no end")

    def _steps(self, ends: str) -> list[int]:
        """The numbers that `1, …, n` or `n, …, 1` stands for."""
        first, *_, last = [self._number(one) for one in ends.split(", ") if one != "…"] * 2
        last = self._number(ends.split(", ")[-1])
        return [*range(first, last + 1)] if first <= last else [*range(first, last - 1, -1)]

    def _number(self, text: str) -> int:
        parts = re.split(r" ?([+−]) ?", text.translate(SUBSCRIPTS))
        total, sign = 0, 1
        for part in parts:
            if part in "+−":
                sign = 1 if part == "+" else -1
            elif part.isdigit() or part in self.numbers:
                total += sign * (int(part) if part.isdigit() else self.numbers[part])
            else:
                raise Unreadable(text)
        return total

    def said(self, text: str, *, is_new: bool = False) -> str:
        """A text with numbers for all indices, and names for rows and for what is stacked.

        Where it `is_new`, it is a name that gets a value.
        """
        text, place = self._added(text), 0
        while found := INDEX.search(text, place):
            try:
                numbers = [self._number(one) for one in (found[1] or found[2]).split(",")]
            except Unreadable:
                place = found.end()
                continue
            base = _base(text[: found.start()])
            key = base + ",".join(str(one).translate(LOWERED) for one in numbers)
            if not is_new:
                self._row(base, numbers, key)
            start = found.start() - len(base)
            text, place = text[:start] + key + text[found.end() :], start + len(key)
        for letter, value in self.numbers.items():  # an index as a number: h_{t−1} t
            text = re.sub(rf"(?<![\w.]){letter}(?![\w.(\[₀-₉])", str(value), text)
        for zero, name in self.zeros.items():
            text = re.sub(rf"(?<![\w.]){zero}(?!,?[₀-₉])", name, text)
        return self._stacked(text)

    def _added(self, text: str) -> str:
        """The terms of ∑_{t = 1, …, 5} one after another."""
        while found := OVER.search(text):
            inside = _until_closed(text[found.end() :])
            inside = re.split(r"; | if | otherwise", inside)[0]
            body = next(split_by(next(split_by(next(split_by(inside, ", ")), " + ")), " − "))
            letter, before = found["letter"], self.numbers.get(found["letter"])
            terms = []
            for step in self._steps(found["ends"]):
                self.numbers[letter] = step
                terms.append(f"({self.said(body)})")
            self.numbers.pop(letter)
            if before is not None:
                self.numbers[letter] = before
            end = found.end() + len(body)
            text = f"{text[: found.start()]}({' + '.join(terms)}){text[end:]}"
        return text

    def _read(self, text: str) -> Any:
        """The value of a text; Unreadable also where a gradient in it is not known yet."""
        try:
            with np.errstate(all="ignore"):  # also of a case that is not the one
                return read(text, self.values)
        except ValueError as error:
            raise Unreadable(text) from error

    def _row(self, base: str, numbers: list[int], key: str) -> None:
        """x₅ as the fifth row of x, (2 x)₅ as that of an expression."""
        if key in self.values or (base, len(numbers)) in self.series:
            return
        *before, last = numbers
        whole = base + ",".join(str(one).translate(LOWERED) for one in before)
        inside = whole.removeprefix("(").removesuffix(")") if whole.startswith("(") else whole
        for name in (whole, inside):
            if name in self.values and np.ndim(self.values[name]):
                self.values[key] = self.values[name][last - 1]
                return
        if base.endswith((")", "]")):
            self.values[key] = self._read(self.said(base))[last - 1]

    def _stacked(self, text: str) -> str:
        """[o₁, …, o₉] becomes the name of an array."""
        for found in re.finditer(", …, ", text):
            start = _opening(text[: found.start()])
            end = found.end() + len(_until_closed(text[found.end() :]))
            if start < 0 or text[start] != "[":
                continue
            first, last = text[start + 1 : found.start()], text[found.end() : end]
            rows = [self._value(one) for one in _between(first, last)]
            self.values[text[start : end + 1]] = np.stack(rows)
        return text

    def _value(self, name: str) -> Any:
        if name not in self.values:
            raise Unreadable(name)
        return self.values[name]


def _grouped(lines: list[Line]) -> list[list[Line]]:
    """Lines without a range one by one; those that follow each other with the same one together."""
    groups: list[list[Line]] = []
    for line in lines:
        if groups and line[0] and groups[-1][0][0][:1] == line[0][:1]:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _base(text: str) -> str:
    """What an index behind a text belongs to: a name, a call, something in brackets."""
    start, before = len(text), -1
    while start != before:
        before = start
        if start and text[start - 1] in ")]}":
            start = _opening(text[: start - 1])
        named = NAMED.search(text[:start])
        assert named is not None
        start -= len(named[0])
    return text[start:]


def _opening(text: str) -> int:
    """Where the bracket is that is open at the end of a text."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] in ")]}") - (text[place] in "([{")
        if depth < 0:
            return place
    return -1


def _until_closed(text: str) -> str:
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return text[:place]
    return text


def _between(first: str, last: str) -> list[str]:
    """h₁ and h₉: h₁, h₂, ..., h₉"""
    begin = re.search("[₀-₉]+$", first)
    end = re.search("[₀-₉]+$", last)
    if begin is None or end is None:
        raise Unreadable(first)
    numbers = range(int(begin[0].translate(SUBSCRIPTS)), int(end[0].translate(SUBSCRIPTS)) + 1)
    return [first[: begin.start()] + str(one).translate(LOWERED) for one in numbers]


def solved(graph: Graph, equations: Equations, given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every named value that is computed, from the text of the equations alone.

    `equations` are without shapes; `given` are the inputs, and the sizes of the graph.
    """
    text = notation_of(graph).text
    inputs = {item.name for item in graph.inputs}
    constants = {n: node.param("value").array for n, node in graph.names.items()
                 if node.primitive.name == "constant"}  # fmt: skip
    values = {text(name): np.asarray(value) for name, value in {**given, **constants}.items()
              if name in inputs or name in constants}  # fmt: skip
    solving = Solving(values, {name: given[name] for name in graph.sizes if name in given})
    lines: list[Line] = []
    for one in equations:
        if found := re.fullmatch(r"(\w) = min\{\w ≥ 0 : ¬\((.*)\)\}(?: ≤ \d+)?", str(one)):
            solving.conditions[found[1]] = found[2]
            continue
        ranges = [(each["letter"], each["ends"] or "") for each in RANGE.finditer(str(one))]
        plain = RANGE.split(str(one))[0] if ranges else str(one)
        lines.append((ranges, plain, one.node.shape))
        left = sides(plain)[0]
        if ranges and (index := INDEX.search(left)):
            count = len((index[1] or index[2]).split(","))
            solving.series.add((left[: index.start()], count))
    solving.solve(lines)
    named = [one for one in equations if one.number]
    return {one.name: solving.values[sides(str(one))[0]] for one in named}


def solved_as_printed(graph: Graph, printed: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every named value, from the whole text: equal blocks stand there once.

    `printed` has shapes, of a graph without named sizes.
    """
    notation = notation_of(graph).text
    head, _, body = printed.partition("\n\nForward\n")
    inputs = {item.name: given[item.name] for item in graph.inputs}
    constants = {n: node.param("value").array for n, node in graph.names.items()
                 if node.primitive.name == "constant"}  # fmt: skip
    given = {**inputs, **constants}
    solving = Solving({_lowered(notation(key)): np.asarray(one) for key, one in given.items()}, {})
    solving.zeros = dict(re.findall(r"(\w+₀) = (\w+)", head.partition("\n\n")[2]))
    owners = {item.node: item.name for item in graph.inputs}
    parameters = [owners[one.wrt] for one in graph.gradients if one.wrt in owners]
    lines: list[Line] = []
    for line in body.splitlines():
        if (found := re.match(r" *(?:\(\d+\)|where) +", line)) is None:
            continue  # a heading
        plain, *each = line[found.end() :].split(", for each of the ")
        if re.fullmatch(r"(\w) = min\{.*", plain):
            letter, condition = re.findall(r"(\w) = min\{\w ≥ 0 : ¬\((.*)\)\}", plain)[0]
            solving.conditions[letter] = condition
            continue
        ranges = [(one["letter"], one["ends"] or "") for one in RANGE.finditer(plain)]
        plain = RANGE.split(plain)[0]
        plain, _, kind = plain.partition(" ∈ ")
        plain = _lowered(plain)
        shape = _shape(kind)
        for owner in parameters if each else [""]:
            said = plain if not owner else _said_of(plain, owner, notation)
            lines.append((ranges, said, shape))
        left = sides(plain)[0]
        if ranges and (index := INDEX.search(left)) and index.end() == len(left):
            solving.series.add((left[: index.start()], len((index[1] or index[2]).split(","))))
    solving.solve(lines)
    found = {}
    for name in graph.names:
        value = solving.values.get(_lowered(notation(name)))
        if value is not None:
            found[name] = value
    return found


def _lowered(text: str) -> str:
    """k1_2 with its number lowered, as that of an index is."""
    return re.sub(r"(?<=\w)_(\d+)(?![\w}])", lambda one: one[1].translate(LOWERED), text)


def _shape(kind: str) -> tuple | None:
    if not kind:
        return None
    sizes = re.search(r"\^\{(.*)\}|[ℝℤℕ}]\^?([⁰¹²³⁴⁵⁶⁷⁸⁹\d]+)$", kind)
    if sizes is None:
        return ()
    raised = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
    return tuple(map(int, (sizes[1] or sizes[2]).translate(raised).split("×")))


def _said_of(line: str, owner: str, notation: Any) -> str:
    """A line about any parameter θ, of this one."""
    return re.sub(r"θ((?:_\w+)?)", lambda found: notation(owner + found[1]), line)
