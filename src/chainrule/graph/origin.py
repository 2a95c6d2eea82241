"""The origin of a node: the user's expression, its scopes, the transform that made it."""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING

from chainrule import source

if TYPE_CHECKING:
    from chainrule.graph.node import Node


class Scope:
    """One call inside the traced program: a user's helper function, or a composite (softmax, ...).

    `symbol` and `latex` are how drawings and equations show a composite as one thing; for a
    user's function they are empty.  `arguments` and `result` are nodes, known once it returned.
    """

    __slots__ = ("arguments", "latex", "name", "parent", "result", "symbol")

    def __init__(
        self, name: str, parent: Scope | None = None, *, symbol: str = "", latex: str = ""
    ) -> None:
        self.name, self.parent, self.symbol, self.latex = name, parent, symbol, latex
        self.arguments: tuple[tuple[str, object], ...] = ()
        self.result: tuple[Node, ...] = ()

    @property
    def path(self) -> str:
        """The dotted path of the names, outermost first."""
        return ".".join([one.name for one in reversed(self.outwards)])

    @property
    def outwards(self) -> list[Scope]:
        """The scope and those around it, from the inside out."""
        found: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            found.append(scope)
            scope = scope.parent
        return found

    def __repr__(self) -> str:
        return f"Scope({self.path})"


class Origin:
    """The user's code position and scope; for derived nodes also the transform and its source node.

    The line and the columns are looked up only when a message asks for them.
    """

    __slots__ = ("code", "lasti", "node", "scope", "transform")

    def __init__(
        self,
        code: CodeType | None = None,
        lasti: int = -1,
        scope: Scope | None = None,
        transform: str = "",
        node: Node | None = None,
    ) -> None:
        self.code, self.lasti, self.scope = code, lasti, scope
        self.transform, self.node = transform, node

    @property
    def scopes(self) -> list[Scope]:
        """The calls in which the node was made, from the inside out."""
        return [] if self.scope is None else self.scope.outwards

    def derived(self, transform: str, node: Node | None) -> Origin:
        """The origin of a node that `transform` made because of `node`, which came from here."""
        return Origin(self.code, self.lasti, self.scope, transform, node)

    @property
    def location(self) -> source.Location | None:
        """File, line and columns; None where nothing is known."""
        return None if self.code is None else source.source_location(self.code, self.lasti)

    def short(self) -> str:
        """`model.py:12`, or '' where nothing is known."""
        location = self.location
        if location is None or location.line is None:
            return ""
        return f"{location.filename.replace(chr(92), '/').rsplit('/', 1)[-1]}:{location.line}"

    def describe(self) -> str:
        """File, line, function, and the source line with the expression underlined."""
        location = self.location
        if location is None:
            return ""
        head = location.filename
        if location.line is not None:
            head += f":{location.line}"
        head += f", in {location.function}"
        marked = source.underlined(location)
        return f"{head}\n{marked}" if marked else head


UNKNOWN = Origin()
