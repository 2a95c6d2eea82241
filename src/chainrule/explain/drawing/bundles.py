"""Puts what many arrows bring to one operator into one box: `9 parameters`, `26 gradients`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.bands import Entry, Flat, Role
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.mirrored import Mirror
from chainrule.explain.reading.statements import Direction
from chainrule.graph.node import Node

FEWEST = 4  # boxes that are drawn as one


@dataclass(frozen=True)
class Bundle:
    """Values that the same operators read, or that one fold computes; `noun` is what they are."""

    key: str
    noun: str
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        """How many there are of what: `9 parameters`."""
        return f"{len({one.node for one in self.entries}):,} {self.noun}"


def parameters_of(bands: list[Flat], box_of: Mapping[str, str]) -> Iterator[Bundle]:
    """Parameters of the forward pass that the same operators read, and nothing else does."""
    entries = [one for one in bands[0].entries if one.role is Role.PARAMETER]
    readers: dict[str, dict[str, None]] = {}
    for source, target in bands[0].links:
        readers.setdefault(source, {})[box_of.get(target, target)] = None
    together: dict[tuple[str, ...], list[Entry]] = {}
    for one in entries:
        if one.key not in box_of and one.key in readers:
            together.setdefault(tuple(readers[one.key]), []).append(one)
    for targets, several in together.items():
        if len(several) >= FEWEST:
            yield Bundle(f"parameters of {targets[0]}", "parameters", tuple(several))


def mirrored(bundle: Bundle, mirror: Mirror) -> Bundle | None:
    """The gradients below the parameters of a bundle."""
    inside = {one.key for one in bundle.entries}
    below = [one for one in mirror.band.entries if mirror.under[one.key] in inside]
    return Bundle(f"below {bundle.key}", "gradients", tuple(below)) if below else None


def of_updates(
    bands: list[Flat], box_of: Mapping[str, str], repeated: Mapping[str, int], wrt: set[Node]
) -> Iterator[Bundle]:
    """What repeated updates, by the keys of their folds, read and compute: gradients and
    parameters before and after."""
    for band in bands[1:]:
        if band.during.direction is not Direction.UPDATE:
            continue
        updated = {f"{one.name}_next" for one in bands[0].entries if one.node in wrt}
        onward = {source for source, _ in band.links}
        found: dict[tuple[str, str], list[Entry]] = {}
        for one in band.entries:
            fold = box_of.get(one.key, "")
            if repeated.get(fold, 0) < FEWEST or one.form is Form.CIRCLE:
                continue
            if one.unit is None and one.node.origin.transform == "backward":
                found.setdefault((fold, "gradients"), []).append(one)
            elif one.unit is None and one.node in wrt:
                found.setdefault((fold, "parameters"), []).append(one)
            elif one.name in updated and one.key not in onward:
                found.setdefault((fold, "new parameters"), []).append(one)
        for (fold, noun), entries in found.items():
            if len({one.node for one in entries}) >= FEWEST:
                yield Bundle(f"{noun} of {fold}", noun, tuple(entries))
