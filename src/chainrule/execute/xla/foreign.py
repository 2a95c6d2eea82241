"""Nodes that only NumPy can evaluate: compiled code calls back into Python for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.execute import reference
from chainrule.execute.xla.jax_here import jax_here, tracing
from chainrule.graph.body import holds_bodies
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Library, Map, Primitive


class Foreign:
    """Calls of NumPy from compiled code.  What one of them raises is kept for who called the
    program: XLA passes on no more than its text."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []

    def call(self, node: Node, operands: Sequence[Any]) -> Any:
        """The value of a node as a call of NumPy, which compiled code makes."""
        jax = jax_here()

        def evaluate(*arrays: Any) -> np.ndarray:
            given = [np.array(one) for one in arrays]  # a user's function may keep them
            try:
                with np.errstate(all="ignore"):
                    return np.array(reference.apply(node, given, ()), order="C")
            except BaseException as error:
                self._raised.append(error)
                raise

        result = jax.ShapeDtypeStruct(node.shape, node.dtype)
        return jax.pure_callback(evaluate, result, *operands)

    def take(self) -> Exception | None:
        """The last one that was raised and not taken yet; those before it are forgotten.  Raises
        what is no failure: Ctrl-C."""
        found, self._raised = self._raised, []
        raised = found[-1] if found else None
        if raised is not None and not isinstance(raised, Exception):
            raise raised
        return raised


def is_foreign(node: Node) -> bool:
    """Whether a node is a user's function, or an evaluation that takes arrays of NumPy alone."""
    if isinstance(node.primitive.kernel, Library) and node.primitive.kernel.keeps:
        return True
    if not _is_tried(node):
        return False
    if node.primitive not in _takes_numpys_alone:
        any_foreign([node])
    return _takes_numpys_alone[node.primitive]


def any_foreign(nodes: Iterable[Node]) -> bool:
    """Whether one of them is foreign; quicker than to ask each."""
    nodes = list(nodes)
    unknown = {one.primitive: one for one in nodes if _is_tried(one)}
    unknown = {key: one for key, one in unknown.items() if key not in _takes_numpys_alone}
    if unknown and _take_others(unknown.values()):
        _takes_numpys_alone.update(dict.fromkeys(unknown, False))
    else:
        _takes_numpys_alone.update({key: not _take_others([x]) for key, x in unknown.items()})
    return any(map(is_foreign, nodes))


_takes_numpys_alone: WeakKeyDictionary[Primitive, bool] = WeakKeyDictionary()


def _is_tried(node: Node) -> bool:
    match node.primitive.kernel:
        case Library(keeps=True) | Library(among_devices=True):
            return False
        case Library() | Map():
            return not holds_bodies(node)
    return False


def _take_others(nodes: Iterable[Node]) -> bool:
    """Whether all of them are evaluated on arrays of JAX, found by trying."""
    jax, nodes = jax_here(), list(nodes)
    given = [[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in one.inputs] for one in nodes]

    def evaluated(given: Any) -> list[Any]:
        pairs = zip(nodes, given, strict=True)
        return [x.primitive.evaluate(jax.numpy, *own, **dict(x.params)) for x, own in pairs]

    try:
        with tracing():
            jax.eval_shape(evaluated, given)
    except jax.errors.TracerArrayConversionError:
        return False
    return True
