"""The reference executor: one NumPy call a node, in order; reading it is the proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from chainrule.errors import (
    ChainruleError,
    EvaluationError,
    IndexOutOfRangeError,
    MemoryLimitError,
    StepLimitError,
)
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.primitives.primitive import Library

Names = tuple[Mapping[Node, str], ...]


def evaluate(
    graph: Graph,
    inputs: Mapping[Node, np.ndarray],
    keep: Iterable[Node],
    traced: Graph | None = None,
    watch: Callable[[Node, Mapping[Node, np.ndarray]], None] | None = None,
) -> dict[Node, np.ndarray]:
    """The values of the nodes in `keep`; every other value is dropped after its last use.

    The graph is concrete (bound).  Nothing in `inputs` is modified, and no kept array shares
    memory with one of them.  `traced` is the graph before it was bound, for messages.  `watch` is
    called with each node as soon as it has its value, and with the values that there are then (its
    inputs' among them).  The memory that this takes, byte for byte, is
    `plan.plain.plain_schedule(graph, keep)`.
    """
    kept = set(keep)
    needed = set(topological(kept))
    order = sorted((node for node in graph.nodes if node in needed), key=_is_computed)
    last = {one: node for node in order for one in (node, *node.inputs)}
    names = tuple(one.name_of for one in (graph, traced) if one is not None)
    values: dict[Node, np.ndarray] = {}
    result: dict[Node, np.ndarray] = {}
    node = None
    try:
        with np.errstate(all="ignore"):
            for node in order:
                if node in inputs:
                    values[node] = inputs[node]
                else:
                    values[node] = apply(node, [values[one] for one in node.inputs], names)
                if watch is not None:
                    watch(node, values)
                if node in kept:
                    result[node] = _owned(node, values)
                for one in {node, *node.inputs}:
                    if last[one] is node:
                        del values[one]
    except BaseException as error:
        # Who keeps it keeps this frame, too, but not all arrays (a notebook).
        values.clear()
        result.clear()
        if isinstance(error, MemoryError) and not isinstance(error, ChainruleError):
            assert node is not None
            raise _no_memory(node, names, error) from error
        raise
    return result


def apply(node: Node, operands: list[np.ndarray], names: Names, xp: Any = np) -> np.ndarray:
    """The value of one node; `names` are for messages, `xp` is NumPy, or a namespace like it."""
    try:
        value = np.asarray(node.primitive.evaluate(xp, *operands, **dict(node.params)))
    except ChainruleError as error:
        if error.where or not isinstance(error, StepLimitError):  # of a node inside of this one
            raise
        raise StepLimitError(error.what, where=node.origin.describe(), hint=error.hint) from None
    except MemoryError as error:
        raise _no_memory(node, names, error) from error
    except IndexError as error:
        raise IndexOutOfRangeError(
            f"{_named(node, names)}: {error}",
            where=node.origin.describe(),
            hint="check the indices (labels, tokens) against the size of what they index",
        ) from error
    except ValueError as error:
        raise EvaluationError(
            f"{_named(node, names)} failed: {error}",
            where=node.origin.describe(),
            hint="check the values of its inputs, and their dtypes",
        ) from error
    return value if value.dtype == node.type.dtype else value.astype(node.type.dtype)


def _no_memory(node: Node, names: Names, error: MemoryError) -> MemoryLimitError:
    """What to raise where NumPy could not allocate the value of a node."""
    return MemoryLimitError(
        f"no memory for {_named(node, names)}, {node.type}: {error}",
        where=node.origin.describe(),
        hint="make the sizes smaller; graph.memory() says what a run needs",
    )


def _is_computed(node: Node) -> bool:
    """Whether the value is not given: inputs and constants are there before the first is made."""
    return node.primitive.kernel != Library("argument")


def _owned(node: Node, values: Mapping[Node, np.ndarray]) -> np.ndarray:
    """The value in memory of its own: what is given, uniform, or of an operand is copied."""
    value = values[node]
    shared = any(
        value is values[one] or np.may_share_memory(value, values[one]) for one in node.inputs
    )
    # (nobody can share no bytes: an empty slice, too, would hold all of what it is a slice of)
    own = value.size and _is_computed(node) and value.flags.writeable and not shared
    return value if own else value.copy()


def _named(node: Node, names: Names) -> str:
    """The user's call that the node belongs to, by the user's names: `cross_entropy(o, y)`."""
    scope, composite = node.origin.scope, None
    while scope is not None:
        composite = scope if scope.symbol else composite
        scope = scope.parent
    if composite is None:
        return f"{node.primitive.name}({', '.join(_name(parent, names) for parent in node.inputs)})"
    given = [v for _, v in composite.arguments]
    shown = [_name(v, names) if isinstance(v, Node) else repr(v) for v in given]
    return f"{composite.name}({', '.join(shown)})"


def _name(node: Node, names: Names) -> str:
    """The node's name, or that of what it was before it was reshaped, cast, ..."""
    while True:
        for known in names:
            if node in known:
                return known[node]
        if len(node.inputs) != 1:
            return "..."
        node = node.inputs[0]
