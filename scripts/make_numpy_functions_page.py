"""Writes docs/numpy-functions.md: whether each NumPy function is differentiable, traced or refused.

    python scripts/make_numpy_functions_page.py

It traces the calls that the tests make; their graphs show which functions are differentiable.
"""

import sys
from pathlib import Path

import numpy as np

import chainrule as cr
from chainrule.frontend.functions.ufuncs import UFUNCS
from chainrule.frontend.hints.untraced import OF_NUMBERS, REFUSED
from chainrule.numpy.names import TABLE
from chainrule.primitives.primitive import Flat
from chainrule.transforms.vjp import depends_on

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "frontend"))  # no package: it has to be found first

from test_numpy_functions import CALLS, mapped  # noqa: E402  (the path above has it)

PAGE = ROOT / "docs" / "numpy-functions.md"
HEAD = """\
<!-- Written by scripts/make_numpy_functions_page.py; a test keeps it current. -->
# Every NumPy function

All functions of NumPy {version} and its `numpy.linalg`. On traced arrays, each is one of these:

* **differentiable**: traced, with derivatives of every order;
* **traced**: it becomes a part of the graph; its results are integers or booleans, or constant
  between jumps, so its derivative is zero where there is one;
* **of numbers**: its arguments are known while tracing, and NumPy itself answers;
* **refused**: an error shows your line and the reason.

[NumPy on traced arrays](numpy.md) lists the options that are traced and all differences from NumPy.
`numpy.fft` and `numpy.random` are not traced. Spectra are complex, and pairs of real arrays here
(`re, im = cr.fft.rfft(x)`); random numbers are [values of keys](random.md).

The test suites of PyTorch and autograd run against these functions, too. Values, gradients and
second derivatives are compared for 458 of 540 differentiable operations of PyTorch's database
OpInfo (2.13), under their own names or written with NumPy. `tests/opinfo/opinfo_excluded.py` lists
what is missing for the others: above all complex numbers, rarer special functions and PyTorch's own
random numbers. Of autograd's own tests (1.9.1), those of 118 of 119 differentiable functions pass,
without their complex cases. The two differ by convention at `np.linalg.eigvalsh`: NumPy reads one
triangle, and the derivative here is symmetric.

{counts}
"""


def functions():
    """(name, function) of all that NumPy and its linalg export."""
    for module, prefix in ((np, ""), (np.linalg, "linalg.")):
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if callable(value) and not isinstance(value, type):
                yield prefix + name, value


def is_differentiable(function) -> bool:
    """Whether a derivative flows through some call of the function that the tests make."""
    if function in UFUNCS:
        return not isinstance(UFUNCS[function].derivative, Flat)
    return any(flows(function, args, kwargs) for args, kwargs in CALLS[function])


def flows(function, args, kwargs) -> bool:
    """Whether a derivative flows from the arrays of a call to its results."""
    arrays = []
    mapped([args, list(kwargs.values())], lambda array: arrays.append(array) or array)

    def program(*traced):
        given = iter(traced)
        new = mapped([args, list(kwargs.values())], lambda array: next(given))
        return function(*new[0], **dict(zip(kwargs, new[1], strict=True)))

    graph = cr.trace(program, *arrays)
    floats = [item.node for item in graph.inputs if item.node.type.is_float]
    active = depends_on(graph.nodes, floats)
    return any(node in active for _, node in graph.outputs)


def status(name: str, function) -> tuple[str, str]:
    """What becomes of a function, and a remark."""
    if function in TABLE or function in UFUNCS:
        return ("differentiable" if is_differentiable(function) else "traced"), ""
    if name in OF_NUMBERS:
        return "of numbers", OF_NUMBERS[name]
    return "refused", REFUSED[name]


def page() -> str:
    """The whole text."""
    found = {name: status(name, function) for name, function in functions()}
    kinds = ("differentiable", "traced", "of numbers", "refused")
    counts = {kind: sum(one == kind for one, _ in found.values()) for kind in kinds}
    shown = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    rows = [f"| `np.{name}` | {kind} | {remark} |" for name, (kind, remark) in found.items()]
    head = HEAD.format(
        version=".".join(np.__version__.split(".")[:2]), counts=f"Of {len(found)}: {shown}."
    )
    return "\n".join([head, "| function | | |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
