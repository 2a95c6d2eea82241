"""What a drawing shows, before anything has a place: boxes, arrows, groups, passes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from chainrule.dataclass import dataclass, field

SIDE = 52.0  # of a square, and the diameter of a circle, in pixels


class Form(StrEnum):
    """The outline of an item."""

    SQUARE = "square"  # a variable
    CIRCLE = "circle"  # an operator
    FOLDED = "folded"  # a scope, or several equal ones, as one box
    COPY = "copy"  # a value of another pass, shown again where it is read: small and dashed


@dataclass(frozen=True)
class Item:
    """One box; `key` is unique in the figure, `width` and `height` are in pixels.

    `beside` marks a source that is no part of the flow (a parameter, a label, a copy): it hangs on
    the first operator that reads it.  Words of `below` pixels stand below the box.
    """

    key: str
    form: Form
    width: float = SIDE
    height: float = SIDE
    beside: bool = False
    below: float = 0.0


@dataclass(frozen=True)
class Link:
    """An arrow between two items of one band, by their keys."""

    source: str
    target: str


@dataclass(frozen=True)
class Group:
    """A scope drawn as a frame around its items and the frames inside it.

    `label_width` is what its title needs.  Groups with the same `pattern` (not "") look alike:
    their items, links and inner groups correspond in order.  Arrows from sources in a group that is
    drawn `as_one` begin at its frame; only the report page has such groups.
    """

    key: str
    items: tuple[str, ...]
    groups: tuple[Group, ...] = ()
    label_width: float = 0.0
    pattern: str = ""
    as_one: bool = False


@dataclass(frozen=True)
class Band:
    """One pass: items and links in topological order; items in no group stand at the top level."""

    items: tuple[Item, ...]
    links: tuple[Link, ...]
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True)
class Kept:
    """A value of the forward band that an operator of the backward band reads.

    `copy` is the item (form COPY) that stands beside the operator where the value is not near
    enough for an arrow of its own.
    """

    source: str
    target: str
    copy: Item


@dataclass(frozen=True)
class Figure:
    """A forward band; a backward band that mirrors it; other passes, each a band below.

    `under` gives for every item of the backward band the forward item below which it stands (the
    gradient of v under v, the backward operator under its operator); no two share one.  Groups of
    the backward band are those of the forward band, mirrored: `backward.groups` is empty.
    `hide_forward` leaves the forward band out of the placement, which it shapes all the same.
    """

    forward: Band
    backward: Band = field(default_factory=lambda: Band((), ()))
    under: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    further: tuple[Band, ...] = ()
    hide_forward: bool = False


@dataclass(frozen=True)
class Rectangle:
    """x and y of the upper left corner; y grows downward.  Words of `below` pixels are below it."""

    x: float
    y: float
    width: float
    height: float
    below: float = 0.0

    @property
    def centre(self) -> tuple[float, float]:
        """The middle."""
        return self.x + self.width / 2, self.y + self.height / 2


Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Arrow:
    """A drawn link: a line through `points`, from the border of one box to that of another.

    `kept` marks the dashed ones, from a value (or its copy) to the backward operator.  A piece of a
    broken line does not begin at its source, or does not end at its target.
    """

    source: str
    target: str
    points: Points
    kept: bool = False
    begins: bool = True
    ends: bool = True


@dataclass(frozen=True)
class Stub:
    """The outer end of a broken arrow, on the left side of its system or on the right one."""

    x: float
    y: float
    is_left: bool
    source: str
    target: str


@dataclass(frozen=True)
class Placement:
    """Where everything is: a rectangle for every item, copy and group; every arrow; the size.

    `mirrored_groups` has, by the same keys, the frames of the backward band.

    `copies` are the copies that were needed; `spans` are the y range of each band, in order:
    forward, backward (if there is one), further ones.  `rest` and `stubs` are of systems: frames
    that go on from the system before, and where broken arrows stop.
    """

    boxes: Mapping[str, Rectangle]
    groups: Mapping[str, Rectangle]
    arrows: tuple[Arrow, ...]
    copies: tuple[Kept, ...]
    spans: tuple[tuple[float, float], ...]
    width: float
    height: float
    mirrored_groups: Mapping[str, Rectangle] = field(default_factory=dict)
    rest: tuple[Rectangle, ...] = ()
    stubs: tuple[Stub, ...] = ()
