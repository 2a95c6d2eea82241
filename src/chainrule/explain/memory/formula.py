"""The peak as a formula in named sizes: the largest of several polynomials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from chainrule.dataclass import dataclass
from chainrule.errors import SizeError
from chainrule.explain.memory import polynomials
from chainrule.explain.memory.polynomials import Polynomial
from chainrule.graph.cached import cached_property
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.sizes import size_values


@dataclass(frozen=True)
class Formula(ShownByText):
    """Bytes as a function of named sizes, each an integer of at least 1.

    The instruction at which most bytes are live may be another one at other sizes: `peaks` are the
    bytes live at each that can be it, `values` what this formula counts there (of the peak itself,
    the same).  The formula's value is that of the first place whose peak is the largest.
    """

    names: tuple[str, ...]
    peaks: tuple[Polynomial, ...]
    values: tuple[Polynomial, ...]

    def at(self, **given: int) -> int:
        """The bytes at these sizes: `formula.at(n=256)`.  SizeError if one is missing or wrong."""
        self._check(given)
        for name in self.names:
            if name not in given:
                raise SizeError(
                    f"the formula has the sizes {', '.join(self.names)}, and {name} was not given",
                    hint=f"formula.at({', '.join(f'{one}=...' for one in self.names)})",
                )
        peaks = [size_values.evaluate(one, given) for one in self.peaks]
        found = size_values.evaluate(self.values[peaks.index(max(peaks))], given)
        assert isinstance(found, int)
        return found

    def bind(self, **given: int) -> Formula:
        """The formula with some sizes given: `formula.bind(d=784)` is one in the others."""
        self._check(given)
        names = tuple(name for name in self.names if name not in given)
        peaks = [size_values.evaluate(one, given) for one in self.peaks]
        return formula(names, peaks, [size_values.evaluate(one, given) for one in self.values])

    def _check(self, given: Mapping[str, int]) -> None:
        for name, value in given.items():
            if name not in self.names:
                raise SizeError(
                    f"the formula has no size called {name!r}",
                    hint=f"its sizes are: {', '.join(self.names) or 'none'}",
                )
            if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
                raise SizeError(f"the size {name} must be an integer of at least 1, got {value!r}")

    @cached_property
    def intervals(self) -> tuple[tuple[int, int | None, Polynomial], ...] | None:
        """With one size: from which size to which (None: without end) it is which polynomial.

        None with several sizes, and where a piece is no polynomial (`n//2`).
        """
        if not self.is_piecewise:
            return ((1, None, self.values[0]),)
        found = polynomials.intervals(self.peaks, self.names[0]) if len(self.names) == 1 else None
        if found is None:
            return None
        ends = [start - 1 for start, _ in found[1:]]
        return tuple(
            (start, end, self.values[place])
            for (start, place), end in zip(found, [*ends, None], strict=True)
        )

    @property
    def is_piecewise(self) -> bool:
        """Whether it is more than one polynomial."""
        return len(self.values) > 1

    @cached_property
    def pieces(self) -> tuple[Polynomial, tuple[Polynomial, ...]]:
        """What all peaks have in common, and what each has beside it."""
        shared, others = polynomials.common(self.peaks)
        return shared, tuple(others)

    @property
    def is_peak(self) -> bool:
        """Whether the formula is the largest of its pieces, and no part of it."""
        return self.values == self.peaks

    def __str__(self) -> str:
        if not self.is_piecewise:
            return self._text(self.values[0])
        if self.intervals is not None:
            return "; ".join(
                f"{self._text(value)} for {_range(self.names[0], first, last, '<=', '>=')}"
                for first, last, value in self.intervals
            )
        shared, others = self.pieces
        if self.is_peak:
            largest = f"max({', '.join(map(self._text, others))})"
            return largest if shared == 0 else f"{self._text(shared)} + {largest}"
        numbered = [f"({number}) {self._text(one)}" for number, one in enumerate(others, 1)]
        return f"{self.by_piece()}, by the largest of {', '.join(numbered)}"

    def by_piece(self) -> str:
        """A part with several sizes: `4 n h (1, 4); 8 n h (2, 3)`, by the number of the peak."""
        found = self._pieces_by_value().items()
        return "; ".join(f"{self._text(one)} ({', '.join(at)})" for one, at in found)

    def _pieces_by_value(self) -> dict[Polynomial, list[str]]:
        found: dict[Polynomial, list[str]] = {}
        for number, value in enumerate(self.values, 1):
            found.setdefault(value, []).append(str(number))
        return found

    def _text(self, one: Polynomial) -> str:
        return polynomials.text(one, self.names)

    @property
    def latex(self) -> str:
        """The formula for TeX's mathematics; a part of several sizes names the peak's case."""

        def write(one: Polynomial) -> str:
            return polynomials.latex(one, self.names)

        if not self.is_piecewise:
            return write(self.values[0])
        if self.intervals is not None:
            name = polynomials.symbol(self.names[0])
            at_most, at_least = r"\le", r"\ge"
            return _cases(
                f"{write(value)} & {_range(name, first, last, at_most, at_least)}"
                for first, last, value in self.intervals
            )
        if not self.is_peak:
            found = self._pieces_by_value().items()
            return _cases(rf"{write(one)} & \text{{({', '.join(at)})}}" for one, at in found)
        shared, others = self.pieces
        numbered = enumerate(others, 1)
        largest = r"\max " + _cases(rf"{write(x)} & \text{{({k})}}" for k, x in numbered)
        return largest if shared == 0 else f"{write(shared)} + {largest}"

    def python(self, name: str = "nbytes") -> str:
        """The source of a function called `name` of the sizes, which returns the bytes."""
        lines = [f"def {name}({', '.join(self.names)}):"]
        shared, others = self.pieces
        if not self.is_piecewise:
            lines.append(f"    return {self.values[0]}")
        elif self.is_peak:
            lines += [f"    return {shared} + max(", *_listed(others), "    )"]
        else:
            lines += ["    peaks = [", *_listed(others), "    ]"]
            lines += ["    values = [", *_listed(self.values), "    ]"]
            lines.append("    return values[peaks.index(max(peaks))]")
        return "\n".join(lines) + "\n"


def _cases(rows: Iterable[str]) -> str:
    return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"


def _range(name: str, first: int, last: int | None, at_most: str, at_least: str) -> str:
    if last is None:
        return f"{name} {at_least} {first}"
    if first == last:
        return f"{name} = {first}"
    return (
        f"{name} {at_most} {last}" if first == 1 else f"{first} {at_most} {name} {at_most} {last}"
    )


def _listed(values: Sequence[Polynomial]) -> list[str]:
    return [f"        {one}," for one in values]


def formula(
    names: tuple[str, ...], peaks: Sequence[Polynomial], values: Sequence[Polynomial]
) -> Formula:
    """The formula without the pieces that are the largest nowhere, or no different."""
    first = dict.fromkeys(names, 1)
    places = sorted(polynomials.undominated(peaks, first))
    if len({values[place] for place in places}) == 1:
        places = places[:1]
    return Formula(
        names, tuple(peaks[place] for place in places), tuple(values[place] for place in places)
    )
