"""The node cases of ONNX's own backend tests, run by chainrule."""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from chainrule.errors import UnsupportedError
from chainrule.exchange.from_onnx.importing import from_onnx
from chainrule.exchange.model import Model
from chainrule.graph.types import array_type

NEEDED = re.compile(r"computed from the input (.+)\n")


NODES = "onnx.backend.test.case.node"


@cache
def modules() -> list[str]:
    """The modules that make the cases, one for each operator."""
    package: Any = importlib.import_module(NODES)
    found = pkgutil.walk_packages(package.__path__, f"{NODES}.")
    return sorted(one.name for one in found if not one.ispkg)


def cases(wanted: Iterable[str]) -> dict[str, Any]:
    """The cases of modules by name: each is made, and computed by ONNX, where it is imported."""
    return {case.name: case for module in wanted for case in _made_by(module)}


@cache
def _made_by(module: str) -> list[Any]:
    every = importlib.import_module(NODES)._NodeTestCases
    count = len(every)
    importlib.import_module(module)
    return every[count:]


def arrays(case: Any) -> tuple[dict[str, np.ndarray], list[Any]]:
    """The inputs of a case by name, and its expected outputs."""
    given, wanted = ([_plain(one) for one in part] for part in case.data_sets[0])
    names = [one.name for one in case.model.graph.input]
    return dict(zip(names, given, strict=False)), wanted


def _plain(value: Any) -> Any:
    """Tensors of ONNX as arrays."""
    onnx: Any = importlib.import_module("onnx")
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def imported(case: Any, given: dict[str, Any]) -> tuple[Model, dict[str, Any]]:
    """The model, and the inputs that it takes: those that must be known are fixed."""
    arrays = {
        name: one
        for name, one in given.items()
        if isinstance(one, np.ndarray) and one.dtype.kind in "fiub" and one.dtype.isbuiltin == 1
    }
    fixed = {name: one for name, one in given.items() if name not in arrays}
    types = {name: array_type(one.dtype, one.shape) for name, one in arrays.items()}
    source = case.model.SerializeToString()
    while True:
        rest = {name: one for name, one in given.items() if name not in fixed}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return from_onnx(source, values=fixed, types=types), rest
        except UnsupportedError as error:
            found = NEEDED.search(str(error))
            needed = found.group(1).split(", ") if found else []
            if not needed or fixed.keys() & set(needed):
                raise
            fixed |= {name: given[name] for name in needed}


def results(model: Model, given: dict[str, Any], executor: str) -> list[np.ndarray]:
    run = model.graph.run({**model.parameters, **given}, executor=executor, keep="outputs")
    return [run[name] for name, _ in model.graph.outputs]


def flat(wanted: list[Any]) -> list[Any]:
    """The outputs with sequences as their arrays."""
    return [one for part in wanted for one in (part if isinstance(part, list) else [part])]


def difference(case: Any, found: list[np.ndarray], wanted: list[Any]) -> str:
    """What differs; empty where all agrees within the tolerance of the case."""
    for place, (a, b) in enumerate(zip(found, flat(wanted), strict=True)):
        b = np.asarray(b)
        if a.shape != b.shape:
            return f"output {place} has shape {a.shape}, not {b.shape}"
        if a.dtype != b.dtype:
            return f"output {place} is {a.dtype}, not {b.dtype}"
        largest = np.max(np.abs(b[np.isfinite(b)]), initial=0) if b.dtype.kind == "f" else 0
        close = max(case.atol, 1e-7, 2e-7 * float(largest))  # a rounding of what is cancelled
        if not np.allclose(a, b, rtol=case.rtol, atol=close, equal_nan=True):
            gap = np.nanmax(np.abs(a.astype(float) - b.astype(float)), initial=0)
            return f"output {place} differs by {gap}"
    return ""
