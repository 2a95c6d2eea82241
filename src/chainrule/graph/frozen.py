"""Makes copies of what never changes the thing itself, and refuses to pickle it."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from chainrule.errors import UnsupportedError


class Frozen:
    """The base of graphs and what is made of them: `copy` and `deepcopy` give the thing itself.

    Nodes are equal only to themselves, so a true copy of a graph would know none of the nodes that
    others hold.  UnsupportedError, a TypeError, where one is pickled.
    """

    __slots__ = ()
    _called: ClassVar[str]
    _instead: ClassVar[str] = (
        "send the function, and trace it there: cr.trace(f); str(graph) is its text; arrays and "
        "runs go by np.savez(file, **arrays)"
    )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> Any:
        raise UnsupportedError(
            f"{self._called} is not pickled: what reads a pickle runs what stands in it",
            hint=self._instead,
        )
