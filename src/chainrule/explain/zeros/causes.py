"""Splits the elements of a value that are 0 by what makes them 0: an operand, or the operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache

import numpy as np

from chainrule.errors import ChainruleError
from chainrule.execute.reference import apply
from chainrule.explain.nonfinite import flow
from chainrule.graph.body import holds_bodies
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import divide, multiply
from chainrule.primitives.primitive import MOVING

SEED = 0


class Why(Enum):
    """What makes elements 0, where the walk ends."""

    GIVEN = "an input or a constant is 0"
    OPERATION = "the operation gives 0, whatever number it is given, or for this one"
    APART = "of each product that is added, a factor is 0"
    CANCELLED = "the terms cancel, or round to 0"
    UNDERFLOW = "the product is too small for its type"
    INSIDE = "a loop or a choice gives 0"
    INDEPENDENT = "nothing depends on it"


Part = tuple["int | Why", np.ndarray]  # an operand to follow, or the end; and the elements


class Splitter:
    """Splits zeros by trial: an operand is to blame where the result stays 0 with others random.

    `values` are those of all nodes, `given` those that depend on an array of the user's.  Other
    operands, indices and booleans are what the operation does, and stay as they are.
    """

    def __init__(self, values: Mapping[Node, np.ndarray], given: frozenset[Node]) -> None:
        self.values, self.given = values, given

    def parts(self, node: Node, mask: np.ndarray) -> Iterator[Part]:
        """Who is to blame for the elements in the mask, which are 0; each is in one part."""
        if not node.inputs:
            yield Why.INDEPENDENT if node.origin.transform else Why.GIVEN, mask
            return
        arrays = [self.values[one] for one in node.inputs]
        places = [
            place
            for place, one in enumerate(node.inputs)
            if one in self.given and dtype_kind(arrays[place].dtype) == "f"
        ]
        rest, ended = mask, np.zeros_like(mask)
        # Of two factors that are 0 it is the one of the forward pass, which ends the walk sooner.
        order = sorted(places, key=lambda k: bool(node.inputs[k].origin.transform))
        for place in order:
            if not rest.any():
                return
            others = {k: _random_like(arrays[k]) for k in places if k != place}
            found = rest & self._is_zero(node, arrays, others, rest)
            followed = found & self._reads_zeros(node, place)
            if followed.any():
                yield place, followed
                rest = rest & ~followed
            ended = ended | found
        if isinstance(node.primitive.kernel, MOVING):  # zeros beside others are what they were
            for place in set(range(len(arrays))) - set(places):
                found = rest & self._reads_zeros(node, place)
                if found.any():
                    yield place, found
                    rest, ended = rest & ~found, ended & ~found
        # Last, for derivatives have a mask where nothing comes back, whatever the function passes.
        random = {k: _random_like(arrays[k]) for k in places}
        ended = rest & (ended | self._is_zero(node, arrays, random, rest))
        if holds_bodies(node):
            ended = rest
        if ended.any():
            yield Why.INSIDE if holds_bodies(node) else Why.OPERATION, ended
        yield from self._together(node, arrays, places, rest & ~ended)

    def _together(
        self, node: Node, arrays: list[np.ndarray], places: list[int], mask: np.ndarray
    ) -> Iterator[Part]:
        """Elements that no operand alone makes 0: all terms are, or factors in turn, or they
        cancel."""
        rest = mask
        for place in places:
            found = mask & self._reads_zeros(node, place)
            if found.any():
                yield place, found
                rest = rest & ~found
        if not rest.any():
            return
        filled = {k: np.where(arrays[k] == 0, _random_like(arrays[k]), arrays[k]) for k in places}
        cancelled = rest & self._is_zero(node, arrays, filled, rest)
        if cancelled.any():
            small = node.primitive in (multiply, divide)
            yield Why.UNDERFLOW if small else Why.CANCELLED, cancelled
        if (rest & ~cancelled).any():
            yield Why.APART, rest & ~cancelled

    def _reads_zeros(self, node: Node, place: int) -> np.ndarray:
        """The elements that read elements of the operand, all of which are 0."""
        operands = [self.values[one] for one in node.inputs]
        is_zero = operands[place] == 0
        nonzero = flow.forward(node, place, ~is_zero, operands)
        return flow.forward(node, place, is_zero, operands) & ~nonzero

    def _is_zero(
        self,
        node: Node,
        arrays: list[np.ndarray],
        instead: Mapping[int, np.ndarray],
        otherwise: np.ndarray,
    ) -> np.ndarray:
        """Where the result is 0 with these operands; `otherwise` where they are refused."""
        given = [instead.get(place, array) for place, array in enumerate(arrays)]
        try:
            with np.errstate(all="ignore"):
                return np.asarray(apply(node, given, ())) == 0
        except (ChainruleError, np.linalg.LinAlgError):
            return otherwise


def _random_like(array: np.ndarray) -> np.ndarray:
    return _random(array.shape, array.dtype)


@lru_cache(8)
def _random(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Positive numbers, so that sums of them are not 0."""
    made = np.random.default_rng(SEED).uniform(1, 2, shape).astype(dtype)
    made.setflags(write=False)
    return made
