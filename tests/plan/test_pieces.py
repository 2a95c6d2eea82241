"""What is evaluated in pieces has the bits that it has as a whole."""

from __future__ import annotations

import numpy as np
import pytest
from array_layouts import STRIDES
from every_sample import for_every_sample

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.types import type_of
from chainrule.plan.pieces import PIECE_NBYTES, evaluation_nbytes, piece_of, pieces
from chainrule.primitives.primitive import Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES
from chainrule.schedule.in_numpy import outline_in_c_order, taken_nbytes
from chainrule.testing.samples import graph_of, sample_arrays

DTYPES = ("float16", "float32", "float64", "int64", "uint8", "bool")


def evaluated(node: Node, operands: list[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(node.primitive.evaluate(np, *operands, **dict(node.params)))


def joined(node: Node, piece: tuple[int, ...], operands: list[np.ndarray]) -> np.ndarray:
    result = np.empty(node.shape, node.dtype)
    for into, needed in pieces(node, piece):
        parts = [one[key] for one, key in zip(operands, needed, strict=True)]
        result[into] = evaluated(node, parts)
    return result


def sample_of(primitive: Primitive, sample: Sample, dtype: str) -> tuple[Graph, list[np.ndarray]]:
    """TypeError where the primitive has no such dtype."""
    arrays = [
        one.astype(dtype) if one.dtype == np.float64 else one for one in sample_arrays(sample)
    ]
    return graph_of(primitive, [type_of(one) for one in arrays], dict(sample.params)), arrays


CUT = [one for one in PRIMITIVES if one.inputs]


@pytest.mark.sweep(17)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("primitive", CUT, ids=lambda one: one.name)
def test_pieces_have_the_bits_of_the_whole(primitive: Primitive, dtype: str) -> None:
    def check(primitive: Primitive, sample: Sample) -> None:
        try:
            graph, arrays = sample_of(primitive, sample, dtype)
        except TypeError:
            return
        out = graph["out"]
        axes = [axis for axis, _ in primitive.independent(out)]
        if not axes:
            return
        for name in ("in C order", "in Fortran order", "with gaps"):
            layout = STRIDES[name]  # of what lies backwards NumPy's own loops differ in a last bit
            operands = [layout(one) for one in arrays]
            try:
                whole = evaluated(out, operands)
            except (np.linalg.LinAlgError, TypeError, ValueError, OverflowError):
                continue  # singular; integers to negative powers
            if whole.dtype != out.dtype:
                return  # the front end casts the operands before
            for cut in (*([axis] for axis in axes), axes):
                piece = tuple(1 if axis in cut else n for axis, n in enumerate(out.shape))
                assert joined(out, piece, operands).tobytes() == whole.tobytes()

    for_every_sample(primitive, check)


def large(name: str, *shapes: tuple[int, ...], dtype: str = "float64", **params: object) -> Node:
    (primitive,) = (one for one in PRIMITIVES if one.name == name)
    types = [type_of(np.broadcast_to(np.zeros((), dtype), shape)) for shape in shapes]
    return graph_of(primitive, types, params)["out"]


@pytest.mark.parametrize(
    "node",
    [
        large("exp", (2 * 10**6,), dtype="float16"),
        large("exp", (3, 1000, 1000), dtype="float16"),
        large("argsort", (1000, 1500), axis=0),
        large("argsort", (1000, 1500), axis=1),
        large("cumsum", (50, 100, 300), axis=1, reverse=False),
        large("svd", (500, 40, 40)),
        large("svd", (500, 40, 40), dtype="float16"),
        large("cofactor_change", (1000, 9, 9), (1000, 9, 9)),
        large("matmul", (1000, 1500), (1500, 1000), dtype="int64"),
        large("matmul", (50, 100, 200), (50, 200, 100), dtype="int64"),
        large("matmul", (200, 100, 200), (200, 100), dtype="float16"),
        large("searchsorted", (100,), (1000, 1000), side="left"),
    ],
    ids=lambda one: f"{one.primitive.name}-{one.dtype}",
)
def test_a_piece_is_small(node: Node) -> None:
    outlines = [outline_in_c_order(one) for one in node.inputs]
    piece = piece_of(node)
    whole = node.type.nbytes + taken_nbytes(node, outlines)
    assert evaluation_nbytes(node, (), outlines) == whole > 3 * PIECE_NBYTES
    assert PIECE_NBYTES / 3 < evaluation_nbytes(node, piece, outlines) < 1.1 * PIECE_NBYTES
    covered = sum(
        int(np.prod([len(range(n)[key]) for n, key in zip(node.shape, into, strict=True)]))
        for into, _ in pieces(node, piece)
    )
    assert covered == node.type.size


def test_what_is_small_or_belongs_together_is_evaluated_at_once() -> None:
    assert piece_of(large("exp", (100, 100), dtype="float16")) == ()
    assert piece_of(large("exp", (0, 10**7), dtype="float16")) == ()
    assert piece_of(large("argsort", (10**6,), axis=0)) == ()
    assert piece_of(large("inv", (500, 500))) == ()
    assert piece_of(large("sum", (3, 10**6), dtype="float16", axes=(0,))) == ()
