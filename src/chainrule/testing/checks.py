"""The table of checks that every primitive passes on every sample."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.sizes.sizes import Size, size
from chainrule.graph.types import type_of
from chainrule.primitives.primitive import Fold, Given, Map, Primitive, Sample
from chainrule.primitives.sources import input_
from chainrule.testing.gradients import check_gradients, check_modes_agree
from chainrule.testing.kernels import evaluate_expression
from chainrule.testing.samples import (
    as_function,
    input_names,
    sample_arrays,
    sample_graph,
)
from chainrule.tracebacks import entry
from chainrule.transforms.batch import batch

DTYPES = ("float32", "float64")

# Two ways of computing one float64 sum of a few products, or one function by two formulas.
CLOSE = 1e-13


def _refuse(primitive: Primitive, sample: Sample, what: str) -> AssertionError:
    return AssertionError(f"{primitive.name}: {what}\n  sample: {sample}")


def _has_value(primitive: Primitive) -> bool:
    """Whether the primitive computes its value; arguments come from outside."""
    return not isinstance(primitive.kernel, Given)


def is_differentiable(primitive: Primitive, sample: Sample) -> bool:
    arrays = sample_arrays(sample)
    out = primitive.result_type(*map(type_of, arrays), **dict(sample.params))
    return out.is_float and any(dtype_kind(array.dtype) == "f" for array in arrays)


def check_type(primitive: Primitive, sample: Sample, seed: int) -> None:
    """The declared result type is that of the evaluated array, whatever the float dtype."""
    if not _has_value(primitive):
        return
    for dtype in DTYPES if any(isinstance(d, tuple) for d in sample.domains) else ("float64",):
        arrays = sample_arrays(sample, seed, dtype)
        params = dict(sample.params)
        declared = primitive.result_type(*map(type_of, arrays), **params)
        got = np.asarray(primitive.evaluate(np, *arrays, **params))
        if (got.dtype, got.shape) != (declared.dtype, declared.shape):
            what = f"declared {declared}, evaluated to {got.dtype.name}{list(got.shape)}"
            raise _refuse(primitive, sample, what)


def check_derivatives(primitive: Primitive, sample: Sample, seed: int) -> None:
    """Orders 1 and 2 against finite differences in float64, in both modes, of p + p²: where p is 0,
    its derivatives are those of p, and elsewhere the cotangent that the rules get is not constant,
    so that the second derivative differentiates the rules by it too."""
    if not sample.smooth or not is_differentiable(primitive, sample):
        return
    arrays = sample_arrays(sample, seed, "float64")
    function = as_function(primitive, **dict(sample.params))
    out = primitive.evaluate(np, *arrays, **dict(sample.params))
    largest = float(np.max(np.abs(out), initial=0.0)) or 1.0

    def with_square(*arrays: Any) -> Any:
        out = function(*arrays)
        return out + out * out / largest

    with_square.__name__ = primitive.name
    check_gradients(with_square, *arrays, seed=seed)


def check_agreement(primitive: Primitive, sample: Sample, seed: int) -> None:
    """<u, J v> = <Jᵀ u, v>, also where finite differences do not apply."""
    if is_differentiable(primitive, sample):
        arrays = sample_arrays(sample, seed, "float64")
        check_modes_agree(as_function(primitive, **dict(sample.params)), *arrays, seed=seed)


def check_batching(primitive: Primitive, sample: Sample, seed: int) -> None:
    """The batched graph equals a loop, for every choice of batched inputs and two batch sizes:
    the literal 1, which broadcasts, and a named size."""
    count = len(sample.shapes)
    for chosen in itertools.product((False, True), repeat=count):
        for declared, length in (1, 1), (size("batch"), 3):
            if any(chosen):
                _check_batch(primitive, sample, seed, chosen, declared, length)


def _check_batch(
    primitive: Primitive,
    sample: Sample,
    seed: int,
    chosen: tuple[bool, ...],
    declared: int | Size,
    length: int,
) -> None:
    examples = [sample_arrays(sample, seed + k) for k in range(length)]
    one = sample_graph(primitive, sample, examples[0])
    names = input_names(primitive, len(chosen))
    batched = [name for name, has in zip(names, chosen, strict=True) if has]
    together = {
        name: np.stack([example[i] for example in examples]) if has else examples[0][i]
        for i, (name, has) in enumerate(zip(names, chosen, strict=True))
    }
    got = batch(one, declared, batched).run(together).outputs[0]
    loop = []
    for k in range(length):
        own = {n: together[n][k] if n in batched else together[n] for n in names}
        loop.append(one.run(own).outputs[0])
    expected = np.stack(loop)
    same = got.shape == expected.shape and got.dtype == expected.dtype
    if not same or not _close(got, expected):
        at = f"batching {batched} by {declared} (length {length})"
        raise _refuse(primitive, sample, f"{at} gives\n{got}\nand a loop\n{expected}")


def _close(got: np.ndarray, expected: np.ndarray) -> bool:
    if dtype_kind(expected.dtype) != "f":
        return bool(np.array_equal(got, expected))
    scale = float(np.max(np.abs(expected), initial=0))
    return bool(np.all(np.abs(got - expected) <= CLOSE * scale))  # NaN is not


def check_flops(primitive: Primitive, sample: Sample, seed: int) -> None:
    """The count of operations is an int of at least 0 for concrete shapes."""
    types = map(type_of, sample_arrays(sample, seed))
    inputs = [input_(index=index, type=type_) for index, type_ in enumerate(types)]
    flops = primitive.flops(primitive(*inputs, **dict(sample.params)))
    if type(flops) is not int or flops < 0:
        raise _refuse(primitive, sample, f"flops are {flops!r}, not an int of at least 0")


def check_kernel(primitive: Primitive, sample: Sample, seed: int) -> None:
    """A kernel's scalar expression computes what the evaluation computes."""
    arrays, params = sample_arrays(sample, seed), dict(sample.params)
    names = dict(zip(primitive.inputs, arrays, strict=False))
    match primitive.kernel:
        case Map(expression):
            got = _expression(primitive, sample, expression, {**params, **names})
        case Fold(combine, initial) if not ("argmax" in combine or "argmin" in combine):
            got = _folded(primitive, sample, combine, initial, arrays[0], params["axes"])
        case _:
            return
    expected = np.asarray(primitive.evaluate(np, *arrays, **params))
    if got.shape != expected.shape or not _close(got, expected):
        what = f"{primitive.kernel} gives\n{got}\nand the evaluation\n{expected}"
        raise _refuse(primitive, sample, what)


