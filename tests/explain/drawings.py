"""Drawings read back from their SVG: boxes, arrows and words, by an XML parser."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import chainrule as cr
from chainrule import float32, int64

SVG = "{http://www.w3.org/2000/svg}"


def objective(
    x: float32["n 784"],
    y: int64["n"],
    W1: float32["784 256"],
    W2: float32["256 10"],
    weight_decay=1e-3,
):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def mlp() -> cr.Graph:
    """The forward pass of the README."""
    return cr.trace(objective)


def mlp_with_gradients() -> cr.Graph:
    """Forward and backward pass of the README."""
    return cr.backward(mlp(), wrt=("W1", "W2"))


def chain(length: int) -> cr.Graph:
    """A program of `length` statements, in which five repeat."""
    lines = [f"v{i + 1} = np.{'tanh sin exp cos tanh'.split()[i % 5]}(v{i})" for i in range(length)]
    return traced("v0", [*lines, f"J = np.sum(v{length})"])


def irregular(length: int) -> cr.Graph:
    """A program of `length` statements in which nothing repeats (the digits of pi say what)."""
    lines, state = [], 31415926
    for i in range(length):
        state = (state * 1103515245 + 12345) % 2**31
        first, second = (max(0, i - (state >> shift) % 6) for shift in (8, 16))
        form = ("np.tanh(v{0})", "v{0} + v{1}", "v{0} * v{1}", "np.exp(v{0}) - v{1}")
        lines.append(f"v{i + 1} = " + form[(state >> 24) % 4].format(first, second))
    return traced("v0", [*lines, f"J = np.sum(v{length})"])


def traced(parameter: str, lines: list[str]) -> cr.Graph:
    """The graph of a function with these lines, which returns J; its parameter has 4 elements."""
    source = f"def program({parameter}):\n    " + "\n    ".join(lines) + "\n    return J\n"
    scope: dict = {"np": np, "cr": cr}
    exec(source, scope)
    return cr.trace(scope["program"], **{parameter: np.zeros(4)})


@dataclass(frozen=True)
class Box:
    """One drawn box: the class that gives it its colours, its words, its tooltip, its place."""

    role: str
    text: str
    tip: str
    left: float
    top: float
    right: float
    bottom: float
    round: bool

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def overlaps(self, other: Box) -> bool:
        """Whether the two have a common inside."""
        return (
            min(self.right, other.right) - max(self.left, other.left) > 0.2
            and min(self.bottom, other.bottom) - max(self.top, other.top) > 0.2
        )

    def distance(self, point: tuple[float, float]) -> float:
        """How far outside of the box a point is; 0 inside and on the border."""
        across = max(self.left - point[0], point[0] - self.right, 0.0)
        along = max(self.top - point[1], point[1] - self.bottom, 0.0)
        return math.hypot(across, along)

    def is_crossed(self, start: tuple[float, float], end: tuple[float, float]) -> bool:
        """Whether a piece of a line has a point well inside of the box."""
        pieces = max(2, int(math.dist(start, end)))
        for step in range(pieces + 1):
            x = start[0] + (end[0] - start[0]) * step / pieces
            y = start[1] + (end[1] - start[1]) * step / pieces
            inside = self.left + 1 < x < self.right - 1 and self.top + 1 < y < self.bottom - 1
            if inside and not self.round:
                return True
            if inside and math.dist((x, y), self.middle) < (self.bottom - self.top) / 2 - 2:
                return True
        return False


@dataclass(frozen=True)
class Line:
    """One arrow, through points."""

    classes: tuple[str, ...]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Picture:
    """What an SVG shows; `words` are the notes, `names` those of functions below their circles,
    with the room that they take, about."""

    title: str
    description: str
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    words: tuple[Box, ...]
    names: tuple[Box, ...]
    width: float
    height: float

    @property
    def notes(self) -> tuple[str, ...]:
        """What is said about the bands."""
        return tuple(note.text for note in self.words)

    def of(self, *roles: str) -> list[Box]:
        """The boxes of some roles."""
        return [box for box in self.boxes if box.role in roles]

    def named(self, text: str, *roles: str) -> Box:
        """The only box with these words."""
        (found,) = [box for box in self.of(*roles) if box.text == text]
        return found

    def arrows(self, name: str) -> list[tuple[Box, Box]]:
        """The boxes that lines of one kind join, each the nearest to an end."""
        found = []
        for line in self.lines:
            if f"{name}-line" in line.classes:
                ends = [
                    min(self.boxes, key=lambda box: box.distance(point))
                    for point in (line.points[0], line.points[-1])
                ]
                found.append((ends[0], ends[1]))
        return found

    def overlaps(self) -> list[tuple[Box, Box]]:
        """All pairs of boxes that lie on each other."""
        boxes = (*self.boxes, *self.names)
        return [(a, b) for i, a in enumerate(boxes) for b in boxes[i + 1 :] if a.overlaps(b)]

    def crossings(self) -> list[tuple[Line, Box]]:
        """Lines that go through a box."""
        return [
            (line, box)
            for line in self.lines
            for box in (*self.boxes, *self.names)
            if any(box.is_crossed(start, end) for start, end in pairwise(line.points))
        ]


def picture(svg: str) -> Picture:
    """An SVG, read."""
    root = ElementTree.fromstring(svg)
    boxes, lines, notes, names = [], [], [], []
    for element in root.iter():
        match element.tag.removeprefix(SVG):
            case "g" if element.get("class"):
                boxes.append(_box(element))
                names += _names(element) if boxes[-1].round else []
            case "path" if "line" in (classes := (element.get("class") or "").split()):
                numbers = [float(n) for n in re.findall(r"-?[\d.]+", element.get("d") or "")]
                points = tuple(zip(numbers[::2], numbers[1::2], strict=True))
                lines.append(Line(tuple(classes), points))
            case "text" if element.get("class") == "note":
                notes.append(_note(element))
    title, description = (root.find(SVG + tag) for tag in ("title", "desc"))
    assert title is not None and description is not None
    return Picture(
        title.text or "",
        description.text or "",
        tuple(boxes),
        tuple(lines),
        tuple(notes),
        tuple(names),
        float(root.get("width") or 0),
        float(root.get("height") or 0),
    )


def _note(element: ElementTree.Element) -> Box:
    text, x, y = "".join(element.itertext()), element.get("x"), element.get("y")
    left, line = float(x or 0), float(y or 0)
    return Box("note", text, "", left, line - 10, left + 6.2 * len(text), line + 3, False)


def _names(element: ElementTree.Element) -> Iterator[Box]:
    for one in element:
        if one.get("class") == "small":
            x, y = float(one.get("x") or 0), float(one.get("y") or 0)
            half = 3.1 * len(one.text or "")
            yield Box("name", one.text or "", "", x - half, y - 9, x + half, y + 3, False)


def _box(element: ElementTree.Element) -> Box:
    rectangles = [one for one in element if one.tag == SVG + "rect"]
    sides = [[float(one.get(k) or 0) for k in ("x", "y", "width", "height")] for one in rectangles]
    words = [one for one in element if one.tag == SVG + "text"]
    is_round = float(rectangles[0].get("rx") or 0) > 20
    unseen = ("number", "small") if is_round else ("number",)
    shown = ["".join(w.itertext()) for w in words if not (w.get("class") or "").startswith(unseen)]
    tip = element.find(SVG + "title")
    return Box(
        element.get("class") or "",
        "/".join(shown),
        (tip.text if tip is not None else "") or "",
        min(x for x, _, _, _ in sides),
        min(y for _, y, _, _ in sides),
        max(x + width for x, _, width, _ in sides),
        max(y + height for _, y, _, height in sides),
        is_round,
    )
