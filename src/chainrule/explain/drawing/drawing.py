"""`draw`: a graph as a `Drawing`, which gives SVG, Graphviz DOT and Mermaid."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.explain.drawing.dot import dot_of
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.lanes import Lanes
from chainrule.explain.drawing.layout import in_systems, place
from chainrule.explain.drawing.lettering import LEAST
from chainrule.explain.drawing.mermaid import mermaid_of
from chainrule.explain.drawing.scene import Scene, Wishes, scene_of
from chainrule.explain.drawing.svg import svg_of
from chainrule.explain.image import image_of
from chainrule.explain.reading.symbols import Indices
from chainrule.explain.writing import write_beside
from chainrule.graph.cached import cached_property
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.tracebacks import entry

PHASES = ("both", "forward", "backward")
DETAILS = ("names", "primitives")
INDICES = ("subscript", "superscript", "plain")
THEMES = ("auto", "light", "dark")
FOLDS = ("auto", "none", "all")
PAGE = 900.0  # pixels: the width of a page
LEGIBLE = 9.0  # pixels: no letter is smaller on the page
NARROWEST = 300.0
SUFFIXES = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}


@dataclass(frozen=True, eq=False)
class Drawing:
    """A graph drawn; every form of it is made when it is asked for, and the same each time."""

    scene: Scene
    theme: str = "auto"
    show_bytes: bool = False
    width: float | None = None

    def svg(self) -> str:
        """The picture as SVG, which needs nothing else."""
        return self._svg

    @cached_property
    @without_collector
    def _svg(self) -> str:
        placement = place(self.scene.figure)
        most = math.inf if self.width is None else self.width * LEAST // LEGIBLE
        if placement.spans:
            placement = in_systems(placement, most, len(self.scene.figure.further))
        return svg_of(self.scene, placement, self.theme, self.show_bytes, most)

    def dot(self) -> str:
        """The same boxes and arrows as Graphviz DOT."""
        return dot_of(self.scene)

    def mermaid(self) -> str:
        """The same boxes and arrows as Mermaid text."""
        return mermaid_of(self.scene)

    @entry
    def save(self, path: str | Path) -> None:
        """Write the drawing to a file, which is there as a whole or not at all.

        The ending says how: .svg, .dot or .gv (Graphviz), .mmd or .mermaid.  InputError for
        another one, and for a path that cannot be written.
        """
        path = Path(path)
        form = SUFFIXES.get(path.suffix.lower())
        if form is None:
            raise InputError(
                f"a drawing cannot be written as {path.suffix or 'a file without an ending'}, "
                f"asked for by {path}",
                hint=f"{path.stem or 'graph'}.svg, or another of these endings: "
                + ", ".join(SUFFIXES),
            )
        text: str = getattr(self, form)()
        write_beside(path, text.encode())

    def __str__(self) -> str:
        forms = [item.form for band in self.scene.bands for item in band.items]
        counts = [
            (forms.count(Form.SQUARE), "variable", "variables"),
            (forms.count(Form.CIRCLE), "operator", "operators"),
            (forms.count(Form.FOLDED), "folded box", "folded boxes"),
        ]
        shown = [f"{n:,} {one if n == 1 else more}" for n, one, more in counts if n]
        return f"{self.scene.title}: {', '.join(shown) or 'nothing to draw'}"

    def __repr__(self) -> str:
        return f"<Drawing: {self}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """For notebooks: in those that are not trusted only the picture as an <img> survives."""
        svg = self.svg()
        html = image_of(svg, self.scene.title, "max-width:100%")
        return {"text/html": html, "image/svg+xml": svg, "text/plain": str(self)}


def draw(
    graph: Graph,
    *,
    phase: str = "both",
    detail: str = "names",
    expand: Collection[str] = (),
    fold: str | Collection[str] = "auto",
    shapes: bool = False,
    nbytes: bool = False,
    indices: Indices = "subscript",
    symbols: Mapping[str, str] | None = None,
    theme: str = "auto",
    width: float | None = PAGE,
    lanes: Lanes | None = None,
) -> Drawing:
    """The graph as a picture: squares are variables, circles are operators.

    `phase`: "both", "forward" or "backward".  `detail`: "names" draws one circle for each named
    value, "primitives" one for each operation; `expand` names values whose circle alone is opened,
    and of which the loops are.  `fold`: "auto" draws repetitions, then calls, then stretches as one
    box each until there are few, and the bodies of small loops below; "none" draws everything,
    "all" folds every call and every step, names of functions fold those.  `shapes` and `nbytes` add
    these to the squares; with `nbytes`, the width of a dashed arrow shows the bytes that are
    saved.  `indices` and `symbols` are as for equations.  `theme`: "auto" follows the page, "light"
    and "dark" do not.  `width`: of the page, in pixels (a phone has 390): a picture whose letters
    would be under 9 pixels there goes on below, in rows; None draws one row.  `lanes` draws a
    frame for each stage of a split step.

    InputError for another word, and for a phase that the graph does not have; NameLookupError for
    an unknown name in `expand` or `symbols`.
    """
    if not isinstance(graph, Graph):
        raise InputError(
            f"draw needs a graph, got {type(graph).__name__}",
            hint="trace the function first: cr.trace(objective)",
        )
    for argument, value, words in (
        ("phase", phase, PHASES),
        ("detail", detail, DETAILS),
        ("indices", indices, INDICES),
        ("theme", theme, THEMES),
    ):
        if not isinstance(value, str) or value not in words:
            raise InputError(
                f"{argument}={value!r} is none of {', '.join(map(repr, words))}",
                hint=f"{argument}={words[0]!r}",
            )
    is_number = isinstance(width, (int, float)) and not isinstance(width, bool)
    if width is not None and not (is_number and width >= NARROWEST):
        raise InputError(
            f"width={width!r} is not the width of a page in pixels, at least {NARROWEST:.0f}",
            hint="width=900, of a page; width=390, of a phone; width=None: all in one row",
        )
    expanded = _names("expand", expand, f"names of values, such as expand={[*graph.names][-1:]!r}")
    for name in expanded:
        if name not in graph:
            raise graph.unknown_name(name)
    words = ", ".join(map(repr, FOLDS))
    hint = f"one of {words}, or names of functions that the program calls"
    folded = fold if isinstance(fold, str) else _names("fold", fold, hint)
    own = Wishes(phase, detail, expanded, folded, shapes, nbytes, indices, symbols, True, lanes)
    scene = scene_of(graph, own)
    if phase == "backward" and not scene.figure.backward.items:
        raise InputError(
            f"the graph {graph.name} has no backward pass to draw",
            hint="make one first: cr.backward(graph, wrt=...)",
        )
    return Drawing(scene, theme, nbytes, width)


def _names(argument: str, given: Any, hint: str) -> tuple[str, ...]:
    """The names that were given to an option: one, or several."""
    several = (given,) if isinstance(given, str) else given
    if isinstance(several, Iterable):
        names = tuple(several)
        if all(isinstance(one, str) for one in names):
            return names
    raise InputError(f"{argument}={given!r} is neither a name nor several names", hint=hint)
