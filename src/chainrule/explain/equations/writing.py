"""Writes equations as text, LaTeX and Markdown, with headings, and into files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from chainrule.errors import InputError
from chainrule.explain.equations import parts
from chainrule.explain.equations.parts import Bound, Part, Row, Symbol, separated
from chainrule.explain.reading.statements import Direction, Pass
from chainrule.explain.writing import write_beside
from chainrule.graph.cached import cached_property

NOTHING = Row(())
IN = Symbol(r" \in ", " ∈ ")
HEAD = (
    r"\documentclass{article}",
    r"\usepackage{amsmath,amssymb}",
    r"\allowdisplaybreaks",
    r"\begin{document}",
)
TIMES = {2: "second", 3: "third"}


class Line:
    """One equation, `left = side = side ∈ kind`, set and written when it is asked for.

    `tail` follows it: `, t = 1, …, n`.
    """

    def __init__(
        self,
        composed: Callable[[], tuple[Bound, list[Bound], Part | None]],
        tail: Part = NOTHING,
    ) -> None:
        self._composed, self._tail = composed, tail

    @cached_property
    def composed(self) -> tuple[Bound, list[Bound], Part | None]:
        """The left side, the right sides, and the set that the value is in."""
        return self._composed()

    @property
    def tail_text(self) -> str:
        """What follows, as text."""
        return parts.text(self._tail)

    def changed(
        self, change: Callable[[Part], Part | None], tail: Part | None, *, keeps_kind: bool
    ) -> Line:
        """The line with other pieces (see `replaced`), and with more behind it."""

        left, sides, kind = self.composed
        several = [Bound(parts.replaced(one, change)) for one in (left, *sides)]
        new = several[0], several[1:], kind if keeps_kind else None
        return Line(lambda: new, self._tail if tail is None else Row((self._tail, tail)))

    @cached_property
    def _parts(self) -> tuple[Part, Part]:
        left, sides, kind = self.composed
        right: list[Part] = [part for side in sides for part in (parts.EQUALS, side)]
        if kind is not None:
            right += [IN, kind]
        return left, Row((*right, self._tail))

    @cached_property
    def text(self) -> str:
        """For terminals."""
        left, right = self._parts
        return parts.text(left) + parts.text(right)

    @cached_property
    def _latex(self) -> tuple[str, str]:
        left, right = self._parts
        return parts.latex(left), parts.latex(right)

    @property
    def latex(self) -> str:
        """For TeX's mathematics, on one line."""
        return "".join(self._latex).strip()

    @property
    def aligned(self) -> str:
        """As `latex`, with & before the first sign."""
        return " &".join(self._latex)


Sections = list[tuple[Pass, list[tuple[int, Line]]]]


def title(one: Pass) -> str:
    """The heading of a pass."""
    match one.direction:
        case Direction.FORWARD:
            return "Forward"
        case Direction.BACKWARD if one.order > 1:
            return f"Backward, for the {TIMES.get(one.order, f'{one.order}th')} time"
        case Direction.BACKWARD:
            return "Backward"
        case Direction.TANGENT:
            return "Tangents"
        case Direction.UPDATE:
            return "Update"


def text_of(
    nothing: str, given: Iterable[Line], remarks: Iterable[Part], sections: Sections
) -> str:
    """For terminals: one equation a line, numbers in front, without trailing newline."""
    blocks = [nothing] if nothing else []
    inputs = ", ".join(line.text for line in given)
    if inputs:
        blocks.append(f"Given {inputs}")
    blocks += [said] if (said := ", ".join(map(parts.text, remarks))) else []
    width = max((len(f"({n})") for _, lines in sections for n, _ in lines), default=0)
    for during, lines in sections:
        shown = [
            f"{f'({n})' if n else '':>{width}}  {'' if n else 'where '}{e.text}" for n, e in lines
        ]
        blocks.append("\n".join([title(during), *shown]))
    return "\n\n".join(blocks)


def latex_of(
    nothing: str, given: Iterable[Line], remarks: Iterable[Part], sections: Sections
) -> str:
    """One `align*` environment; numbers are tags."""
    rows: list[str] = []
    inputs = [Symbol(line.latex, "") for line in given]
    if inputs:
        rows.append(rf"&\text{{Given }} {parts.latex(separated([*inputs]))}")
    said = [Symbol(parts.latex(one), "") for one in remarks]
    rows += [f"&{parts.latex(separated([*said]))}"] if said else []
    for during, lines in sections:
        rows.append(rf"&\textbf{{{title(during)}}}")
        rows += [
            e.aligned + rf" \tag{{{n}}}" if n else rf"\text{{where }} {e.aligned}" for n, e in lines
        ]
    body = " \\\\\n".join(rows) if rows else rf"\text{{{_plain(nothing)}}}"
    return f"\\begin{{align*}}\n{body}\n\\end{{align*}}"


def _plain(sentence: str) -> str:
    """A sentence inside \\text: without what LaTeX would read as a command."""
    return "".join(one if one.isalnum() or one in " .,()" else "?" for one in sentence)


def markdown_of(
    nothing: str, given: Iterable[Line], remarks: Iterable[Part], sections: Sections
) -> str:
    """Headings and displayed mathematics."""
    blocks = [nothing] if nothing else []
    inputs = ", ".join(f"${line.latex}$" for line in given)
    if inputs:
        blocks.append(f"Given {inputs}.")
    said = ", ".join(f"${parts.latex(one)}$" for one in remarks)
    blocks += [f"{said}."] if said else []
    for during, lines in sections:
        blocks.append(f"**{title(during)}**")
        for number, line in lines:
            where = "" if number else r"\text{where } "
            tag = rf" \tag{{{number}}}" if number else ""
            blocks.append(f"$$\n{where}{line.latex}{tag}\n$$")
    return "\n\n".join(blocks)


def save(
    path: str | os.PathLike[str],
    latex: Callable[[], str],
    markdown: Callable[[], str],
    text: Callable[[], str],
) -> None:
    """Write what the suffix says, beside the file and then renamed, so that none is half there."""
    try:
        target = Path(path)
    except TypeError as error:
        raise InputError(
            f"{path!r} is no path of a file", hint="a path such as equations.tex"
        ) from error
    writers: dict[str, Callable[[], str]] = {
        ".tex": lambda: "\n".join([*HEAD, latex(), r"\end{document}"]),
        ".md": markdown,
        ".txt": text,
    }
    writer = writers.get(target.suffix.lower())
    if writer is None:
        raise InputError(
            f"equations are not written as {target.suffix or 'a file without suffix'}: {target}",
            hint="equations.tex, equations.md or equations.txt",
        )
    content = (writer() + "\n").encode("utf-8", "replace")
    write_beside(target, content)
