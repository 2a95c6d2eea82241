"""What tests of frozen values share: the warnings that a call gives, and the lines they name."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import Any

from chainrule.errors import FrozenRandomWarning
from chainrule.frontend.frozen import frozen_random


def told_by(run: Callable[[], Any]) -> list[warnings.WarningMessage]:
    """The warnings of `run`, as in a new process: each place is told once."""
    frozen_random._told.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        run()
    assert all(issubclass(one.category, FrozenRandomWarning) for one in caught)
    return caught


def line_of(told: warnings.WarningMessage) -> str:
    """The source line that a warning names."""
    return linecache.getline(told.filename, told.lineno)