def _expression(
    primitive: Primitive, sample: Sample, expression: str, names: dict[str, Any]
) -> np.ndarray:
    try:
        with np.errstate(all="ignore"):  # of `where` both sides are computed
            return np.asarray(evaluate_expression(expression, names))
    except ValueError as error:
        raise _refuse(primitive, sample, f"its kernel cannot be read: {error}") from error


def _folded(
    primitive: Primitive,
    sample: Sample,
    combine: str,
    initial: str,
    x: np.ndarray,
    axes: tuple[int, ...],
) -> np.ndarray:
    """The reduction over `axes`, one element after another."""
    rows = np.moveaxis(x, axes, tuple(range(len(axes))))
    rows = rows.reshape(-1, *rows.shape[len(axes) :])
    start = np.full(rows.shape[1:], float(initial), x.dtype)

    def step(total: np.ndarray, row: np.ndarray) -> np.ndarray:
        return _expression(primitive, sample, combine, {"x": total, "y": row})

    return functools.reduce(step, rows, start)


def latex_of(primitive: Primitive, sample: Sample) -> str:
    """The template with its inputs' own names (and `f` for the name of an argument)."""
    names = {name: name[0] for name in primitive.inputs}
    return primitive.latex.template.format(**{"name": "f", **dict(sample.params), **names})


def check_latex(primitive: Primitive, sample: Sample, seed: int) -> None:
    """The equation's template is complete, knows its inputs, and its braces are balanced."""
    latex = primitive.latex
    if len(latex.operands) != len(primitive.inputs):
        raise _refuse(primitive, sample, f"{latex} needs a binding for each of {primitive.inputs}")
    for name in primitive.inputs:
        if "{" + name + "}" not in latex.template:
            raise _refuse(primitive, sample, f"{latex.template!r} does not show {name}")
    try:
        text = latex_of(primitive, sample)
    except (KeyError, IndexError, ValueError) as error:
        raise _refuse(primitive, sample, f"{latex.template!r} cannot be filled in") from error
    depth = 0
    for sign in text:
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            break
    if depth:
        raise _refuse(primitive, sample, f"the braces of {text!r} are not balanced")


Check = Callable[[Primitive, Sample, int], None]

CHECKS: dict[str, Check] = {
    "type": check_type,
    "derivatives": check_derivatives,
    "agreement": check_agreement,
    "batching": check_batching,
    "flops": check_flops,
    "kernel": check_kernel,
    "latex": check_latex,
}


@entry
def check_primitive(primitive: Primitive, seed: int = 0) -> None:
    """Run every check on every sample of a primitive, for instance one of your own.

    Raises AssertionError (GradientCheckError for a derivative) at the first that fails.
    """
    for sample in primitive.samples:
        for check in CHECKS.values():
            check(primitive, sample, seed)
