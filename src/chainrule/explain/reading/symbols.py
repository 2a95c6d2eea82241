"""Writes names as mathematics: W1 as W₁, dJ/dW1 as ∂J/∂W₁, x_dot as ẋ; LaTeX and text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from chainrule.dataclass import dataclass, field
from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.words import printable

Indices = Literal["subscript", "superscript", "plain"]

GREEK = dict(
    alpha="α", beta="β", gamma="γ", delta="δ", epsilon="ε", zeta="ζ", eta="η", theta="θ",
    iota="ι", kappa="κ", lam="λ", lambda_="λ", mu="μ", nu="ν", xi="ξ", pi="π", rho="ρ", sigma="σ",
    tau="τ", upsilon="υ", phi="φ", chi="χ", psi="ψ", omega="ω", Gamma="Γ", Delta="Δ",
    Theta="Θ", Lambda="Λ", Xi="Ξ", Pi="Π", Sigma="Σ", Phi="Φ", Psi="Ψ", Omega="Ω",
)  # fmt: skip
COMMANDS = {letter: "\\" + name.rstrip("_") for name, letter in GREEK.items()} | {
    "ϕ": r"\phi",
    "φ": r"\varphi",
    "ε": r"\varepsilon",
    "ϵ": r"\epsilon",
    "ℓ": r"\ell",
    "∂": r"\partial ",
    "∇": r"\nabla ",
    "ο": "o",
}
ACCENTS = {
    "_bar": (r"\bar", "\u0304"),
    "_dot": (r"\dot", "\u0307"),
    "_hat": (r"\hat", "\u0302"),
    "_tilde": (r"\tilde", "\u0303"),
}
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_ESCAPES = {c: "\\" + c for c in "#$%&_{}"} | {
    "\\": r"\backslash ",
    "^": r"\wedge ",
    "~": r"\sim ",
    " ": r"\ ",
    "'": r"{\prime}",
    "`": r"{\prime}",
    "<": r"{<}",
    ">": r"{>}",
    '"': r"{\prime\prime}",
}
_NUMBERED = re.compile(r"(?P<stem>.*?[^\d_])(?P<under>_?)(?P<digits>\d+)", re.DOTALL)
_SUBSCRIPTED = re.compile(r"(?P<stem>[^\W\d_])_(?P<index>[^\W_]+)")
TEXT_SIGNS = "∂", "⟨", "⟩"
LATEX_SIGNS = r"\partial ", r"\langle ", r" \rangle"
DEEPEST = 40  # derivatives of derivatives are taken apart to this depth, then written as they are


def escape(text: str) -> str:
    """Any text as LaTeX that shows it (in mathematics, inside a font command)."""
    return "".join(COMMANDS.get(c) or _ESCAPES.get(c, c) for c in printable(text))


def parted(name: str) -> tuple[str, str] | None:
    """What a derivative's name says: ("J", "W1") for dJ/dW1, with the brackets taken off.

    None for other names, also for those of a container called d: `d.a/dx`.
    """
    if not name.startswith("d"):
        return None
    depth = 0
    for place, letter in enumerate(name):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and name.startswith("/d", place):
            of, wrt = name[1:place], name[place + 2 :]
            is_whole = of.isidentifier() or of.startswith("(")
            return (_bare(of), _bare(wrt)) if is_whole and wrt else None
    return None


def _bare(name: str) -> str:
    inner = name[1:-1]
    return inner if name.startswith("(") and name.endswith(")") and inner else name


@dataclass(frozen=True)
class Notation:
    """How the names of one graph are written.

    `indices` is where a number at the end of a name goes: W₁, W⁽¹⁾ or W1.  `symbols` replaces
    names: {"weight_decay": "λ"}; the symbols are plain text, never LaTeX.  `arrays` are the names
    that are set in bold in LaTeX, `seeds` the cotangents with which non-scalars were
    differentiated, `literal` the names that are written as they are, because two would look alike.
    """

    indices: Indices = "subscript"
    symbols: Mapping[str, str] = field(default_factory=dict)
    arrays: frozenset[str] = frozenset()
    seeds: Mapping[str, str] = field(default_factory=dict)
    literal: frozenset[str] = frozenset()

    def text(self, name: str, depth: int = 0) -> str:
        """The name in Unicode: `∂J/∂W₁`."""
        fraction = self.fraction(name, depth)
        return printable(self._text(name)) if fraction is None else "/".join(fraction)

    def fraction(self, name: str, depth: int = 0) -> tuple[str, str] | None:
        """Numerator and denominator of a derivative's name: `∂J`, `∂W₁`; None for other names."""
        return self._parts(name, depth, self.text, TEXT_SIGNS)

    def latex(self, name: str, depth: int = 0) -> str:
        r"""The name in LaTeX, as one group: `\frac{\partial J}{\partial \mathbf{W}_{1}}`."""
        parts = self._parts(name, depth, self._inline, LATEX_SIGNS)
        return self._latex(name) if parts is None else rf"\frac{{{parts[0]}}}{{{parts[1]}}}"

    def _inline(self, name: str, depth: int) -> str:
        """As `latex`, derivatives with a slash: they stand in a fraction already."""
        parts = self._parts(name, depth, self._inline, LATEX_SIGNS)
        return self._latex(name) if parts is None else " / ".join(parts)

    def _parts(
        self, name: str, depth: int, write: Callable[[str, int], str], signs: tuple[str, str, str]
    ) -> tuple[str, str] | None:
        """Numerator and denominator of a derivative's name, with the names in it by `write`."""
        parts = parted(name) if name not in self.symbols and depth < DEEPEST else None
        if parts is None:
            return None
        (of, wrt), (d, left, right) = parts, signs
        top, bottom = write(of, depth + 1), write(wrt, depth + 1)
        if of in self.seeds:
            top = f"{left}{write(self.seeds[of], depth + 1)}, {top}{right}"
        elif parted(of):
            top = f"({top})"
        return d + top, d + (f"({bottom})" if parted(wrt) else bottom)

    def _text(self, name: str) -> str:
        if name in self.symbols:
            return self.symbols[name]
        if name in self.literal:
            return name
        for ending, (_, mark) in ACCENTS.items():
            if name.endswith(ending) and len(stem := name.removesuffix(ending)) == 1:
                return stem + mark
        numbered = _NUMBERED.fullmatch(name)
        if numbered is None or self.indices == "plain":
            return GREEK.get(name, name)
        stem, digits = GREEK.get(numbered["stem"], numbered["stem"]), numbered["digits"]
        if self.indices == "superscript" and not numbered["under"]:
            return f"{stem}⁽{digits.translate(SUPERSCRIPTS)}⁾"
        return stem + digits.translate(SUBSCRIPTS)

    def _latex(self, name: str) -> str:
        bold = name in self.arrays
        if name in self.symbols:
            return _letters(self.symbols[name], bold)
        if name in self.literal:
            return rf"\mathrm{{{escape(name)}}}"
        for ending, (command, _) in ACCENTS.items():
            if name.endswith(ending) and len(stem := name.removesuffix(ending)) == 1:
                return f"{command}{{{_letters(stem, bold)}}}"
        numbered = _NUMBERED.fullmatch(name)
        if numbered is not None and self.indices != "plain":
            stem, digits = _letters(numbered["stem"], bold), numbered["digits"]
            if self.indices == "superscript" and not numbered["under"]:
                return f"{stem}^{{({digits})}}"
            return f"{stem}_{{{digits}}}"
        subscripted = _SUBSCRIPTED.fullmatch(name)
        if subscripted is not None:
            stem, index = _letters(subscripted["stem"], bold), escape(subscripted["index"])
            return rf"{stem}_{{\mathrm{{{index}}}}}"
        return _letters(name, bold)


