"""A fork waits until no other thread makes code, multiplies, or imports for it.

A child process has only the thread that forked.  A lock that another one holds at that moment
stays held in the child for ever, and what it guards stays half done.

What is outside our hands: modules of others that are being imported, and BLAS and LLVM where
others call them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import time
from contextlib import ExitStack
from threading import get_ident

making = threading.RLock()  # hold it while code is planned, compiled, loaded or unloaded: in LLVM
LOOK_SECONDS = 1e-4  # how often a fork looks whether products have ended
# Imported where they are needed first, without `making`; with all that these import themselves.
LATE = (
    "chainrule.graph.bind",
    "chainrule.graph.text",
    "chainrule.schedule.listing",
    "chainrule.schedule.placement.improve",
    "chainrule.plan.products.far_larger",
    "chainrule.plan.text",
    "chainrule.transforms.widen",
    "chainrule.execute.forms",
    "chainrule.execute.native.native_executor",
    "chainrule.execute.native.program",
    "chainrule.execute.plain",
    "chainrule.train.step.bound",
    "llvmlite.binding",
    "numpy.ma",
)

# The threads that may be in BLAS, whose locks nobody can free.  One that calls it adds itself, then
# calls `wait_for_forks` if there are any `under_way`, and at last takes itself out (0.1 µs in all).
multiplying: set[int] = set()
under_way: list[tuple[int, ExitStack]] = []  # forks: their threads, and what they hold


def wait_for_forks() -> None:
    """Return when no other thread forks; this one, which has not begun yet, is `multiplying`."""
    this = get_ident()
    multiplying.discard(this)
    with making:
        multiplying.add(this)


def _before() -> None:
    """Wait for the others, and keep them from beginning anew: first those that make code, which
    may multiply and import."""
    with making:
        locks, this = ExitStack(), get_ident()
        locks.enter_context(making)
        under_way.append((this, locks))
        _import_late()
        while multiplying - {this}:
            time.sleep(LOOK_SECONDS)


def _after() -> None:
    if under_way and under_way[-1][0] == get_ident():  # not if Ctrl-C came while `_before` waited
        under_way.pop()[1].close()


def _import_late() -> None:
    """Import what other threads may be importing: that waits for them.

    Only the first fork takes time for it (up to 0.1 s), and after it nothing is left to import.
    """
    for name in LATE:
        with contextlib.suppress(Exception):  # who needs the module is told
            importlib.import_module(name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
