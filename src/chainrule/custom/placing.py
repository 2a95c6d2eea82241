"""Finds where in the user's source a custom operation is called, and the name of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from chainrule.frontend.naming import user_frame
from chainrule.frontend.trace import Trace, call_traced
from chainrule.graph.origin import Origin


@contextmanager
def placed(
    trace: Trace, frame: FrameType | None, function: Callable[..., Any]
) -> Iterator[FrameType | None]:
    """While it lasts, nodes come from the user's line that called `function` from `frame`.

    Gives the frame whose source may name the result: None inside another operation, and where the
    function is itself what is traced or differentiated.
    """
    outer = trace.site
    found, called_by_user = _caller(frame)
    try:
        if outer is not None:
            yield None
        elif found is None:
            trace.site = Origin(getattr(function, "__code__", None), -1)
            yield None
        else:
            yield trace.enter(found) if called_by_user else _entered(trace, found)
    finally:
        trace.site = outer


def _entered(trace: Trace, frame: FrameType) -> None:
    trace.enter(frame)


def _caller(frame: FrameType | None) -> tuple[FrameType | None, bool]:
    """The user's frame that the call came from, within the traced program; and whether nothing
    but chainrule's own code lies between that does not hand the result on."""
    direct = True
    while frame is not None and user_frame(frame) is not frame:
        if frame.f_code is call_traced.__code__:
            direct = False
            if not frame.f_locals["nested"]:
                return None, False
        frame = frame.f_back
    return frame, direct
