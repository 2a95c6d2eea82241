"""Many cases in one test: what fails says in which case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def noted(case: object) -> Iterator[None]:
    """What fails in here has a note with the case."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in {case}")
        raise
