"""`explained` explains calls whose arguments do not fit the signature."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from chainrule.errors import InputError
from chainrule.tracebacks import entry

P = ParamSpec("P")
R = TypeVar("R")


def explained(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with InputError in place of Python's TypeError about its arguments."""
    return explained_in("cr")(function)


def explained_in(module: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`explained` for functions that users call as members of `module`."""

    def explaining(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise InputError(
                    f"{module}.{function.__name__}: {error}",
                    hint=f"its arguments are: {', '.join(_shown(signature))}",
                ) from None
            return function(*args, **kwargs)

        return entry(called)

    return explaining


def _shown(signature: inspect.Signature) -> list[str]:
    found = []
    for parameter in signature.parameters.values():
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        found.append(f"{parameter.name}{default}")
    return found
