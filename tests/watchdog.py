"""Ends a process of pytest in which a test hangs, and says where it does.

Pytest's own `faulthandler_timeout` starts and ends a thread for each test, and waits for both: one
or two milliseconds where all cores are busy.  Here one watch is kept over many tests.
"""

import faulthandler
import os
import time

LONGEST = 600  # seconds that a test may take; the longest takes about a minute
RENEWED = 30  # seconds after which a new thread counts from the beginning


class Watchdog:
    """A plugin of pytest: see its documentation for the hooks."""

    def __init__(self):
        self._stderr = os.dup(2)  # while nothing is captured: tests have another
        self._begun = None

    def pytest_runtest_logstart(self):
        now = time.monotonic()
        if self._begun is None or now - self._begun > RENEWED:
            faulthandler.dump_traceback_later(LONGEST, file=self._stderr, exit=True)
            self._begun = now

    def pytest_exception_interact(self):
        """Pytest cancels it: somebody may look into the error with a debugger."""
        self._begun = None

    def pytest_enter_pdb(self):
        self._begun = None

    def pytest_unconfigure(self):
        faulthandler.cancel_dump_traceback_later()
        os.close(self._stderr)
