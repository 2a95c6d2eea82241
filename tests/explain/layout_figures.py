"""Figures to lay out: written as text, and random ones from a seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from chainrule.explain.drawing.figure import (
    SIDE,
    Band,
    Figure,
    Form,
    Group,
    Item,
    Kept,
    Link,
)

COPY = 34.0  # the side of copies


def gradient(key: str) -> str:
    """The key of the item below another."""
    return f"d{key}"


def band(
    text: str,
    circles: str = "",
    beside: str = "",
    widths: Mapping[str, float] | None = None,
    groups: tuple[Group, ...] = (),
) -> Band:
    """From links such as "x a, a z": items in order of first mention, which is topological."""
    links = [Link(*pair.split()) for pair in text.split(",") if pair.strip()]
    keys = dict.fromkeys(key for link in links for key in (link.source, link.target))
    return Band(
        tuple(
            Item(
                key,
                Form.CIRCLE if key in circles.split() else Form.SQUARE,
                (widths or {}).get(key, SIDE),
                beside=key in beside.split(),
            )
            for key in keys
        ),
        tuple(links),
        groups,
    )


def copy_of(source: str, reader: str) -> Kept:
    """A value that the operator below `reader` needs."""
    copy = Item(f"{source} for {reader}", Form.COPY, COPY, COPY)
    return Kept(source, gradient(reader), copy)


def mirrored(forward: Band, without: Collection[str] = (), kept: str = "") -> Figure:
    """With a backward band below all but some items; `kept` are pairs as "x a, z b"."""
    items = [item for item in forward.items if item.key not in without]
    keys = {item.key for item in items}
    backward = Band(
        tuple(Item(gradient(one.key), one.form, one.width, one.height) for one in reversed(items)),
        tuple(
            Link(gradient(link.target), gradient(link.source))
            for link in reversed(forward.links)
            if {link.source, link.target} <= keys
        ),
    )
    pairs = [pair.split() for pair in kept.split(",") if pair.strip()]
    return Figure(
        forward,
        backward,
        {gradient(key): key for key in keys},
        tuple(copy_of(source, reader) for source, reader in pairs),
    )


MLP = band(
    "x m1, W1 m1, m1 z, z phi, phi h, h m2, W2 m2, m2 o, o l, y l, l L, "
    "W1 l2, W2 l2, l2 s, L +, s +, + J",
    "m1 phi m2 l l2 +",
    "W1 W2 y",
)
MLP_BOTH = mirrored(MLP, ("x", "y"), "x m1, W1 m1, z phi, h m2, W2 m2, o l, y l, W2 l2, W1 l2")


@dataclass
class _Program:
    """A random program while it is written."""

    random: Random
    items: list[Item] = field(default_factory=list)
    links: dict[Link, None] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)

    def add(self, key: str, form: Form, beside: bool = False) -> str:
        wide = self.random.random() < 0.3
        width = self.random.uniform(SIDE, 200) if wide else SIDE
        height = self.random.choice((SIDE, SIDE, 40.0, 70.0)) if form is Form.FOLDED else SIDE
        below = 13.0 if form is Form.CIRCLE and len(self.items) % 3 == 0 else 0.0
        self.items.append(Item(key, form, width, height, beside, below))
        return key

    def operate(self, number: int, leaves: Sequence[str]) -> None:
        """An operator of recent values, old ones, and leaves; sometimes a folded box."""
        random = self.random
        count = random.choice((1, 1, 2, 2, 3, 6))
        recent = self.values[-4:]
        inputs = {random.choice(recent if random.random() < 0.7 else self.values): None}
        for _ in range(count - 1):
            inputs[random.choice(recent if random.random() < 0.5 else self.values)] = None
        if leaves and random.random() < 0.5:
            inputs |= dict.fromkeys(random.sample(leaves, min(len(leaves), random.randint(1, 3))))
        if leaves and random.random() < 0.05:
            inputs = dict.fromkeys(random.sample(leaves, min(len(leaves), random.randint(1, 5))))
        form = Form.FOLDED if random.random() < 0.15 else Form.CIRCLE
        self.add(f"o{number}", form)
        self.links |= dict.fromkeys(Link(one, f"o{number}") for one in inputs)
        for result in range(1 + (random.random() < 0.1)):
            key = self.add(f"v{number}.{result}", Form.SQUARE)
            self.links[Link(f"o{number}", key)] = None
            self.values.append(key)


def random_band(seed: int, operators: int, grouped: bool) -> Band:
    """Operators and values that alternate, with parameters, and nested groups if asked for."""
    program = _Program(Random(seed))
    random = program.random
    for number in range(random.randint(1, 3)):
        program.values.append(program.add(f"x{number}", Form.SQUARE))
    leaves = [
        program.add(f"W{number}", Form.SQUARE, beside=True)
        for number in range(random.randint(0, operators // 2 + 1))
    ]
    for number in range(operators):
        program.operate(number, leaves)
    fed = {link.source for link in program.links} | {link.target for link in program.links}
    items = tuple(item for item in program.items if item.key in fed)
    groups = _groups(random, [item.key for item in items]) if grouped else ()
    return Band(items, tuple(program.links), groups)


def _groups(
    random: Random, keys: Sequence[str], depth: int = 3, name: str = "g"
) -> tuple[Group, ...]:
    """Nested ranges of the items: such groups never close a ring."""
    found = []
    place = random.randint(0, 4)
    while depth and place < len(keys):
        length = random.randint(1, max(2, len(keys) // 2))
        part = keys[place : place + length]
        key = f"{name}{len(found)}"
        inner = _groups(random, part, depth - 1, key) if random.random() < 0.6 else ()
        inside = {item for group in inner for item in all_items(group)}
        own = tuple(item for item in part if item not in inside)
        found.append(Group(key, own, inner, random.uniform(20, 220)))
        place += length + random.randint(0, 6)
    return tuple(found)


def all_items(group: Group) -> list[str]:
    """The items of a group and of those inside."""
    found: list[str] = []
    pending = [group]
    while pending:
        one = pending.pop()
        found += one.items
        pending += one.groups
    return found


def random_figure(seed: int) -> Figure:
    """A forward band; for two seeds in three a mirrored one, kept values, and others below."""
    random = Random(1000 + seed)
    forward = random_band(seed, random.choice((2, 4, 8, 12, 25)), grouped=seed % 2 == 1)
    if seed % 3 == 0:
        return Figure(forward)
    without = [item.key for item in forward.items if random.random() < 0.15]
    without += [item.key for item in forward.items if item.beside and random.random() < 0.2]
    figure = mirrored(forward, without)
    circles = [item.key for item in forward.items if item.form is Form.CIRCLE]
    pairs = [
        (link.source, link.target)
        for link in forward.links
        if link.target in circles and link.target not in without and random.random() < 0.7
    ]
    kept = [copy_of(*pair) for pair in pairs]
    links = dict.fromkeys(figure.backward.links)
    items = figure.backward.items
    for _ in range(random.randint(0, 2) if len(items) > 3 else 0):
        first, second = sorted(random.sample(range(len(items)), 2))
        links[Link(items[first].key, items[second].key)] = None
    further = (random_band(seed + 5000, 4, grouped=False),) if random.random() < 0.2 else ()
    return Figure(
        forward,
        Band(items, tuple(links)),
        figure.under,
        tuple(kept),
        tuple(_renamed(one) for one in further),
        hide_forward=random.random() < 0.2,
    )


def _renamed(one: Band) -> Band:
    """Keys are unique in a figure."""
    return Band(
        tuple(
            Item(f"{item.key}''", item.form, item.width, item.height, item.beside)
            for item in one.items
        ),
        tuple(Link(f"{link.source}''", f"{link.target}''") for link in one.links),
    )
