"""Makes arrays, graphs and functions from a primitive's samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from chainrule.frontend.composite import trace_of
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.traced import Traced
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import ordered
from chainrule.graph.types import ArrayType, type_of
from chainrule.primitives.primitive import Primitive, Sample
from chainrule.primitives.sources import input_


def sample_arrays(
    sample: Sample, seed: int = 0, dtype: str | np.dtype | None = None
) -> list[np.ndarray]:
    """Random arrays in the domains of a sample: the same ones for the same seed.

    Floats have the sample's dtype, or `dtype`; indices are int64, words uint32.
    """
    generator = np.random.default_rng(seed)
    chosen = np.dtype(dtype or sample.dtype)
    return [
        _draw(generator, domain, shape, chosen)
        for domain, shape in zip(sample.domains, sample.shapes, strict=True)
    ]


def _draw(
    generator: np.random.Generator, domain: Any, shape: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    if domain == "bool":
        return np.asarray(generator.random(shape) < 0.5)
    if domain == "uint32":
        return generator.integers(0, 2**32, shape, np.uint32)
    if isinstance(domain, str):
        return np.asarray(generator.integers(0, int(domain.removeprefix("int:")), shape))
    low, high = domain
    return np.asarray(generator.uniform(low, high, shape)).astype(dtype)


def input_names(primitive: Primitive, count: int) -> list[str]:
    """Names for `count` inputs: the primitive's own; a variadic one repeats its last."""
    names = list(primitive.inputs[:count])
    return names + [f"{primitive.inputs[-1]}_{i}" for i in range(1, count - len(names) + 1)]


def graph_of(primitive: Primitive, types: Sequence[ArrayType], params: dict[str, Any]) -> Graph:
    """The graph of one node: the primitive on inputs of these types; the output is `out`."""
    nodes = [input_(index=index, type=type_) for index, type_ in enumerate(types)]
    out = primitive(*nodes, **params)
    inputs = tuple(map(Input, input_names(primitive, len(types)), nodes))
    graph = Graph(
        name=primitive.name,
        inputs=inputs,
        outputs=(("out", out),),
        nodes=(),
        names={**{item.name: item.node for item in inputs}, "out": out},
    )
    return check(graph.replace(nodes=ordered(graph)))


def sample_graph(primitive: Primitive, sample: Sample, arrays: Sequence[np.ndarray]) -> Graph:
    """The graph of the primitive on arrays of these types, with the sample's parameters."""
    return graph_of(primitive, [type_of(array) for array in arrays], dict(sample.params))


def as_function(primitive: Primitive, **params: Any) -> Callable[..., Any]:
    """The primitive as a function of arrays (evaluated) or traced arrays (one node is built).

    Types must fit exactly, as for the primitive itself: nothing is broadcast or promoted.
    """

    def function(*arrays: Any) -> Any:
        trace = trace_of(arrays)
        if trace is None:
            return primitive.evaluate(np, *map(np.asarray, arrays), **params)
        nodes = [as_node(trace, array) for array in arrays]
        return Traced(trace.build(primitive, *nodes, **params), trace)

    function.__name__ = primitive.name
    return function


def cases(primitives: Sequence[Primitive]) -> Iterator[tuple[str, Primitive, Sample]]:
    """Every primitive with each of its samples, and a name for the pair."""
    for primitive in primitives:
        for number, sample in zip(itertools.count(), primitive.samples, strict=False):
            yield f"{primitive.name}-{number}", primitive, sample
