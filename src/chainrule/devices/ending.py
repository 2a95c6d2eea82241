"""Ends a whole job where one rank fails: others would wait for it for ever.

An exception that nobody catches is printed once, and the job ends with code 70.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from chainrule.devices.job import folder, launched

FAILED = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130
PATIENCE = 1.0  # seconds for what may itself hang
FORWARDING = 0.1  # seconds in which mpiexec passes on what was printed

_abort: Callable[[int], Any] | None = None
_installed = False


def install(abort: Callable[[int], Any] | None = None) -> None:
    """From now on, what is raised and not caught ends the job: by `abort`, once it is known."""
    global _abort, _installed
    _abort = abort or _abort
    if not _installed:
        _installed = True
        sys.excepthook = _uncaught
        threading.excepthook = _uncaught_in_thread


def end_job(text: str, code: int = FAILED) -> None:
    """Says why, once for all ranks, and ends them; does not return."""
    sys.stdout.flush()
    threading.Thread(target=_end_hard, args=(code,), daemon=True).start()  # Abort itself may hang
    where = folder()
    if where is not None and where.tells_failure(text, code):
        time.sleep(PATIENCE)  # the launcher is faster
    else:
        print(text.rstrip("\n"), file=sys.stderr, flush=True)
        time.sleep(FORWARDING)
    if _abort is not None:
        _abort(code)
    os._exit(code)


def _end_hard(code: int) -> None:
    time.sleep(2 * PATIENCE)
    os._exit(code)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    while trace is not None and trace.tb_next is not None and _starts(trace):
        trace = trace.tb_next
    rank, count = launched() or (0, 1)
    lines = traceback.format_exception(kind, error, trace)
    text = f"{''.join(lines)}(on rank {rank} of {count})"
    end_job(text, INTERRUPTED if issubclass(kind, KeyboardInterrupt) else FAILED)


def _starts(trace: TracebackType) -> bool:
    """Whether a frame only started the user's file."""
    name = trace.tb_frame.f_globals.get("__name__")
    file = os.path.basename(trace.tb_frame.f_code.co_filename)
    return name == "runpy" or file in ("started.py", "<frozen runpy>")


def _uncaught_in_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_value is not None and not issubclass(found.exc_type, SystemExit):
        _uncaught(found.exc_type, found.exc_value, found.exc_traceback)
