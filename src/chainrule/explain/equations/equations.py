"""`equations`: numbers the equations of all named values; LaTeX, Markdown or text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from chainrule.dataclass import dataclass
from chainrule.errors import InputError, NameLookupError
from chainrule.explain.equations.alike import LETTERS, Folds, Numbered
from chainrule.explain.equations.bodies import Opened, Page
from chainrule.explain.equations.building import Builder, Entry
from chainrule.explain.equations.forms import FORMS
from chainrule.explain.equations.formula import Auxiliary, Formula, Held, Result, parts_of
from chainrule.explain.equations.functions import Functions
from chainrule.explain.equations.joining import fenced
from chainrule.explain.equations.local import with_local_derivatives
from chainrule.explain.equations.naming import Names
from chainrule.explain.equations.opening import opened, page_of
from chainrule.explain.equations.order import right_sides
from chainrule.explain.equations.parts import Bound, Part, Symbol
from chainrule.explain.equations.parts import latex as latex_text
from chainrule.explain.equations.setting import Setter
from chainrule.explain.equations.sides import Sides
from chainrule.explain.equations.spelling import spelling
from chainrule.explain.equations.templates import symbol_of
from chainrule.explain.equations.updates import Updates
from chainrule.explain.equations.values import Shapes
from chainrule.explain.equations.writing import Line, latex_of, markdown_of, save, text_of
from chainrule.explain.reading.statements import FORWARD, Direction, Pass
from chainrule.explain.reading.symbols import Indices, notation_of
from chainrule.graph.cached import cached_property
from chainrule.graph.collector import without_collector
from chainrule.graph.frozen import NotPickled
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Input
from chainrule.primitives.notation import ADDITIVE
from chainrule.tracebacks import entry

Phase = Literal["forward", "backward", "both"]


@dataclass(frozen=True, eq=False)
class Equation:
    """One equation: `name` is the value's name, `number` the one in brackets (0 for auxiliaries).

    An auxiliary equation defines a symbol that stands in the equation before it, perhaps for each
    iteration of a loop.  `formulas` are the right sides, each equal to the value (none where they
    are not made of one); `during` is the pass in which it is computed.
    """

    name: str
    number: int
    node: Node
    formulas: tuple[Formula, ...]
    during: Pass
    line: Line

    @without_collector
    def __str__(self) -> str:
        return self.line.text

    def latex(self) -> str:
        """The equation for TeX's mathematics, on one line and without its number."""
        return self.line.latex


class Equations(NotPickled):
    """The equations of a graph, in order; `equations["dJ/dW2"]` is one, by its name.

    `str` gives text for terminals, `latex` and `markdown` the same with mathematics.
    """

    _called = "a list of equations"
    _instead = "str(equations) is its text"

    def __init__(
        self,
        graph: Graph,
        all_: Iterable[Equation],
        given: Iterable[Line],
        signs: Iterable[Part] = (),
    ) -> None:
        self._graph, self._all, self._given = graph, tuple(all_), tuple(given)
        self._signs = tuple(signs)
        first = sorted(self._all, key=lambda one: one.number > 0)
        self._by_name = {one.name: one for one in first}

    def __iter__(self) -> Iterator[Equation]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Equation:
        """The equation of the value called `name`."""
        if not isinstance(name, str):
            raise InputError(
                f"equations are indexed by the name of a value, got {name!r}",
                hint="equations['J'], or list(equations) for all in order",
            )
        if name in self._by_name:
            return self._by_name[name]
        if name not in self._graph.names:
            raise self._graph.unknown_name(name)
        raise NameLookupError(
            f"there is no equation for {name!r} here",
            hint="inputs have no equation; equations of other values may have been "
            "left out by names= or phase=",
        )

    @without_collector
    def __str__(self) -> str:
        return text_of(self._nothing, *self._sections)

    @without_collector
    def latex(self) -> str:
        """One `align*` with all equations and their numbers, for TeX, MathJax or KaTeX."""
        return latex_of(self._nothing, *self._sections)

    @without_collector
    def markdown(self) -> str:
        """A list with mathematics between $$, for Markdown."""
        return markdown_of(self._nothing, *self._sections)

    @entry
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file: a LaTeX document (.tex), Markdown (.md) or text (.txt), by the suffix.

        InputError for another suffix and where the file cannot be written; then there is none.
        """
        save(path, self.latex, self.markdown, self.__str__)

    @without_collector
    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What notebooks show."""
        return {
            "text/latex": self.latex(),
            "text/markdown": self.markdown(),
            "text/plain": str(self),
        }

    @property
    def _nothing(self) -> str:
        if self._all:
            return ""
        given = {item.node for item in self._graph.inputs}
        if given.issuperset(self._graph.names.values()):
            return f"{self._graph.name} computes nothing that has a name."
        return f"{self._graph.name} computes nothing of what was asked for: inputs are given."

    @cached_property
    def _sections(self) -> tuple[list[Line], list[Part], list[tuple[Pass, list[Numbered]]]]:
        """What is given, what signs mean, the lines of each pass: equal blocks and updates once."""
        found: dict[Pass, list[Numbered]] = {}
        for one in self._all:
            found.setdefault(one.during, []).append((one.number, one.line))
        taken = {name[:1] for name in self._graph.names if not name[1:2].isalpha()}
        folds = Folds(next((one for one in LETTERS if one not in taken), "l"))
        updates = Updates(self._graph)
        inputs = updates.folded([(0, one) for one in self._given], given=True)
        given = [line for _, line in folds.folded(inputs, given=True)]
        sections = []
        for during, lines in found.items():
            if during.direction is Direction.UPDATE:
                lines = updates.folded(lines)
            sections.append((during, folds.folded(lines)))
        return given, [*self._signs, *folds.remarks], sections


