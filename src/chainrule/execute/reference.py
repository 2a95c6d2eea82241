"""The reference executor: one NumPy call a node, in order; reading it is the proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import (
    ChainruleError,
    EvaluationError,
    IndexOutOfRangeError,
    MemoryLimitError,
    StepLimitError,
)
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.words import UNSAID, composite_call, operation, printable
from chainrule.primitives.primitive import Given

if TYPE_CHECKING:
    from chainrule.schedule.lives import Life
    from chainrule.schedule.turns import Turn

Names = tuple[Mapping[Node, str], ...]


def evaluate(
    graph: Graph,
    inputs: Mapping[Node, np.ndarray],
    keep: Iterable[Node],
    traced: Graph | None = None,
    watch: Callable[[Node, Mapping[Node, np.ndarray]], None] | None = None,
    turns: Iterable[Turn] | None = None,
) -> dict[Node, np.ndarray]:
    """The values of the nodes in `keep`; every other value is dropped after its last use.

    The graph is concrete (bound).  Nothing in `inputs` is modified, and no kept array shares
    memory with one of them.  `traced` is the graph before it was bound, for messages.  `watch` is
    called with each node as soon as it has its value, and with that value and those of its inputs.
    `turns` are those of a valid schedule of the graph whose results are those in `keep`
    (`schedule.turns.obeying`): what is computed when, how often, and when it is dropped; without
    them they are those of `schedule.plain.plain_schedule`, which has the memory that this takes,
    byte for byte.
    """
    from chainrule.schedule.turns import turns_for  # loaded where a graph is run

    kept = set(keep)
    turns = turns_for(graph, kept) if turns is None else turns
    names = tuple(one.name_of for one in (graph, traced) if one is not None)
    values: dict[Life, np.ndarray] = {}
    result: dict[Node, np.ndarray] = {}
    node = None
    try:
        with np.errstate(all="ignore"):
            for into, operands, ended in turns:
                node = into.node
                arrays = [values[one] for one in operands]
                value = inputs[node] if node in inputs else apply(node, arrays, names)
                values[into] = value
                if watch is not None:
                    watch(node, {**dict(zip(node.inputs, arrays, strict=True)), node: value})
                if node in kept and node not in result:
                    result[node] = _owned(node, value, arrays)
                del value, arrays
                for one in ended:
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


def _owned(node: Node, value: np.ndarray, operands: Sequence[np.ndarray]) -> np.ndarray:
    """The value in memory of its own: what is given, uniform, or of an operand is copied."""
    own = not isinstance(node.primitive.kernel, Given) and not shared(value, operands)
    return value if own else value.copy()


def shared(value: np.ndarray, operands: Sequence[np.ndarray]) -> bool:
    """Whether a computed value may be in memory that is an operand's, or nobody's to change."""
    # (nobody can share no bytes: an empty slice, too, would hold all of what it is a slice of)
    return not (value.size and value.flags.writeable) or any(
        value is one or np.may_share_memory(value, one) for one in operands
    )


def _named(node: Node, names: Names) -> str:
    """The user's call that the node belongs to, by the user's names: `cross_entropy(o, y)`."""

    def word(one: Node) -> str:
        return _name(one, names)

    return composite_call(node, word) or operation(node, word)


def _name(node: Node, names: Names) -> str:
    """The node's name, or that of what it was before it was reshaped, cast, ..."""
    while True:
        for known in names:
            if node in known:
                return printable(known[node])
        if len(node.inputs) != 1:
            return UNSAID
        node = node.inputs[0]
