"""`to_stablehlo`: a graph as a StableHLO program, exported by JAX."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chainrule.errors import UnsupportedError
from chainrule.exchange.held import held_arrays
from chainrule.execute.xla.foreign import Foreign
from chainrule.execute.xla.jax_here import jax_here, tracing, wide
from chainrule.execute.xla.tracing import Space
from chainrule.execute.xla.xla_program import XlaProgram
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.primitives.sources import constant

TEXT = ".mlir"  # the extension of a file that has the program as text
FAILED = "failed"


def to_stablehlo(
    graph: Graph,
    path: str | os.PathLike[str] | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
) -> bytes:
    """The graph as a StableHLO program: what `jax.export` serializes, which is written to `path`.

    `jax.export.deserialize(content).call(x=..., W1=...)` runs it where JAX is, and gives the
    outputs by name; 64-bit numbers need `jax_enable_x64`.  A file that ends in .mlir gets the
    program as text.  `parameters` are inputs whose values go into the program, which takes the
    others by name; numbers with a default are inputs, too.  What can go wrong in a run (an index
    out of range, a singular matrix) is no error there: one more output, `failed`, says whether the
    numbers mean nothing.

    Raises UnsupportedError without JAX, for named sizes, and for operations that only NumPy has;
    InputError and NameLookupError for parameters that do not fit.
    """
    jax = jax_here()
    export: Any = importlib.import_module("jax.export")
    if graph.sizes:
        raise UnsupportedError(
            f"a StableHLO program has no named sizes, and {graph.name} has "
            f"{', '.join(graph.sizes)}",
            hint=f"give it numbers first: graph.bind({graph.sizes[0]}=256).to_stablehlo(path)",
        )
    held = held_arrays(graph, parameters or {})
    results = [node for _, node in graph.outputs]
    _refuse_calls_of_numpy(graph, XlaProgram(graph, results, {}, None).refused)
    inputs = {item.name: item.node for item in graph.inputs if item.name not in held}
    own = {graph[name]: array for name, array in held.items()}
    order = topological(results)
    own |= {one: one.param("value").array for one in order if one.primitive is constant}

    def computed(**arrays: Any) -> dict[str, Any]:
        space = Space(Foreign())
        with tracing():
            values = {node: jax.numpy.asarray(array) for node, array in own.items()}
            values |= {inputs[name]: array for name, array in arrays.items()}
            space.evaluate(order, values)
        found = {name: values[node] for name, node in graph.outputs}
        return found if space.failed is False else {**found, _unlike(found): space.failed}

    types = {name: jax.ShapeDtypeStruct(one.shape, one.dtype) for name, one in inputs.items()}
    with wide():
        made = export.export(jax.jit(computed))(**types)
    content = bytes(made.serialize())
    if path is not None:
        is_text = Path(path).suffix == TEXT
        Path(path).write_bytes(made.mlir_module().encode() if is_text else content)
    return content


def _unlike(names: Mapping[str, Any]) -> str:
    """The name of the boolean that says whether the numbers mean nothing."""
    name = FAILED
    while name in names:
        name += "_"
    return name


def _refuse_calls_of_numpy(graph: Graph, nodes: tuple[Node, ...]) -> None:
    if not nodes:
        return
    counts = Counter(one.primitive.name for one in nodes)
    listed = [f"{name} ({count} node{'s' * (count > 1)})" for name, count in counts.items()]
    raise UnsupportedError(
        f"JAX exports no calls of NumPy, and {graph.name} has {', '.join(listed)}",
        where=nodes[0].origin.describe(),
        hint="write it with functions that JAX has, or export another part of the graph",
    )