@without_collector
def equations(
    graph: Graph,
    names: str | Iterable[str] | None = None,
    *,
    phase: Phase = "both",
    indices: Indices = "subscript",
    symbols: Mapping[str, str] | None = None,
    shapes: bool = True,
) -> Equations:
    """The equations of a graph: of every named value, or of those in `names`.

    `phase`: the forward pass, what comes after it ("backward"), or both.  `indices` writes W1 as
    W₁ ("subscript"), W⁽¹⁾ ("superscript") or W1 ("plain"); `symbols` replaces names by others:
    {"weight_decay": "λ"}.  With `shapes`, every equation ends in the set it lies in: ∈ ℝ^{n×h}.

    Unnamed values are written out inside formulas; where these would be long, or one is written
    repeatedly, an auxiliary symbol stands for it, and its equation follows; so do the recurrences
    of a loop (h_t, from h_{t−1}).  NameLookupError for an unknown name.
    """
    _check(graph, phase, indices)
    graph, local = with_local_derivatives(graph)
    chosen = _chosen_names(graph, names)
    notation = spelling(notation_of(graph, indices, symbols))
    written = {notation.text(name) for name in graph.names}
    known = Names(graph, local)
    functions = Functions(known.reading, written)
    builder = Builder(Sides(known, functions))
    setter = Setter(notation, Shapes(graph), _letter(written), FORMS)
    entries = builder.entries(right_sides(builder.sides))
    shown = _chosen(entries, chosen, phase)
    numbers = _numbers(entries)
    page: Page | None = None
    found: list[Equation] = []
    for one in entries:
        if isinstance(held := one.sides[0], Held):
            page = page_of(graph, setter, shapes) if page is None else page
            lines = opened(page, setter, held, ())  # also where they are not shown: others say them
            found += [_opened(each, one) for each in lines if one in shown]
        elif one in shown:
            found.append(_equation(setter, one, numbers[one], shapes))
    given = _given(setter, graph) if chosen is None and shapes else ()
    signs = _signs(functions) if chosen is None and shapes else ()
    return Equations(graph, found, given, signs)


def _check(graph: Any, phase: Any, indices: Any) -> None:
    """InputError for what is none of these."""
    if not isinstance(graph, Graph):
        raise InputError(
            f"equations are written of a graph, got {type(graph).__name__}",
            hint="trace the function first: cr.trace(objective).equations()",
        )
    for word, value, allowed in (("phase", phase, Phase), ("indices", indices, Indices)):
        if value not in get_args(allowed):
            choices = ", ".join(map(repr, get_args(allowed)))
            raise InputError(f"{word}={value!r} is not one of {choices}", hint=f"one of {choices}")


