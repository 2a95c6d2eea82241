"""`ShownAsGraph`: draws, writes and counts a training step as its graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from chainrule.graph.graph import Graph
from chainrule.tracebacks import entry

if TYPE_CHECKING:
    from chainrule.explain.cost.cost import Cost
    from chainrule.explain.drawing.drawing import Drawing
    from chainrule.explain.equations import Equations


class ShownAsGraph:
    """What shows the `graph` that it has."""

    graph: Graph

    @entry
    def draw(self, **options: Any) -> Drawing:
        """The whole step as a picture; the options are those of `Graph.draw`."""
        return self.graph.draw(**options)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.graph._repr_mimebundle_()

    @entry
    def equations(self, names: str | Iterable[str] | None = None, **options: Any) -> Equations:
        """Its values as a textbook writes them; the options are those of `Graph.equations`."""
        return self.graph.equations(names, **options)

    @entry
    def python(self, **options: Any) -> str:
        """The whole step as a NumPy function; the options are those of `Graph.python`."""
        return self.graph.python(**options)

    @entry
    def cost(self, sizes: Mapping[str, int] | None = None, /, **named: int) -> Cost:
        """The operations and bytes of a step, before one is taken: `print(step.cost(n=256))`."""
        return self.graph.cost(sizes, **named)

    if not TYPE_CHECKING:  # or a checker would take every name

        def __getattr__(self, name: str) -> Any:
            """AttributeError, which says where the graph's own methods are."""
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            known = hasattr(Graph, name) or name in Graph.__dataclass_fields__
            if known and not name.startswith("_"):
                text += f", its graph has: write step.graph.{name}"
            raise AttributeError(text, name=name, obj=self)
