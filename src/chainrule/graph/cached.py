"""A property that is computed once per object, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """As `functools.cached_property` from Python 3.12 on.

    That of Python 3.11 holds one lock for all objects while it computes: a child process that is
    forked meanwhile would wait for it for ever.  Two threads may both compute a value here; both
    get the one that was ready first.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: Any = None) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> T: ...
    def __get__(self, instance: object | None, owner: Any = None) -> cached_property[T] | T:
        if instance is None:
            return self
        return vars(instance).setdefault(self.name, self.compute(instance))
