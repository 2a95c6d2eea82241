"""Makes the functions that transforms return picklable, as the call that makes them again."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, ParamSpec

from chainrule.errors import UnsupportedError
from chainrule.graph.frozen import Frozen
from chainrule.tracebacks import told_in_place_of

P = ParamSpec("P")


class Made(functools.partial):
    """What `cr.grad(f)` and its like give: as a function it is its own copy, and may be a method.

    A pickle of it holds no code: only the names of `f` and of the transform, which makes it again.
    """

    def __new__(cls, function: Callable[..., Any], maker: str, made_of: tuple[Any, ...]) -> Made:
        made = super().__new__(cls, function)
        functools.update_wrapper(made, function)
        made.__dict__["_made_by"] = maker, made_of
        return made

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __copy__(self) -> Made:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Made:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        if _named(self) is self:  # f = cr.compile(f), or @cr.compile
            return self.__dict__["__qualname__"]
        maker, made_of = self.__dict__["_made_by"]
        function = made_of[0][0] if made_of[0] else None
        if isinstance(function, FunctionType) and _named(function) is not function:
            raise UnsupportedError(
                f"cr.{maker}({function.__name__}) cannot be pickled: no module has its function "
                f"under the name {function.__qualname__}",
                hint="define the function at the top of a module, or send the arrays alone, and "
                f"make cr.{maker}(...) where they arrive",
            )
        return _made_again, (maker, *made_of)


class Pull(Frozen, functools.partial):
    """The `pull` of `cr.vjp`, which holds the values of one forward pass."""

    _called = "the pull of cr.vjp"
    _instead = "send the arguments of cr.vjp, and call it there"


def makes_a_function(maker: Callable[P, Any]) -> Callable[P, Any]:
    """An `entry` that transforms the user's functions; what it gives is pickled as they are."""

    @functools.wraps(maker)
    def make(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            made = maker(*args, **kwargs)
        except Exception as error:
            told = told_in_place_of(error, maker, args, kwargs)
            if told is not error:
                raise told from None
            raise
        is_function = isinstance(made, FunctionType)
        return Made(made, maker.__name__, (args, kwargs)) if is_function else made

    return make


def _made_again(maker: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(importlib.import_module("chainrule"), maker)(*args, **kwargs)


def _named(function: Any) -> Any:
    """What the module of a function has under its name."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found
