"""Imports PyTorch where it is asked for, or says how to install it."""

from __future__ import annotations

from types import ModuleType

from chainrule.errors import InputError


def imported_torch(asked: str) -> ModuleType:
    """PyTorch, or InputError that says how to install it."""
    try:
        import torch
    except ImportError as error:
        raise InputError(
            f"{asked} needs PyTorch, which cannot be imported: {error}",
            hint="pip install torch; without it, models come in as ONNX or weights as safetensors",
        ) from error
    return torch
