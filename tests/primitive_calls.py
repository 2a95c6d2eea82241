"""Calls of primitives on the arrays of their samples, and how close an executor must come."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from exact_special import EXACT_SPECIAL

from chainrule.execute import reference
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import Node
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import ordered
from chainrule.graph.types import type_of
from chainrule.primitives.primitive import Contract, Fold, Gather, Primitive, Sample
from chainrule.primitives.sources import input_
from chainrule.testing.samples import sample_arrays

Call = tuple[Primitive, list[np.ndarray], dict[str, Any]]
Run = Callable[[Graph, Mapping[Node, Any], list[Node]], Any]

FLOATS = ("float32", "float64", "float16")
WHOLE = ("int64", "int32", "uint8", "int8", "uint64", "bool")
EXCEPTIONAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-320, 1e-40, -1e-40, 1e308]
LARGEST = {"float16": 6e4, "float32": 3e38, "float64": 1e308}


def groups(primitives: Sequence[Primitive], of: int) -> dict[str, Sequence[Primitive]]:
    """So many at a time, by their names: code is made once for all of a group."""
    parts = [primitives[place : place + of] for place in range(0, len(primitives), of)]
    return {" ".join(one.name for one in part): part for part in parts}


def as_dtype(arrays: list[np.ndarray], dtype: str) -> list[np.ndarray]:
    """Floats in the dtype; indices and conditions as they are."""
    with np.errstate(all="ignore"):
        return [
            (x * 3 if np.dtype(dtype).kind in "iu" else x).astype(dtype)
            if x.dtype.kind == "f"
            else x
            for x in arrays
        ]


def applies(primitive: Primitive, arrays: list[np.ndarray], params: dict[str, Any]) -> bool:
    """Whether the operation exists for these dtypes, with the result that it declares."""
    try:
        declared = primitive.result_type(*map(type_of, arrays), **params)
        with np.errstate(all="ignore"):
            return np.asarray(primitive.evaluate(np, *arrays, **params)).dtype == declared.dtype
    except (TypeError, ValueError, OverflowError):
        return False


def exact(primitive: Primitive, arrays: list[np.ndarray], params: dict[str, Any]) -> Any:
    """The value in the widest floats that there are, and the size of what it is a sum of."""
    wide = [x.astype(np.longdouble) if x.dtype.kind == "f" else x for x in arrays]
    with np.errstate(all="ignore"):
        if primitive.name in EXACT_SPECIAL:
            value = EXACT_SPECIAL[primitive.name](*wide)
            return value, np.abs(value)
        value = np.asarray(primitive.evaluate(np, *wide, **params))
        if not isinstance(primitive.kernel, Fold | Contract | Gather):
            return value, np.abs(value)
        absolute = [np.abs(x) if x.dtype.kind == "f" else x for x in wide]
        return value, np.abs(np.asarray(primitive.evaluate(np, *absolute, **params)))


def check_calls_by(run: Run, calls: list[Call], flushes: bool = False) -> None:
    """All in one graph: errors at most 4 times those of the reference, plus 4 ulp (slopes 6).

    Where the executor `flushes`, results below the least normal number may be zero.
    """
    graph, inputs = graph_of_calls(calls)
    keep = [node for _, node in graph.outputs]
    wanted, got = expected(graph, inputs, keep), run(graph, inputs, keep)
    assert got is not None
    for (primitive, arrays, params), node in zip(calls, keep, strict=True):
        ulps = 6 if primitive.name.endswith("_slope") else 4  # as in test_special_functions
        if flushes:
            wanted[node], got[node] = (without_subnormals(one[node]) for one in (wanted, got))
        close(got[node], wanted[node], *exact(primitive, arrays, params), ulps, what=repr(node))


def without_subnormals(x: np.ndarray) -> np.ndarray:
    """Zeros for numbers whose magnitude is below the least normal one."""
    if x.dtype.kind != "f":
        return x
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.zeros_like(x), x)


def close(
    x: np.ndarray, reference: np.ndarray, truth: Any, size: Any, ulps: int, what: str
) -> None:
    assert (x.dtype, x.shape) == (reference.dtype, reference.shape), what
    if x.dtype.kind != "f":
        np.testing.assert_array_equal(x, reference, what)
        return
    finite = np.isfinite(reference)
    np.testing.assert_array_equal(np.where(finite, 0, x), np.where(finite, 0, reference), what)
    with np.errstate(all="ignore"):
        limit = 4 * np.abs(reference - truth)
        limit = limit + ulps * np.spacing(np.minimum(size, LARGEST[x.dtype.name]).astype(x.dtype))
        wrong = finite & ~(np.abs(x - truth) <= limit)
    assert not wrong.any(), (what, x[wrong][:5], reference[wrong][:5], truth[wrong][:5])


def calls_of_samples(
    primitive: Primitive, samples: Iterable[Sample], dtypes: tuple[str, ...]
) -> list[Call]:
    """Calls on the arrays of samples, floats in each of the dtypes for which there is one."""
    calls: list[Call] = []
    for sample in samples:
        arrays, params = sample_arrays(sample, seed=3), dict(sample.params)
        floats = any(x.dtype.kind == "f" for x in arrays)
        given = [as_dtype(arrays, d) for d in (dtypes if floats else ("float64",))]
        found = [(primitive, one, params) for one in given if applies(primitive, one, params)]
        assert found, sample
        calls += found
    return calls


def as_domain(x: np.ndarray, domain: Any) -> np.ndarray:
    """The numbers as booleans or integers where the primitive takes these."""
    if domain == "bool":
        return x > 0
    if domain == "uint32":
        return np.nan_to_num(x).clip(-8, 7).astype(np.int64).astype(np.uint32)
    if isinstance(domain, str):
        return np.nan_to_num(x).clip(-8, 7).astype(np.int64)
    return x


def exceptional_calls(
    primitive: Primitive, numbers: Sequence[float] = tuple(EXCEPTIONAL)
) -> list[Call]:
    """Calls of an elementwise operation on all pairs, ... of zeros, infinities, NaN and others."""
    count = len(primitive.inputs)
    rows = np.array(list(itertools.product(numbers, repeat=count)))
    sample = primitive.samples[0]
    calls: list[Call] = []
    for dtype in ("float32", "float64"):
        with np.errstate(all="ignore"):
            arrays = [np.ascontiguousarray(x) for x in rows.T.astype(dtype)]
        arrays = [as_domain(x, domain) for x, domain in zip(arrays, sample.domains, strict=True)]
        for each in range(len(primitive.samples)):
            call = (primitive, arrays, dict(primitive.samples[each].params))
            if call[2] not in [one[2] for one in calls if one[1][-1].dtype == dtype]:
                calls.append(call)
    return calls


def expected(graph: Graph, inputs: Mapping[Node, Any], keep: Iterable[Node]) -> Any:
    """The values of `keep` by the reference executor."""
    arrays = {node: np.asarray(array, node.dtype) for node, array in inputs.items()}
    return reference.evaluate(graph, arrays, list(keep))


def graph_of_calls(calls: list[tuple[Any, list[np.ndarray], dict[str, Any]]]) -> Any:
    """One graph that applies primitives, each to its own arrays; and its inputs' arrays."""
    inputs: dict[Node, np.ndarray] = {}
    outputs = []
    for primitive, arrays, params in calls:
        nodes = [input_(index=len(inputs) + k, type=type_of(x)) for k, x in enumerate(arrays)]
        inputs.update(zip(nodes, arrays, strict=True))
        outputs.append(primitive(*nodes, **params))
    named = tuple(Input(f"x{place}", node) for place, node in enumerate(inputs))
    results = tuple((f"out{place}", node) for place, node in enumerate(outputs))
    names = {**{one.name: one.node for one in named}, **dict(results)}
    graph = Graph(name="calls", inputs=named, outputs=results, nodes=(), names=names)
    return check(graph.replace(nodes=ordered(graph))), inputs
