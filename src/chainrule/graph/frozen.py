"""Refuses to pickle objects that hold a graph; `copy` returns frozen objects themselves."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

from chainrule.errors import UnsupportedError


class NotPickled:
    """The base of what holds a graph: copied as other objects are, and not pickled.

    UnsupportedError, a TypeError, where one is pickled.
    """

    __slots__ = ()
    _called: ClassVar[str]
    _instead: ClassVar[str] = (
        "send the function, and trace it there: cr.trace(f); str(graph) is its text; arrays and "
        "runs go by np.savez(file, **arrays)"
    )

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        other = memo[id(self)] = object.__new__(type(self))
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other

    def __reduce_ex__(self, protocol: object) -> Any:
        raise UnsupportedError(
            f"unpickling can run arbitrary code, so {self._called} cannot be pickled",
            hint=self._instead,
        )


class Frozen(NotPickled):
    """The base of graphs and what is made of them: `copy` and `deepcopy` give the thing itself.

    Nodes are equal only to themselves, so a true copy of a graph would know none of the nodes that
    others hold.
    """

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