def _chosen_names(graph: Graph, names: Any) -> tuple[str, ...] | None:
    """The names that are asked for; None for all."""
    if names is None:
        return None
    example = repr(next(iter(graph.names), "J"))
    hint = f"names of values: names={example}, or several: names=[{example}]"
    if not isinstance(names, Iterable):
        raise InputError(f"names={names!r} is no name and no list of names", hint=hint)
    several = (names,) if isinstance(names, str) else tuple(names)
    for name in several:
        if not isinstance(name, str):
            raise InputError(f"names has {name!r} in it, which is no name", hint=hint)
        if name not in graph:
            raise graph.unknown_name(name)
    return several


def _letter(written: set[str]) -> str:
    """The letter of auxiliary symbols: one that no name begins with, followed by a number."""
    heads = {name[:1] for name in written if not name[1:2].isalpha()}
    return next((one for one in "acbeuvwtrqpkgfm" if one not in heads), "aux")


def _chosen(entries: list[Entry], names: tuple[str, ...] | None, phase: Phase) -> set[Entry]:
    """The entries that are asked for, and the auxiliary ones that these need."""
    if names is None and phase == "both":
        return set(entries)
    wanted = set(names or ())
    auxiliary = {(one.node, one.is_body): one for one in entries if not one.name}
    stack = [
        one
        for one in entries
        if one.name
        and (names is None or one.name in wanted)
        and (phase == "both" or (one.statement.during == FORWARD) is (phase == "forward"))
    ]
    found: set[Entry] = set()
    while stack:
        entry = stack.pop()
        if entry not in found:
            found.add(entry)
            stack.extend(auxiliary[key] for side in entry.sides for key in _cut(side))
    return found


def _cut(formula: Formula) -> Iterator[tuple[Node, bool]]:
    """The nodes for which an auxiliary symbol stands in a formula, or (True) whose body."""
    for one in parts_of(formula):
        if isinstance(one, Auxiliary):
            yield one.node, False
        if isinstance(one, Result) and one.holder is not None:
            yield one.holder, True
        if isinstance(one, Held):
            yield from ((node, True) for node in one.also)


def _numbers(entries: list[Entry]) -> dict[Entry, int]:
    named = [one for one in entries if one.name]
    found = {one: 0 for one in entries}
    return found | {one: place for place, one in enumerate(named, start=1)}


def _equation(setter: Setter, entry: Entry, number: int, shapes: bool) -> Equation:
    def composed() -> tuple[Bound, list[Bound], Part | None]:
        left = setter.auxiliary(entry.number) if entry.is_auxiliary else setter.name(entry.name)
        kind = setter.shapes.kind(entry.node.type) if shapes else None
        sides = [fenced(setter.set(one), ADDITIVE, ADDITIVE) for one in entry.sides]  # m = (x > y)
        return left, sides, kind

    name = entry.name or f"{setter.letter}{entry.number}"
    during = entry.statement.during
    return Equation(name, number, entry.node, entry.sides, during, Line(composed))


def _opened(one: Opened, entry: Entry) -> Equation:
    name = one.line.text.partition(" = ")[0]
    return Equation(name, 0, one.node, one.formulas, entry.statement.during, one.line)


def _signs(functions: Functions) -> Iterator[Part]:
    """`ℓ: cross-entropy`, for each sign of a composite that is no word."""
    said: dict[str, dict[str, str]] = {}
    for unit in functions.composites:
        is_word = re.search("[a-z]{3}", unit.symbol) or unit.symbol.lower() in unit.name
        if not is_word:
            words = unit.name.strip("_").replace("_", " ").replace("cross entropy", "cross-entropy")
            said.setdefault(unit.symbol, {})[words] = unit.latex
    for symbol, names in said.items():
        words = " or ".join(names)
        latex = latex_text(symbol_of(next(iter(names.values())), symbol))
        yield Symbol(rf"{latex}\text{{: {words}}}", f"{symbol}: {words}")


def _given(setter: Setter, graph: Graph) -> list[Line]:
    def line(item: Input) -> Line:
        return Line(lambda: (setter.name(item.name), [], setter.shapes.kind(item.type)))

    return [line(item) for item in graph.inputs]
