"""Layers, activations and losses of neural networks, in PyTorch's conventions."""

import sys
from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    """Users of PyTorch look for the public functions here."""
    is_public = name in sys.modules["chainrule"].__all__
    hint = f": write chainrule.{name}" if is_public else ""
    raise AttributeError(f"module 'chainrule.nn' has no attribute {name!r}{hint}")
