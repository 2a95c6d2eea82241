"""Where primitives say that their elements come from, against where their evaluation takes them."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.primitives.affine import IndexMap, at_steps
from chainrule.primitives.primitive import Assemble, Move, Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES
from chainrule.primitives.sources import input_
from chainrule.primitives.windows import windows

SAMPLES = [(one, sample) for one in PRIMITIVES for sample in one.samples]
MOVES = [case for case in SAMPLES if isinstance(case[0].kernel, Move)]
ASSEMBLIES = [case for case in SAMPLES if isinstance(case[0].kernel, Assemble)]


def node_and_arrays(primitive: Primitive, sample: Sample) -> tuple[Node, list[np.ndarray]]:
    """The node of a sample, and inputs whose elements are all different, none of them 0."""
    nodes, arrays, begin = [], [], 1.0
    for index, shape in enumerate(sample.shapes):
        array = np.arange(begin, begin + np.prod(shape, dtype=int)).reshape(shape)
        nodes.append(input_(index=index, type=array_type("float64", shape)))
        arrays.append(array)
        begin += array.size
    return primitive(*nodes, **dict(sample.params)), arrays


def axis_by_axis(shape: tuple[int, ...]) -> IndexMap:
    """Each axis of a value is the same axis of the domain."""
    return tuple(
        (0, *(int(axis == place) for place in range(len(shape)))) for axis in range(len(shape))
    )


def places(where: IndexMap, point: tuple[int, ...]) -> tuple[int, ...]:
    """The indices that a map means at a point of the domain."""
    return tuple(c + int(np.dot(factors, point)) for c, *factors in where)


@pytest.mark.parametrize(("primitive", "sample"), MOVES, ids=str)
def test_a_move_reads_the_elements_that_it_has(primitive: Primitive, sample: Sample) -> None:
    node, (x,) = node_and_arrays(primitive, sample)
    out = primitive.evaluate(np, x, **dict(sample.params))
    assert isinstance(primitive.kernel, Move)
    where = primitive.kernel.reads(node, axis_by_axis(out.shape), out.shape)
    if where is None:
        assert primitive.name == "reshape", "only a reshape may not be affine"
        pytest.skip("not affine in these axes")
    for point in np.ndindex(*out.shape):
        assert x[places(where, point)] == out[point]


def test_a_reshape_that_is_affine_is_found() -> None:
    reshape = next(one for one in PRIMITIVES if one.name == "reshape")
    cases = [(one, sample) for one, sample in MOVES if one is reshape]
    found = []
    for one, sample in cases:
        node, _ = node_and_arrays(one, sample)
        assert isinstance(one.kernel, Move)
        found.append(one.kernel.reads(node, axis_by_axis(node.shape), node.shape) is not None)
    assert any(found), "all samples of reshape were skipped"


@pytest.mark.parametrize(("primitive", "sample"), ASSEMBLIES, ids=str)
def test_an_assembly_is_made_of_its_regions(primitive: Primitive, sample: Sample) -> None:
    node, arrays = node_and_arrays(primitive, sample)
    out = primitive.evaluate(np, *arrays, **dict(sample.params))
    kernel = primitive.kernel
    assert isinstance(kernel, Assemble)
    regions = kernel.regions(node)
    assert len(regions) == len(arrays)
    made = np.zeros(out.shape) if kernel.gaps else np.full(out.shape, np.nan)
    for array, (start, step) in zip(arrays, regions, strict=True):
        where = at_steps(start, step, axis_by_axis(array.shape))
        for point in np.ndindex(*array.shape):
            made[places(where, point)] = array[point]
    np.testing.assert_array_equal(made, out)


def test_windows_read_with_strides_and_dilations() -> None:
    assert [one for one, _ in MOVES].count(windows) >= 3
