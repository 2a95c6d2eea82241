"""Raises the errors of composites at the user's line."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from chainrule.errors import ChainruleError, UnsupportedError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.traced import Traced


def refuse(kind: type[ChainruleError], given: Any, what: str, hint: str) -> NoReturn:
    """Raise an error of this kind; the line is where the traced array among `given` is used."""
    trace = trace_of(given)
    raise kind(what, where=trace.where() if trace is not None else "", hint=hint)


def require_flag(given: Any, value: Any, asked: str) -> None:
    """UnsupportedError, a TypeError, unless this is True or False: "yes" would count as True.

    `asked` is how the message calls it: "max_pool1d: ceil_mode".
    """
    if not isinstance(value, (bool, np.bool_)):
        name = asked.rpartition(" ")[2]
        refuse(
            UnsupportedError,
            given,
            f"{asked}={value!r} is neither True nor False",
            f"{name}=True, or leave {name}= out",
        )


def shown(x: Any) -> str:
    """How a message calls an array: by its name and type, or by its type."""
    if isinstance(x, Traced):
        return x.program.show(x.node)
    array = np.asarray(x)
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"