def _letters(name: str, bold: bool) -> str:
    """A name without an index: one letter as mathematics has it, a word upright."""
    name = GREEK.get(name, name)
    if len(name) == 1 and name.isalpha():
        if name in COMMANDS or not name.isascii():
            return COMMANDS.get(name, name).strip()
        return rf"\mathbf{{{name}}}" if bold else name
    return rf"\mathrm{{{escape(name)}}}"


def notation_of(
    graph: Graph, indices: Indices = "subscript", symbols: Mapping[str, str] | None = None
) -> Notation:
    """The notation for a graph: no two of its names look alike, unless `symbols` says so.

    InputError for `symbols` that are no text, NameLookupError for one of a name that is not there.
    """
    chosen = _checked(graph, symbols)
    arrays = frozenset(name for name, node in graph.names.items() if node.ndim)
    seeds = {}
    for one in graph.gradients:
        if graph.names.get(one.of) is one.wrt and one.value in graph.name_of:
            seed = graph.name_of[one.value]
            if any(item.name == seed for item in graph.inputs):
                seeds[one.of] = seed
    plain = Notation(indices, chosen, arrays, seeds)
    owners: dict[str, list[str]] = {}
    for name in graph.names:
        if parted(name) is None:
            owners.setdefault(plain.text(name), []).append(name)
    alike = (name for several in owners.values() if len(several) > 1 for name in several)
    return Notation(indices, chosen, arrays, seeds, frozenset(alike) - set(chosen))


def _checked(graph: Graph, symbols: object) -> dict[str, str]:
    """The symbols that a user chose for names of the graph."""
    hint = f"texts by names, such as symbols={{{next(iter(graph.names), 'alpha')!r}: 'λ'}}"
    if symbols is None:
        return {}
    if not isinstance(symbols, Mapping):
        raise InputError(f"symbols={symbols!r} is no mapping", hint=hint)
    for name, symbol in symbols.items():
        if not isinstance(name, str):
            raise InputError(f"symbols has a symbol for {name!r}, which is no name", hint=hint)
        if name not in graph and all(name != item.name for item in graph.inputs):
            raise graph.unknown_name(name)
        if not isinstance(symbol, str) or not symbol:
            raise InputError(f"the symbol of {name} is a text, got {symbol!r}", hint=hint)
    return dict(symbols)
