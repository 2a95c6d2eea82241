"""Writes names with an index, as in a recurrence: h_t, h_{t−1}, h₀; chooses index letters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from chainrule.dataclass import dataclass, replace
from chainrule.explain.equations.parts import (
    Bound,
    Fence,
    Part,
    Script,
    Symbol,
    row,
    separated,
    text,
)
from chainrule.explain.equations.values import Shapes
from chainrule.explain.reading.symbols import SUPERSCRIPTS, Notation, parted
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size

LETTERS = "tsijklmqruvw"
COUNTS = "TNKM"  # how often a while loop is done
BETWEEN = Symbol(",", ",")
DOTS = Symbol(r", \ldots, ", ", …, ")
PLUS_ONE, MINUS_ONE = Symbol("+1", "+1"), Symbol("-1", "−1")


def whole(symbol: Part, name: str) -> Part:
    """A name that can take an index: (∂J/∂h)_t, and in text also (h₁)_t."""
    if parted(name) is not None:
        return Fence(symbol)
    return Fence(symbol, only_text=True) if text(symbol)[-1:] in "₀₁₂₃₄₅₆₇₈₉" else symbol


@dataclass(frozen=True)
class Indexed:
    """A name that takes an index: below it are the indices that it has anyway."""

    base: Part
    above: Part | None = None
    below: tuple[Part, ...] = ()

    def at(self, *index: Part) -> Bound:
        """The name with one more index, or with none."""
        several = [*self.below, *index]
        if not several and self.above is None:
            return Bound(self.base)
        below = separated(several, BETWEEN) if several else None
        return Bound(Script(self.base, below, self.above))


@dataclass(frozen=True)
class Iterations:
    """The iterations of one loop: `letter` counts them from 1 to `length`, perhaps backward."""

    letter: str
    length: int | Size | str
    reverse: bool
    shapes: Shapes
    is_endless: bool = False

    def now(self, offset: int = 0) -> Part:
        """t, t − 1 or t + 1."""
        letter = Symbol(self.letter, self.letter)
        return row(letter, *((PLUS_ONE,) if offset > 0 else (MINUS_ONE,) if offset else ()))

    def last(self, offset: int = 0) -> Part:
        """n, n − 1 or n + 1."""
        if isinstance(self.length, str):
            return Symbol(self.length, self.length)
        return self.shapes.size(self.length + offset)

    def end(self, offset: int, *, is_begin: bool) -> Part:
        """The index, of what is `offset` from the iteration, at the first or at the last one."""
        if is_begin is self.reverse:
            return self.last(offset)
        return Symbol(str(1 + offset), str(1 + offset))

    def rows(self, value: Indexed, offset: int) -> list[Part]:
        """The values of all iterations, in the order of their rows: o₁, …, oₙ."""
        first = value.at(Symbol(str(1 + offset), str(1 + offset)))
        return self.several(first, value.at(self.last(offset)))

    def several(self, first: Part, last: Part) -> list[Part]:
        """What there is one of for each iteration, by the first one and the last one."""
        if self.length == 1:
            return [first]
        return [first, last] if self.length == 2 else [first, Symbol(r"\ldots ", "…"), last]

    def without_end(self) -> Iterations:
        """The same iterations, counted from 0, as often as one likes."""
        return replace(self, is_endless=True)

    @property
    def range(self) -> Part:
        """t = 1, …, n; t = n, …, 1; without an end, t ≥ 0"""
        if self.is_endless:
            return row(self.now(), Symbol(r" \geq 0", " ≥ 0"))
        ends = [Symbol("1", "1"), self.last()]
        ends = ends[::-1] if self.reverse else ends
        if self.length == 1:
            return row(self.now(), Symbol(" = ", " = "), ends[0])
        between = Symbol(", ", ", ") if self.length == 2 else DOTS
        return row(self.now(), Symbol(" = ", " = "), ends[0], between, ends[1])


class Alphabet:
    """Names and letters that stand for nothing else in the equations of a graph."""

    def __init__(self, notation: Notation, names: Mapping[str, Node], others: set[str]) -> None:
        self.notation = notation
        self.owners: dict[str, set[Node]] = {}
        for name, node in names.items():
            self.owners.setdefault(notation.text(name), set()).add(node)
        self.others = others
        self.used: set[str] = set()
        self.counts = 0

    def letter(self, depth: int) -> str:
        """The letter of an index, in the `depth`-th loop around a value."""
        taken = {*self.owners, *self.others}
        free = [one for one in LETTERS if one not in taken]
        return free[depth] if depth < len(free) else f"t{'′' * (depth + 1)}"

    def count(self) -> str:
        """The letter for how often a while loop is done."""
        taken = {*self.owners, *self.others, *self.used}
        found = next(_free(COUNTS, taken))
        self.used.add(found)
        return found

    def indexed(
        self,
        wish: str,
        node: Node,
        own: Collection[Node] = (),
        first: Collection[Node] = (),
        below: tuple[Part, ...] = (),
    ) -> Indexed:
        """The name `wish`, or with a number above it where that is the name of something else.

        It may be that of `own` values of the graph, and with the index 0 that of `first` ones.
        """
        notation = self._bold(wish, node)
        plain, number = notation.text(wish), 1
        while not self._is_free(plain + _above(number), own, first):
            number += 1
        self.used.add(plain + _above(number))
        above = Symbol(f"({number})", f"({number})") if number > 1 else None
        return Indexed(whole(Symbol(notation.latex(wish), plain), wish), above, below)

    def _bold(self, name: str, node: Node) -> Notation:
        arrays = self.notation.arrays - {name} | ({name} if node.ndim else set())
        old = self.notation
        return Notation(old.indices, old.symbols, arrays, {}, old.literal - {name})

    def _is_free(self, shown: str, own: Collection[Node], first: Collection[Node]) -> bool:
        if shown in self.used:
            return False
        allowed = (("", own), ("₀", first), ("₁", ()), ("_t", ()), ("_n", ()))
        return all(
            not self.owners.get(shown + ending, set()).difference(some) for ending, some in allowed
        )


def _above(number: int) -> str:
    return f"⁽{str(number).translate(SUPERSCRIPTS)}⁾" if number > 1 else ""


def _free(letters: str, taken: Collection[str]) -> Iterator[str]:
    yield from (one for one in letters if one not in taken)
    number = 1
    while True:
        number += 1
        found = f"{letters[0]}{str(number).translate(str.maketrans('0123456789', '₀₁₂₃₄₅₆₇₈₉'))}"
        if found not in taken:
            yield found
