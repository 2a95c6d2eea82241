"""Every composite, forward and backward, has the reference executor's values."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emitted import VECTORS
from executing import compare, inputs_of
from noting import noted

import chainrule as cr
from chainrule.execute.run import kept_nodes

sys.path.append(str(Path(__file__).parents[2] / "composites"))
import elementwise_cases  # type: ignore[import-not-found]  # noqa: F401  (adds to CASES)
import neural_cases  # type: ignore[import-not-found]  # noqa: F401  (adds to CASES)
import reduction_cases  # type: ignore[import-not-found]  # noqa: F401  (adds to CASES)
from composite_cases import CASES  # type: ignore[import-not-found]

RTOL = {"float64": 1e-11, "float32": 2e-4}  # gradients of both orders are sums of both signs


def scalar(call: Any, weight: Any = None) -> Any:
    """A scalar function of the arguments, in which every element of the result matters."""

    def J(*args: Any) -> Any:
        out = call(*args)
        return np.sum(np.sin(out) + out * (0.3 if weight is None else weight))

    return J


def check(call: Any, arguments: list[np.ndarray], orders: int, **options: Any) -> None:
    """Values and derivatives of a scalar function, those of all orders in one graph."""
    graph = cr.trace(call, *arguments)
    places = tuple(item.name for item in graph.inputs)
    given = dict(zip(places, arguments, strict=True))
    graph = cr.backward(graph, wrt=places)
    keep = "outputs"
    if orders > 1:
        of = graph.outputs[1][0]
        graph, keep = cr.backward(graph, wrt=places, of=of, seed="direction"), "named"
        given["direction"] = np.cos(np.arange(arguments[0].size, dtype=arguments[0].dtype))
        given["direction"] = given["direction"].reshape(arguments[0].shape)
        assert {"out", of} < {name for name, _ in graph.outputs}
    rtol = RTOL[arguments[0].dtype.name]
    compare(graph, inputs_of(graph, given), kept_nodes(graph, keep), rtol, **options)


CALLS = {one.text: [case for case in CASES if case.text == one.text] for one in CASES}


@pytest.mark.sweep(41)
@pytest.mark.parametrize("call", CALLS)
def test_values_and_derivatives_of_every_composite(call: str) -> None:
    """In the first of its shapes, often a scalar; of order 2 in the last, which has most axes."""
    first, last = CALLS[call][0], CALLS[call][-1]
    for case in dict.fromkeys((first, last)):
        with noted(case.name):
            check(scalar(case.call), case.arguments(), orders=2 if case is last else 1)


@pytest.mark.slow
@pytest.mark.parametrize("call", list(CALLS)[::11])  # what narrow vectors change is in the loops
def test_values_and_derivatives_in_float32(call: str, narrow_vectors: str) -> None:
    case = CALLS[call][-1]
    check(scalar(case.call), [x.astype(np.float32) for x in case.arguments()], orders=1)


# Along every axis, of operands that lie in memory in every way -----------------------------------


def labels(shape: tuple[int, ...], classes: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape) * 7 % classes


def cross_entropy(x: Any, axis: int) -> Any:
    return cr.cross_entropy(x, labels(x.shape[:-1], x.shape[-1]), "none")


ALONG = {
    "softmax": lambda x, axis: cr.softmax(x, axis=axis),
    "log_softmax": lambda x, axis: cr.log_softmax(x, axis=axis),
    "logsumexp": lambda x, axis: cr.logsumexp(x, axis),
    "layer_norm": lambda x, axis: cr.layer_norm(x, axis=axis),
    "var": lambda x, axis: cr.var(x, axis=axis),
    "std": lambda x, axis: cr.std(x, axis=axis, keepdims=True) * x,
    "norm": lambda x, axis: x / cr.norm(x, axis=axis, keepdims=True),
    "mean": lambda x, axis: np.mean(x, axis=axis) ** 2,
    "max": lambda x, axis: np.max(x, axis=axis, keepdims=True) * x,
    "sums": lambda x, axis: x / (2 + np.sum(np.abs(x), axis=axis, keepdims=True)) + np.sum(x),
    "cross_entropy": cross_entropy,
    "embedding": lambda x, axis: cr.embedding(x, labels((3, 2), x.shape[0])),
    "gelu": lambda x, axis: cr.gelu(x) + cr.gelu(x, approximate="tanh"),
    "residual": lambda x, axis: cr.layer_norm(x + cr.softmax(cr.layer_norm(x), axis=axis)),
}
OPERANDS = {
    "plain": lambda x: x,
    "transposed": lambda x: np.transpose(x),
    "reversed": lambda x: x[::-1],
    "sliced": lambda x: x[..., ::-2],
    "broadcast": lambda x: np.broadcast_to(x[..., :1], x.shape) + x[:1],
    "concatenated": lambda x: np.concatenate([x, 2 * x], axis=0),
    "padded": lambda x: np.pad(x, ((1, 0),) * x.ndim),
    "computed": lambda x: np.tanh(x) * x,
    "reshaped": lambda x: np.reshape(x, (-1, x.shape[0])),
    "product": lambda x: x @ np.ones((x.shape[-1], 3)),
}
SHAPES = ((9,), (17, 5), (4, 33), (3, 4, 5), (2, 3, 1, 6), (2, 2, 3, 19), (1, 40), (6, 1))


def situations() -> list[tuple[str, str, tuple[int, ...], Any]]:
    """Functions of operands of shapes, of which every two meet, along one axis each."""
    found = []
    for f, function in enumerate(ALONG):
        for o, operand in enumerate(OPERANDS):
            shape = SHAPES[(f + o) % len(SHAPES)]
            fixed = function in ("cross_entropy", "embedding", "gelu")
            axes: list[Any] = [-1] if fixed else [*range(-1, len(shape) - 1)]
            if len(shape) > 2 and not fixed and function not in ("norm", "softmax", "residual"):
                axes += [(0, 2), (1, 2), (0, 1)]
            found.append((function, operand, shape, axes[(f + 2 * o) % len(axes)]))
    return found


SITUATIONS = situations()


def check_situation(function: str, operand: str, shape: Any, axis: Any, **options: Any) -> None:
    x = np.random.default_rng(len(shape)).uniform(-2, 2, shape)

    def J(x: Any) -> Any:
        y = OPERANDS[operand](x)
        along = axis if isinstance(axis, int) else tuple(one % y.ndim for one in axis)
        if not isinstance(along, int) and len(set(along)) < len(along):
            along = 0
        if isinstance(along, int) and y.ndim <= along:
            along = 0
        return scalar(lambda y: ALONG[function](y, along), 1.7)(y)

    check(J, [x], orders=1, **options)


@pytest.mark.slow
@pytest.mark.sweep(3)
@pytest.mark.parametrize("number", range(3))
def test_some_operands_along_some_axes(number: int) -> None:
    for situation in random.Random(number).sample(SITUATIONS, 8):
        check_situation(*situation, threads=1 + number % 3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("function", ALONG)
def test_all_functions_of_all_operands(function: str, every_width: str) -> None:
    """Each operand with one width of vectors."""
    check_operands(function, every_width, 1)


@pytest.mark.slow
@pytest.mark.sweep(3)
@pytest.mark.parametrize("function", ALONG)
def test_all_functions_of_some_operands(function: str, every_width: str) -> None:
    check_operands(function, every_width, 3)


def check_operands(function: str, width: str, every: int) -> None:
    mine = [one for one in SITUATIONS if one[0] == function]
    number = [*ALONG].index(function) + VECTORS.index(width)
    step = every * len(VECTORS)
    for situation in mine[number % step :: step]:
        with noted(situation):
            check_situation(*situation)
