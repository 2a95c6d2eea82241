"""Loads the optional package `onnx`, or says how to install it."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from chainrule.errors import UnsupportedError


def onnx_package(asked: str) -> Any:
    """The package `onnx` with its helpers; UnsupportedError, for what was `asked`, without it."""
    try:
        package = importlib.import_module("onnx")
        for part in ("helper", "numpy_helper", "defs", "shape_inference"):
            importlib.import_module(f"onnx.{part}")
    except ImportError as error:
        found = sys.modules.get("onnx")
        if found is not None and not hasattr(found, "__path__"):
            raise UnsupportedError(
                f"{asked} needs the package onnx, and Python found {found.__file__} instead",
                hint="give that file another name",
            ) from None
        raise UnsupportedError(
            f"{asked} needs the package onnx, which is not installed ({error})",
            hint="pip install 'chainrule[onnx]'",
        ) from None
    return package
