"""Programs in files, so that messages see their source: on NumPy's arrays, traced, and refused."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError

HEAD = "import numpy as np\nimport chainrule as cr\nT = np.arange(12.0).reshape(4, 3)\n"
GIVEN = {
    "x": np.array([0.5, -1.5, 2.0]),
    "A": np.array([[1.0, 2.0], [3.0, 5.0]]),
    "i": np.array(2),
    "k": np.array([0, 3, 1]),
    "m": np.array([True, False, True]),
}
NUMBERS = itertools.count()


def module_of(source: str, folder: Path) -> Any:
    """The program `f(x, A, i, k, m)` with this body, in a file, so that messages see its source."""
    lines = source.splitlines()
    body = [*lines[:-1], lines[-1] if lines[-1].startswith("return") else f"return {lines[-1]}"]
    text = f"{HEAD}\n\ndef f({', '.join(GIVEN)}):\n" + "".join(f"    {line}\n" for line in body)
    path = folder / f"program_{next(NUMBERS)}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(source: str, folder: Path) -> np.ndarray:
    return np.asarray(module_of(source, folder).f(**{n: a.copy() for n, a in GIVEN.items()}))


def traced(source: str, folder: Path) -> np.ndarray:
    graph = cr.trace(module_of(source, folder).f, **GIVEN)
    needed = {item.name for item in graph.inputs}
    return graph.run({n: a for n, a in GIVEN.items() if n in needed}, keep="outputs").outputs


def refusal(source: str, folder: Path) -> ChainruleError:
    with pytest.raises(ChainruleError) as caught:
        traced(source, folder)
    return caught.value
