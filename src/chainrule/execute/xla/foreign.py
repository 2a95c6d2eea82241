"""Nodes that only NumPy can evaluate: compiled code calls back into Python for them."""

from __future__ import annotations

from collections.abc import Sequence
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

    def take(self) -> BaseException | None:
        """The last one that was raised and not taken yet."""
        return self._raised.pop() if self._raised else None


def is_foreign(node: Node) -> bool:
    """Whether a node is a user's function, or an evaluation that takes arrays of NumPy alone."""
    match node.primitive.kernel:
        case Library(keeps=True):
            return True
        case Library(among_devices=True):
            return False
        case Library() | Map() if not holds_bodies(node):
            return _takes_numpys_alone(node)
    return False


_takes: WeakKeyDictionary[Primitive, bool] = WeakKeyDictionary()


def _takes_numpys_alone(node: Node) -> bool:
    """Found by trying, once for each primitive."""
    found = _takes.get(node.primitive)
    if found is None:
        jax = jax_here()
        given = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in node.inputs]
        params = dict(node.params)
        found = False
        try:
            with tracing():
                jax.eval_shape(lambda *x: node.primitive.evaluate(jax.numpy, *x, **params), *given)
        except jax.errors.TracerArrayConversionError:
            found = True
        _takes[node.primitive] = found
    return found
