"""NumPy's namespace: functions written with other traced functions."""

from typing import NoReturn

import numpy as np


def __getattr__(name: str) -> NoReturn:
    """Users of JAX look for NumPy's functions here."""
    hint = f": write numpy.{name}, NumPy's own is traced" if hasattr(np, name) else ""
    raise AttributeError(f"module 'chainrule.numpy' has no attribute {name!r}{hint}")
