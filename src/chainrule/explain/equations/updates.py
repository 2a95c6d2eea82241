"""Writes the updates of all parameters once: θ_next = θ − η ∂J/∂θ, for each θ of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from chainrule.explain.equations.alike import Numbered
from chainrule.explain.equations.parts import Name, Part, Symbol, replaced, row, text
from chainrule.explain.equations.writing import Line
from chainrule.explain.reading.symbols import parted
from chainrule.graph.graph import Graph
from chainrule.transforms.backward import gradient_name

FEWEST = 3  # parameters that are updated alike


class Updates:
    """The parameters of a graph, one letter for any of them, and lines about each."""

    def __init__(self, graph: Graph) -> None:
        inputs = {item.node: item.name for item in graph.inputs}
        self.parameters = [inputs[one.wrt] for one in graph.gradients if one.wrt in inputs]
        self.parameters = list(dict.fromkeys(sorted(self.parameters, key=len, reverse=True)))
        taken = set(graph.names)
        letters = ("θ", "ϑ", "ω", "p")
        self.letter = next((one for one in letters if one not in taken), "parameter")
        self._owners: dict[str, str] = {}

    def folded(self, lines: Sequence[Numbered], given: bool = False) -> list[Numbered]:
        """The lines, of which those that are alike for several parameters stand there once."""
        found: list[list[Numbered]] = []
        alike: dict[tuple[str, ...], list[tuple[str, list[Numbered]]]] = {}
        place: dict[tuple[str, ...], int] = {}
        for owner, several in groupby(lines, key=lambda one: self._owner(one[1], given)):
            block = list(several)
            if not owner:
                found.append(block)
                continue
            key = tuple([self._skeleton(line, owner, given) for _, line in block])
            if key not in alike:
                place[key] = len(found)
                found.append([])
            alike.setdefault(key, []).append((owner, block))
        for key, blocks in alike.items():
            owner, block = blocks[0]
            if len(blocks) < FEWEST:
                found[place[key]] = [one for _, several in blocks for one in several]
            else:
                found[place[key]] = list(self._once(owner, block, len(blocks), given))
        return [one for several in found for one in several]

    def _owner(self, line: Line, given: bool) -> str:
        """The parameter whose state or update a line is about; '' for none."""
        left = line.composed[0]
        while not isinstance(left, Name) and hasattr(left, "part"):
            left = left.part
        if not isinstance(left, Name):
            return ""
        if left.name not in self._owners:
            some = (one for one in self.parameters if left.name.startswith(f"{one}_"))
            self._owners[left.name] = next(some, "")  # pyrefly: ignore[unsupported-operation]
        return self._owners[left.name]

    def _skeleton(self, line: Line, owner: str, given: bool) -> str:
        left, sides, _ = line.composed
        change = self._change(owner)
        return " = ".join(text(replaced(one, change)) for one in (left, *sides)) + line.tail_text

    def _change(self, owner: str) -> Callable[[Part], Part | None]:
        def change(part: Part) -> Part | None:
            if not isinstance(part, Name):
                return None
            name, notation = self._general(part.name, owner), part.notation
            if name == part.name:
                return part
            if part.name in notation.arrays:
                notation = replace(notation, arrays=notation.arrays | {name})
            return Symbol(notation.latex(name), notation.text(name))

        return change

    def _general(self, name: str, owner: str) -> str:
        parts = parted(name)
        if parts is not None:
            return gradient_name(parts[0], self.letter) if parts[1] == owner else name
        if name == owner or name.startswith(f"{owner}_"):
            return self.letter + name[len(owner) :]
        return name

    def _once(
        self, owner: str, block: list[Numbered], count: int, given: bool
    ) -> Iterator[Numbered]:
        every = f"each of the {count} parameters {self.letter}"
        for at, (number, line) in enumerate(block, 1):
            tail: Part = Symbol(rf",\quad \text{{for {every}}}", f", for {every}")
            if given:
                tail = (
                    Symbol(rf"\text{{ of {every}}}", f" of {every}") if at == len(block) else row()
                )
            yield number, line.changed(self._change(owner), tail, keeps_kind=False)
