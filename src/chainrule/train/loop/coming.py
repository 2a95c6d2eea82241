"""The batches of an epoch, the next of which can be looked at while a step runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Coming:
    """Gives batches in turn.  `ahead` gives the arrays of the next one by their names, before its
    turn: nothing where there is none, or where making it raises, which its turn then does, too."""

    def __init__(self, batches: Iterator[Any], named: Callable[[Any], Mapping[str, Any]]) -> None:
        self._batches, self._named = batches, named
        self._made: list[Any] = []
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._made.pop() if self._made else next(self._batches)

    def ahead(self) -> Mapping[str, Any]:
        """See `Home.ahead`."""
        try:
            if not self._made:
                self._made.append(next(self._batches))
            return self._named(self._made[0])
        except StopIteration:
            return {}
        except Exception as error:
            self._error = None if self._made else error
            return {}

    def close(self) -> None:
        """End the batches, where they have to be ended."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
