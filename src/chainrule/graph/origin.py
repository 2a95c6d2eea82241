"""The origin of a node: the user's expression, its scopes, the transform that made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType
from typing import TYPE_CHECKING, Any

from chainrule import source
from chainrule.dataclass import dataclass, field

if TYPE_CHECKING:
    from chainrule.graph.node import Node


@dataclass(frozen=True, eq=False)
class Textbook:
    """How a textbook writes a composite: by a symbol, and its gradients in closed form.

    `gradients` are functions by argument: `f(g, out, call)` is the gradient with respect to this
    argument, from the gradient `g` of the result `out`; `call` has all arguments as attributes.
    It returns None where these arguments have no closed form.  `sign`, from the arguments by name,
    is what a circle says where the symbol alone says too little: `conv 5×5`.
    """

    symbol: str
    latex: str = ""
    gradients: Mapping[str, Callable[[Any, Any, Any], Any]] = field(default_factory=dict)
    sign: Callable[[Mapping[str, Any]], str] | None = None


class Scope:
    """One call inside the traced program: a user's helper function, or a composite (softmax, ...).

    A composite has a `textbook`: drawings and equations show it as one thing; a user's function
    has none.  `arguments` and `result` are nodes, known once it returned.
    """

    __slots__ = ("arguments", "name", "parent", "result", "textbook")

    def __init__(
        self, name: str, parent: Scope | None = None, textbook: Textbook | None = None
    ) -> None:
        self.name, self.parent, self.textbook = name, parent, textbook
        self.arguments: tuple[tuple[str, object], ...] = ()
        self.result: tuple[Node, ...] = ()

    @property
    def symbol(self) -> str:
        """The symbol of a composite; "" for a user's function."""
        return "" if self.textbook is None else self.textbook.symbol

    @property
    def sign(self) -> str:
        """What a circle of a drawing says: the symbol, unless the textbook has more to say."""
        if self.textbook is None or self.textbook.sign is None:
            return self.symbol
        return self.textbook.sign(dict(self.arguments))

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
