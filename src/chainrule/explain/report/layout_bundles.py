"""Values that are read far from where they stand, shown again as small boxes where they are read.

A penalty on all parameters of a deep network, the norm of all gradients, or weights that every
step of a long loop shares would otherwise be arrows across the whole drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chainrule.dataclass import dataclass, replace
from chainrule.explain.drawing.bands import Entry, Flat, Role, operator_key
from chainrule.explain.drawing.figure import Form, Item
from chainrule.explain.drawing.labels import COPY_MOST, COPY_ROOM, COPY_SIZES
from chainrule.explain.drawing.lettering import Face, fitted, pieces
from chainrule.explain.drawing.looks import COPY_SIDE, MARGIN, Look, Looks
from chainrule.explain.drawing.mirrored import Mirror, backward_key
from chainrule.explain.drawing.units import Unit
from chainrule.explain.reading.symbols import parted
from chainrule.explain.report.layout_homes import Homes
from chainrule.explain.report.outline_groups import PageScope

FEWEST = 9  # values that are one box for the operator that reads them all
FEWEST_SCOPES = 5  # that read a leaf, so that all but the first have a copy of it
FEWEST_IN_FLOW = 12  # the same of other values
MOST_NAMED = 8  # in the tooltip of a bundle


@dataclass(frozen=True)
class Bundle:
    """One or several values, shown as one small box that `readers` read; below it there may be
    another, for what they add to the gradients."""

    key: str
    readers: tuple[Unit, ...]
    members: tuple[Entry, ...]

    @property
    def mirrored_key(self) -> str:
        """The key of the box below."""
        return f"gradients below {self.key}"

    @property
    def source(self) -> Entry:
        """The first value."""
        return self.members[0]


def copied(band: Flat) -> list[Bundle]:
    """Many values of other passes that one operator reads."""
    copies = {entry.key: entry for entry in band.entries if entry.form is Form.COPY}
    return _many(band, ((copies[one], circle) for one, circle in band.links if one in copies))


def distant(band: Flat, homes: Homes) -> list[Bundle]:
    """Many sources that one operator reads after others have done so."""
    entries = {entry.key: entry for entry in band.entries}
    apart = (
        (entries[source], circle)
        for source, circle in band.links
        if source in homes.readers and homes.of[circle] is not next(iter(homes.readers[source]))
    )
    return _many(band, apart)


def _many(band: Flat, reads: Iterable[tuple[Entry, str]]) -> list[Bundle]:
    units = {operator_key(unit): unit for unit in band.units}
    found: dict[str, list[Entry]] = {}
    for entry, circle in reads:
        found.setdefault(circle, []).append(entry)
    return [
        Bundle(f"copies for {units[circle].key}", (units[circle],), tuple(several))
        for circle, several in found.items()
        if len(several) >= FEWEST
    ]


def shared(band: Flat, homes: Homes) -> list[Bundle]:
    """Values that many scopes read: for each but the first, one that is shown there."""
    units = {operator_key(unit): unit for unit in band.units}
    readers: dict[str, dict[PageScope, list[Unit]]] = {}
    for source, target in band.links:
        if target in units:
            scopes = readers.setdefault(source, {})
            scopes.setdefault(homes.of[target], []).append(units[target])
    found: list[Bundle] = []
    for entry in band.entries:
        scopes = readers.get(entry.key, {})
        least = FEWEST_SCOPES if entry.beside else FEWEST_IN_FLOW
        if entry.form is not Form.SQUARE or len(scopes) < least:
            continue
        for several in list(scopes.values())[1:]:
            if homes.of[operator_key(several[0])] is not homes.of[entry.key]:
                key = f"copy of {entry.key} for {several[0].key}"
                found.append(Bundle(key, tuple(several), (entry,)))
    return found


def bundled(band: Flat, several: Iterable[Bundle]) -> Flat:
    """The band with a box for each bundle; copies that are in one are left out."""
    box_of = {
        (entry.key, operator_key(reader)): one.key
        for one in several
        for entry in one.members
        for reader in one.readers
    }
    before: dict[str, list[Bundle]] = {}
    for one in several:
        before.setdefault(operator_key(one.readers[0]), []).append(one)
    gone = {entry.key for one in several for entry in one.members if entry.form is Form.COPY}
    found = Flat(band.during, units=band.units)
    for entry in band.entries:
        for one in before.get(entry.key, ()):
            name = one.source.name if len(one.members) == 1 else ""
            node = one.source.node
            found.entries.append(Entry(one.key, Form.COPY, Role.COPY, node, name, beside=True))
        if entry.key not in gone:
            found.entries.append(entry)
    for source, target in band.links:
        found.link(box_of.get((source, target), source), target)
    return found


def bundled_mirror(mirror: Mirror, several: Iterable[Bundle]) -> Mirror:
    """The backward band with a box below each bundle for the gradients that are added there."""
    box_of = {
        (backward_key(reader), entry.key): one
        for one in several
        for entry in one.members
        for reader in one.readers
    }
    found = Mirror(Flat(mirror.band.during, units=mirror.band.units), dict(mirror.under))
    gradients = {mirror.under[entry.key]: entry for entry in mirror.band.entries}
    after: dict[str, list[Bundle]] = {}
    for source, target in mirror.band.links:
        one = box_of.get((source, mirror.under[target]))
        if one is not None:
            if one.mirrored_key not in found.under:
                found.under[one.mirrored_key] = one.key
                after.setdefault(source, []).append(one)
            target = one.mirrored_key
        found.band.link(source, target)
    for entry in mirror.band.entries:
        found.band.entries.append(entry)
        for one in after.get(entry.key, ()):
            below = gradients[one.source.key]
            name = below.name if len(one.members) == 1 else ""
            found.band.entries.append(
                Entry(one.mirrored_key, Form.COPY, Role.COPY, below.node, name)
            )
    for (source, target), nodes in mirror.saved.items():
        one = box_of.get((target, source))
        found.saved.setdefault((one.key if one else source, target), {}).update(nodes)
    return found


def bundle_item(bundle: Bundle, entry: Entry, looks: Looks) -> Item:
    """The box of a bundle, or the one below it."""
    is_below = entry.key == bundle.mirrored_key
    readers = ", ".join(one.name or "a value without a name" for one in bundle.readers)
    if len(bundle.members) == 1:
        item = looks.item(entry)
        look = looks.of[entry.key]
        told = f"gets a term from {readers}" if is_below else f"shown again for {readers}"
        tip = f"{look.tip.splitlines()[0]}\n{told}"
        looks.of[entry.key] = replace(look, tip=tip)
        return item
    words = f"{len(bundle.members):,} {'gradients' if is_below else _noun(bundle.members)}"
    label = fitted([pieces(words, Face.UPRIGHT)], COPY_ROOM, COPY_SIZES, COPY_MOST)
    names = [one.name for one in bundle.members if one.name]
    shown = ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")
    told = f"get terms from {readers}" if is_below else f"read by {readers}"
    looks.of[entry.key] = Look(Role.COPY, Form.COPY, label, f"{words}, {told}\n{shown}")
    width = round(max(COPY_SIDE, label.width + 2 * MARGIN))
    return Item(entry.key, Form.COPY, width, COPY_SIDE, entry.beside)


def _noun(members: Iterable[Entry]) -> str:
    if all(one.role is Role.PARAMETER for one in members):
        return "parameters"
    return "gradients" if all(parted(one.name) for one in members) else "values"


def by_key(several: Iterable[Bundle]) -> Mapping[str, Bundle]:
    """Bundles by the keys of their boxes."""
    pairs = ((one.key, one) for one in several)
    return dict(pairs) | {one.mirrored_key: one for one in several}
