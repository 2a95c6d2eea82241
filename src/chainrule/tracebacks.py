"""Removes this library's frames from tracebacks, so that they end at the user's line.

`CHAINRULE_TRACEBACK=full` keeps all frames.  So does an exception that is a fault of this library,
and no refusal: its report needs them.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

from chainrule.errors import ChainruleError, InvariantError, ScheduleError

P = ParamSpec("P")
R = TypeVar("R")
OURS = "chainrule"
FAULTS = (InvariantError, ScheduleError)  # of this library
THROUGH = ("numpy", "scipy", "optree", "contextlib", "functools")  # that lie between ours


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """A public function whose errors show the user's lines, and the arguments that it has where it
    is called with others; costs nothing but a call.

    What is called in microseconds has `except Exception as error: shorten(error); raise` instead.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            told = told_in_place_of(error, function, args, kwargs)
            if told is not error:
                raise told from None
            raise

    return call


def told_in_place_of(
    error: Exception, function: Callable[..., Any], args: Any, kwargs: Any
) -> Exception:
    """The error itself, shortened; what says which arguments the function has, where that is why it
    was raised."""
    if isinstance(error, TypeError) and not isinstance(error, ChainruleError):
        from chainrule.signatures import refused_call  # if refused

        told = refused_call(function, args, kwargs)
        if told is not None:
            return told
    shorten(error)
    return error


def shorten(error: BaseException) -> None:
    """Take this library's frames out of the traceback of an error, and of those that caused it.

    The frames that are left are those that were there: debuggers go through them as ever.
    """
    if os.environ.get("CHAINRULE_TRACEBACK") == "full":
        return
    links = _links(error.__traceback__)
    is_refusal = isinstance(error, (ChainruleError, Warning)) and not isinstance(error, FAULTS)
    if not links or (not is_refusal and _is_ours(links[-1].tb_frame)):
        return
    error.__traceback__ = _joined(_kept(links))
    seen, cause = {id(error)}, error.__cause__ or error.__context__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        links = _links(cause.__traceback__)
        cause.__traceback__ = _joined(_kept(links) or links[-1:])
        cause = cause.__cause__ or cause.__context__


def warn_user(text: str, category: type[Warning]) -> None:
    """A warning at the line of the nearest frame that is not this library's."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and (_is_ours(frame) or _package(frame) in THROUGH):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def _links(traceback: TracebackType | None) -> list[TracebackType]:
    found = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found


def _kept(links: list[TracebackType]) -> list[TracebackType]:
    """The links of the user's frames: without ours, and what other libraries ran between."""
    ours = [place for place, one in enumerate(links) if _is_ours(one.tb_frame)]
    kept = []
    for place, one in enumerate(links):
        between = bool(ours) and place < ours[-1] and _package(one.tb_frame) in THROUGH
        if place not in ours and not between:
            kept.append(one)
    return kept


def _joined(links: list[TracebackType]) -> TracebackType | None:
    """One traceback of these links."""
    found = None
    for one in reversed(links):
        found = TracebackType(found, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return found


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _is_ours(frame: FrameType) -> bool:
    is_program = frame.f_globals.get("__user_program__", False)
    return _package(frame) == OURS and not is_program
