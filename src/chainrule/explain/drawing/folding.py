"""Which boxes are drawn as one: calls of functions, repetitions, stretches of a long program."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from chainrule.dataclass import dataclass, field
from chainrule.errors import InputError
from chainrule.explain.drawing.bands import Flat, Role, operator_key, value_key
from chainrule.explain.drawing.bundles import Bundle, mirrored, of_updates, parameters_of
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.mirrored import Mirror
from chainrule.explain.drawing.outline import (
    Branch,
    Structure,
    branches,
    repeats,
    units_in,
)
from chainrule.explain.drawing.units import Unit, Units

FEW_BOXES, FEW_FORWARD = 60, 40  # of drawings in which also what repeats is drawn out
MOST_BOXES = 120  # of a drawing that is not asked to show everything
MOST_STRETCHES = 40  # of one pass, where nothing repeats and no function was called


@dataclass(frozen=True)
class Fold:
    """Several units as one box: its title, how often it repeats (1: once), which units."""

    key: str
    title: str
    units: tuple[Unit, ...]
    count: int = 1
    stretch: tuple[int, int, int] | None = None  # first, last, of how many; counted from 1


@dataclass
class Folding:
    """`box_of` gives, for every box that is not drawn by itself, the key of its fold or bundle."""

    folds: dict[str, Fold] = field(default_factory=dict)
    box_of: dict[str, str] = field(default_factory=dict)
    bundles: dict[str, Bundle] = field(default_factory=dict)
    open_branches: dict[int, list[Branch]] = field(default_factory=dict)  # by place of the band


class Folder:
    """Chooses what is folded in the bands of one drawing."""

    def __init__(self, units: Units, bands: list[Flat], mirror: Mirror | None) -> None:
        self.units, self.bands, self.mirror = units, bands, mirror
        self.trees = [
            branches(band.units, f"scope {at}", None if at else units.lanes)
            for at, band in enumerate(bands)
        ]
        self.fold_of: dict[Unit, Fold] = {}
        self.few = FEW_BOXES if mirror is not None else FEW_FORWARD
        self.whole = False  # whether also sources that several folds read are inside one

    def folding(self, fold: str | Collection[str]) -> Folding:
        """What `fold` asks for: "auto", "none", "all", or names of functions."""
        match fold:
            case "none":
                pass
            case "all":
                self._repeats()
                for tree in self.trees:
                    self._scopes(one for one in tree[1:] if one.depth == 1)
            case "auto":
                self._enough()
            case str():
                self._named((fold,))
            case _:
                self._named(fold)
        result = self._result()
        if fold != "none":
            self._bundle(result)
        return result

    def _bundle(self, result: Folding) -> None:
        """Parameters of one call, and what repeated updates read and give, as one box each."""
        box_of = result.box_of
        wrt = {one.node for one in self.bands[0].entries if one.role is Role.PARAMETER}
        repeated = {one.key: one.count for one in result.folds.values()}
        found = [
            *parameters_of(self.bands, box_of),
            *of_updates(self.bands, box_of, repeated, wrt),
        ]
        if self.mirror is not None:
            below = [mirrored(one, self.mirror) for one in found]
            found += [one for one in below if one is not None]
        for one in found:
            result.bundles[one.key] = one
            box_of.update((entry.key, one.key) for entry in one.entries)

    def _enough(self) -> None:
        """Folds until there are few boxes: repetitions, inner calls, outer calls, stretches."""
        if self._count() <= self.few:
            return
        self._repeats()
        deepest = max((one.depth for tree in self.trees for one in tree), default=0)
        for depth in range(deepest, 0, -1):
            if self._count() <= self.few:
                return
            for tree in self.trees:
                self._scopes(one for one in tree if one.depth == depth)
        if self._count() > MOST_BOXES:
            self.whole = True
            for tree in self.trees:
                roots = [one for one in tree[1:] if not one.depth] or tree[:1]
                for root in roots:
                    self._stretches(root, MOST_STRETCHES // len(roots))

    def _count(self) -> int:
        box_of = self._boxes()
        keys = [entry.key for band in self.bands for entry in band.entries]
        keys += [entry.key for entry in self.mirror.band.entries] if self.mirror else []
        return len({box_of.get(key, key) for key in keys})

    def _add(self, fold: Fold) -> None:
        for unit in fold.units:
            self.fold_of[unit] = fold

    def _scopes(self, some: Iterable[Branch]) -> None:
        for branch in some:
            inside = tuple(units_in(branch))
            if not all(unit in self.fold_of and self.fold_of[unit].count > 1 for unit in inside):
                self._add(Fold(branch.key, branch.title, inside))

    def _named(self, names: Collection[str]) -> None:
        known: dict[str, None] = {}
        found: set[str] = set()
        for tree in self.trees:
            for branch in tree[1:]:
                assert branch.scope is not None
                if not branch.depth:  # a lane
                    continue
                mine = {branch.scope.name, branch.scope.path, branch.title}
                known.setdefault(branch.title)
                if mine & set(names):
                    found |= mine
                    self._scopes([branch])
        missing = [name for name in names if name not in found]
        if missing:
            raise InputError(
                f"nothing to fold is called {missing[0]!r}",
                hint=f"a function of the program: {', '.join(known)}"
                if known
                else 'fold="auto", "none" or "all": the program calls no function',
            )

    def _repeats(self) -> None:
        for tree in self.trees:
            structure = Structure(self.units, tree)
            has_lanes = any(not one.depth for one in tree[1:])
            for branch in tree[has_lanes:]:
                if any(unit in self.fold_of for unit in units_in(branch)):
                    continue
                numbers = [structure.of(one) for one in branch.elements]
                weights = [sum(1 for _ in units_in(one)) for one in branch.elements]
                for one in repeats(numbers, weights):
                    whole = branch.elements[one.start : one.start + one.period * one.count]
                    calls = [part.title for part in whole[: one.period] if isinstance(part, Branch)]
                    inside = tuple(unit for part in whole for unit in units_in(part))
                    length = len(inside) // one.count
                    parts = [inside[at : at + length] for at in range(0, len(inside), length)]
                    if not structure.is_regular(parts):
                        continue
                    key = f"{branch.key} from {one.start}"
                    title = ", ".join(dict.fromkeys(calls))
                    self._add(Fold(key, title, inside, one.count))

    def _stretches(self, root: Branch, most: int) -> None:
        """The program in stretches of equal length; what is folded already counts as one."""
        members: dict[str, list[Unit]] = {}
        for unit in units_in(root):
            key = self.fold_of[unit].key if unit in self.fold_of else unit.key
            members.setdefault(key, []).append(unit)
        boxes = list(members.values())
        if len(boxes) <= most:
            return
        length = -(-len(boxes) // max(1, most))
        total = sum(map(len, boxes))
        first = 1
        for start in range(0, len(boxes), length):
            inside = tuple(unit for box in boxes[start : start + length] for unit in box)
            last = first + len(inside) - 1
            self._add(Fold(f"{root.key} from {first}", "", inside, 1, (first, last, total)))
            first = last + 1

    def _boxes(self) -> dict[str, str]:
        """For each box that is folded, the key of its fold."""
        found: dict[str, str] = {}
        for unit, fold in self.fold_of.items():
            found[operator_key(unit)] = fold.key
            if unit.name:
                found[value_key(unit.name)] = fold.key
        turns = self._turns()
        for band in self.bands if found else ():
            readers: dict[str, dict[tuple[str, int] | None, None]] = {}
            for source, target in band.links:
                readers.setdefault(source, {})[turns.get(target)] = None
            for entry in band.entries:
                homes = readers.get(entry.key, {}) if entry.unit is None else {}
                hangs = entry.beside or entry.form is Form.COPY
                alone = len(homes) == 1 and hangs
                if None not in homes and homes and (alone or self.whole):
                    home = next(iter(homes))
                    assert home is not None
                    found[entry.key] = home[0]
        if self.mirror is not None and found:
            for key, above in self.mirror.under.items():
                if above in found:
                    found[key] = mirrored_key(found[above])
        return found

    def _turns(self) -> dict[str, tuple[str, int]]:
        """The fold of each operator that is folded, and in which of its repetitions it is.

        What one repetition alone reads is inside, too; what several share, or what flows through
        the program, stays outside.
        """
        found: dict[str, tuple[str, int]] = {}
        folds = {fold.key: fold for fold in self.fold_of.values()}  # to hash one hashes all units
        for fold in folds.values():
            length = len(fold.units) // fold.count
            for place, unit in enumerate(fold.units):
                if self.fold_of[unit] is fold:
                    found[operator_key(unit)] = fold.key, place // length
        return found

    def _result(self) -> Folding:
        result = Folding(box_of=self._boxes())
        for fold in self.fold_of.values():
            result.folds[fold.key] = fold
        for place, tree in enumerate(self.trees):
            result.open_branches[place] = [
                one
                for one in tree[1:]
                if not one.depth  # a lane
                or any(unit not in self.fold_of for unit in units_in(one))
                or len({self.fold_of[unit].key for unit in units_in(one)}) > 1
            ]
        return result


def mirrored_key(key: str) -> str:
    """The key of the backward box below a fold."""
    return f"backward of {key}"
