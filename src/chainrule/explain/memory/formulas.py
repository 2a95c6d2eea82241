"""`report.formulas`: bytes as formulas in named sizes, for the order of the report's plan."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.dataclass import dataclass
from chainrule.explain.memory import polynomials
from chainrule.explain.memory.formula import Formula, formula
from chainrule.explain.memory.kinds import Kind
from chainrule.explain.memory.polynomials import Polynomial
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.node import Node


@dataclass(frozen=True, eq=False)
class PhaseFormulas(ShownByText):
    """Formulas of one run, training or prediction, in logical bytes: elements times their size.

    `peak` is the most that is live, `parts` what it is for, `values` the bytes of every named
    value.  `workspace_nbytes` and `padding_nbytes` are what the run at the reference sizes has
    beside them: memory of kernels, alignment, and gaps of placement.
    """

    peak: Formula
    parts: Mapping[str, Formula]
    values: Mapping[str, Formula]
    workspace_nbytes: int
    padding_nbytes: int

    def python(self) -> str:
        """The source of functions of the sizes: `peak_nbytes`, and one for each part."""
        named = {"peak": self.peak, **self.parts}
        sources = [one.python(f"{name.replace(' ', '_')}_nbytes") for name, one in named.items()]
        return "\n\n".join(sources)

    @property
    def latex(self) -> str:
        """One equation for the peak and for each part, for TeX's `align` environment."""
        named = {"peak": self.peak, **self.parts}
        rows = [rf"\text{{{name}}} &= {one.latex}" for name, one in named.items()]
        return " \\\\\n".join(rows)

    def __str__(self) -> str:
        names = self.peak.names
        width = max(map(len, ("peak", *self.parts))) + 2
        indent = " " * (width + 2)
        numbered = self.peak.is_piecewise and self.peak.intervals is None
        peak, cases = str(self.peak), []
        if numbered:
            shared, others = self.peak.pieces
            peak = f"{polynomials.text(shared, names)} + the largest of"
            cases = [f"({k}) {polynomials.text(x, names)}" for k, x in enumerate(others, 1)]
        lines = [f"{'peak':{width}}  {peak}", *(indent + case for case in cases)]
        for name, part in self.parts.items():
            written = part.by_piece() if numbered and part.is_piecewise else str(part)
            lines.append(f"  {name:{width}}{written}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class MemoryFormulas(ShownByText):
    """The formulas of a report: those of its main run, and of training and of prediction.

    The order of instructions is the one planned at the sizes `reference`.
    """

    title: str
    reference: Mapping[str, int]
    training: PhaseFormulas | None
    prediction: PhaseFormulas

    @property
    def main(self) -> PhaseFormulas:
        """Training if there is a backward pass, else prediction."""
        return self.prediction if self.training is None else self.training

    @property
    def peak(self) -> Formula:
        """The most bytes that are live."""
        return self.main.peak

    @property
    def parts(self) -> Mapping[str, Formula]:
        """What the bytes at the peak are for; they sum to it."""
        return self.main.parts

    @property
    def values(self) -> Mapping[str, Formula]:
        """The bytes of every named value."""
        return self.main.values

    @property
    def latex(self) -> str:
        """Those of the main run: one equation a row."""
        return self.main.latex

    def python(self) -> str:
        """Source of the main run: functions of the sizes, which return bytes."""
        return self.main.python()

    def __str__(self) -> str:
        at = ", ".join(f"{name} = {size}" for name, size in self.reference.items())
        lines = [f"bytes of {self.title}" + (f", in the order planned at {at}" if at else "")]
        runs = {"training": self.training, "prediction": self.prediction}
        for name, run in runs.items():
            if run is not None:
                lines += [f"{name}:", *(f"  {line}" for line in str(run).splitlines())]
        return "\n".join(lines)


def formulas_of(
    run: RunMemory, named: Mapping[Node, Node], reference: Mapping[str, int]
) -> PhaseFormulas:
    """The formulas of a run; `named` gives the node with named sizes for each of its nodes."""
    usage = run.usage
    names = tuple(reference)
    nbytes = {life.node: named[life.node].type.nbytes for life in usage.lives}
    change: list[Polynomial] = [0] * (usage.count + 2)
    counted = [life for life in usage.lives if not life.in_place]
    for life in counted:
        change[life.first] += nbytes[life.node]
        change[life.last + 1] -= nbytes[life.node]
    live: list[Polynomial] = []
    for step in change[:-1]:
        live.append(step + (live[-1] if live else 0))
    places = polynomials.undominated(live, reference)
    peaks = [live[place] for place in places]
    parts: dict[str, Formula] = {}
    for kind in Kind:
        values: list[Polynomial] = [0] * len(places)
        for life in counted:
            if run.kinds[life.node] is kind:
                for index, place in enumerate(places):
                    if life.first <= place <= life.last:
                        values[index] += nbytes[life.node]
        if any(value != 0 for value in values):
            parts[str(kind)] = formula(names, peaks, values)
    sizes_of = {name: named[node].type.nbytes for name, node in run.graph.names.items()}
    return PhaseFormulas(
        peak=formula(names, peaks, peaks),
        parts=parts,
        values={name: Formula(names, (0,), (value,)) for name, value in sizes_of.items()},
        workspace_nbytes=usage.workspaces[run.peak_instruction],
        padding_nbytes=run.padding_nbytes,
    )
