"""What every box shows, and how large it has to be for that."""

from __future__ import annotations

from chainrule.dataclass import dataclass, field
from chainrule.explain.drawing.bands import OPERATORS, Entry, Role
from chainrule.explain.drawing.bundles import Bundle
from chainrule.explain.drawing.figure import SIDE, Form, Item, Kept
from chainrule.explain.drawing.folding import Fold, mirrored_key
from chainrule.explain.drawing.labels import Labels
from chainrule.explain.drawing.lettering import Face, Label, ems, pieces
from chainrule.explain.drawing.outline import Branch
from chainrule.explain.drawing.tips import Tips, bytes_text

COPY_SIDE, MARGIN, LINE = 34.0, 8.0, 13.0
CAPTION_SIZE = 12  # of shapes, bytes, counts and names of functions
COPY_SIZE = 14.0  # of the letters of a copy, at most
BELOW_FRACTION = 8.0  # more room, in pixels, where captions stand below a fraction
BUNDLE_SIZE, MOST_NAMES = 14.0, 8  # of a bundle; of names in a tooltip
TITLE_SIZE = 13.0  # of a frame's title


@dataclass(frozen=True)
class Look:
    """What one box shows: its label, small lines below that (of a circle, below the circle), its
    tooltip, its number (0: none)."""

    role: Role
    form: Form
    label: Label
    tip: str
    captions: tuple[str, ...] = ()
    number: int = 0

    @property
    def again(self) -> Label:
        """The label where the value is shown again: small; of a function, its name."""
        size = min(self.label.size, COPY_SIZE)
        if self.form is Form.CIRCLE and self.captions:
            return Label((pieces(self.captions[0], Face.UPRIGHT),), size)
        return Label(self.label.lines, size)


@dataclass
class Looks:
    """Makes the items of a figure, and notes by key what each looks like.

    Names of functions stand below the circles of the forward pass, unless that is `hidden`.
    """

    labels: Labels
    shapes: bool
    nbytes: bool
    hidden: bool = False
    of: dict[str, Look] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tips = Tips(self.labels.short)

    def item(self, entry: Entry) -> Item:
        """A box of its own."""
        circle, copy = entry.form is Form.CIRCLE, entry.form is Form.COPY
        label = self.labels.operator(entry) if circle else self.labels.value(entry)
        captions: list[str] = []
        if circle and (self.hidden or entry.role is not Role.BACKWARD):
            captions += [name] if (name := self.labels.function(entry)) else []
        if entry.form is Form.SQUARE:
            captions += [str(entry.node.type)] if self.shapes else []
            captions += [bytes_text(entry.node)] if self.nbytes else []
        told = self._tips.tip(entry)
        self.of[entry.key] = Look(
            entry.role, entry.form, label, told, tuple(captions), entry.number
        )
        side = COPY_SIDE if copy else SIDE
        small = max((caption_width(one) for one in captions), default=0.0)
        padding = 2 * MARGIN + (MARGIN if circle else 0)
        width = max(side, label.width + padding if label.width > side - MARGIN else side)
        if circle:
            width = max(width, small - 2 * MARGIN)
            return Item(entry.key, entry.form, round(width), side, below=LINE * len(captions))
        width = max(width, small + 2 * MARGIN)
        height = side + LINE * len(captions)
        height += BELOW_FRACTION if captions and label.is_fraction else 0.0
        return Item(entry.key, entry.form, round(width), height, entry.beside)

    def fold(self, fold: Fold, *, mirrored: bool) -> Item:
        """Several boxes as one."""
        key = mirrored_key(fold.key) if mirrored else fold.key
        label, caption = self.labels.fold(fold, mirrored)
        names = [unit.name for unit in fold.units if unit.name]
        shown = ", ".join(names[:8]) + (f", … ({len(names):,} values)" if len(names) > 8 else "")
        line = self._tips.source_line(fold.units[0].value.origin)
        told = f"{len(fold.units):,} operators, drawn as one box\ncompute {shown}"
        told += f"\n{line}" if line else ""
        role = Role.BACKWARD if mirrored else OPERATORS[fold.units[0].during.direction]
        self.of[key] = Look(role, Form.FOLDED, label, told, (caption,))
        width = max(label.width, caption_width(caption)) + 3 * MARGIN
        return Item(key, Form.FOLDED, round(max(SIDE, width)), SIDE)

    def bundle(self, bundle: Bundle) -> Item:
        """Several values as one."""
        first = bundle.entries[0]
        label = Label((pieces(bundle.title, Face.UPRIGHT),), BUNDLE_SIZE)
        names = list(dict.fromkeys(one.name for one in bundle.entries))
        more = f", … ({len(names):,} values)" if len(names) > MOST_NAMES else ""
        told = f"{bundle.title}, drawn as one box: {', '.join(names[:MOST_NAMES])}{more}"
        form = Form.COPY if first.form is Form.COPY else Form.FOLDED
        self.of[bundle.key] = Look(first.role, form, label, told)
        beside = any(one.beside for one in bundle.entries)
        height = COPY_SIDE if form is Form.COPY else SIDE
        return Item(bundle.key, form, round(label.width + 3 * MARGIN), height, beside)

    def kept(self, source: str, target: str) -> Kept:
        """A dashed arrow; should it be long, a small copy of its source stands in."""
        key = f"saved {source} for {target}"
        original = self.of[source]
        label = original.again
        told = f"saved for the backward pass\n{original.tip}"
        self.of[key] = Look(Role.COPY, Form.COPY, label, told)
        width = round(max(COPY_SIDE, label.width + 2 * MARGIN))
        return Kept(source, target, Item(key, Form.COPY, width, COPY_SIDE, True))

    def frame(self, branch: Branch) -> float:
        """Note the title of a frame; its width."""
        told = f"the call of {branch.scope.path}" if branch.scope and branch.depth else ""
        return self.titled(branch.key, branch.title, told)

    def titled(self, key: str, title: str, told: str) -> float:
        """Note the title of a frame and what is told about it; its width."""
        label = Label((pieces(title, Face.UPRIGHT),), TITLE_SIZE)
        self.of[key] = Look(Role.OPERATOR, Form.FOLDED, label, told)
        return label.width


def caption_width(text: str) -> float:
    """The width of a small line, in pixels."""
    return ems(pieces(text, Face.UPRIGHT)) * CAPTION_SIZE
