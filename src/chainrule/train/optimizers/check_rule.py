"""Checks what the functions of an optimizer (rule, factors, ...) return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.graph.node import Node
from chainrule.graph.origin import Origin

SCALED = "chainrule.train.scaled multiplies an array by a scalar"
RETURNS = {
    "rule": "the rule returns (parameter, {name: array for each of arrays=}), all of them nodes",
    "factors": "factors returns ({name: scalar}, {name: array for each of shared=}), all nodes",
    "measures": "measures returns {name: scalar}, all of them 0-d nodes of float64",
}
ONE_SCALAR = "the rule of a schedule returns one 0-d node of float64"


@dataclass(frozen=True)
class Maker:
    """A function that builds nodes: what it is (`rule`), whose, and what it should return."""

    kind: str
    owner: str
    function: Callable[..., Any] | None
    returns: str = ""

    @property
    def place(self) -> str:
        """File and line of the function, '' where it is none."""
        if self.function is None:
            return ""
        code: Any = getattr(inspect.unwrap(self.function), "__code__", None)
        return "" if code is None else Origin(code).describe()

    def refused(self, what: str) -> InputError:
        """The error that says what this maker did wrong, and what it should return."""
        text = f"the {self.kind} of {self.owner} {what}"
        return InputError(text, where=self.place, hint=self.returns or RETURNS[self.kind])

    def pair(self, first: type, *arguments: Any, about: str = "") -> tuple[Any, Mapping[str, Node]]:
        """What it returns where that is (a node or a mapping of nodes, a mapping of nodes)."""
        returned = self._called(arguments, about)
        match returned:
            case (one, Mapping() as after) if isinstance(one, first):
                made = [*(one.values() if isinstance(one, Mapping) else ()), *after.values()]
                self._refuse_others(made, about)
                return one, after
            case (one, other):
                raise self.refused(f"returned ({_shown(one)}, {_shown(other)}){about}")
        raise self.refused(f"returned {_shown(returned)}{about}")

    def scalars(self, *arguments: Any) -> Mapping[str, Node]:
        """What it returns where that is a mapping of 0-d nodes of float64."""
        returned = self._called(arguments, "")
        if not isinstance(returned, Mapping):
            raise self.refused(f"returned {_shown(returned)}")
        self._refuse_others(list(returned.values()), "")
        for name, node in returned.items():
            self._refuse_other_type(node, f" as {name}")
        return returned

    def scalar(self, *arguments: Any) -> Node:
        """What it returns where that is one 0-d node of float64."""
        returned = self._called(arguments, "")
        if not isinstance(returned, Node):
            raise self.refused(f"returned {_shown(returned)}")
        self._refuse_other_type(returned, "")
        return returned

    def refuse_other_names(self, found: Mapping[str, Any], declared: Mapping[str, Any]) -> None:
        """InputError where the arrays returned are not those that the optimizer declares."""
        if set(found) != set(declared):
            raise self.refused(
                f"updates {sorted(found) or 'no arrays'}"
                f", the optimizer declares {sorted(declared) or 'none'}"
            )

    def _called(self, arguments: tuple[Any, ...], about: str) -> Any:
        assert self.function is not None
        try:
            return self.function(*arguments)
        except TypeError as error:
            raise InputError(
                f"the {self.kind} of {self.owner} failed{about}: {error}",
                where=self.place,
                hint=f"compute with nodes of one type: {SCALED},\n"
                "functions such as sqrt are in chainrule.primitives.arithmetic",
            ) from error

    def _refuse_others(self, made: list[Any], about: str) -> None:
        wrong = [_shown(value) for value in made if not isinstance(value, Node)]
        if wrong:
            raise self.refused(f"returned {wrong[0]} in place of a node{about}")

    def _refuse_other_type(self, node: Node, about: str) -> None:
        if node.shape or node.dtype != np.float64:
            raise self.refused(f"returned {node.type}{about}, which is no float64[]")


def _shown(value: Any) -> str:
    if isinstance(value, Node):
        return "a node"
    if isinstance(value, np.ndarray):
        return f"a NumPy array {value.dtype.name}{list(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"
