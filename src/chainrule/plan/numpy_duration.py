"""Estimates how long NumPy takes to evaluate a node of a concrete graph."""

from __future__ import annotations

from math import prod

from chainrule.graph.body import bodies_of
from chainrule.graph.node import Node
from chainrule.plan.roles import nbytes_of
from chainrule.plan.speeds import InNumPy
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.primitive import Contract, Fold, Generate, Given, Library, Map, Move
from chainrule.primitives.products import contract

# Nanoseconds for an element in float32 and in float64, where that is far from `InNumPy.element`:
# what has no loop in NumPy is computed by polynomials on whole arrays.
SLOW: dict[str, tuple[float, float]] = {
    "erf": (80.0, 75.0),
    "erfc": (75.0, 75.0),
    "erfcx": (110.0, 115.0),
    "ndtr": (75.0, 70.0),
    "i0e": (75.0, 75.0),
    "i1e": (150.0, 160.0),
    "floor_divide": (20.0, 20.0),
    "remainder": (12.0, 12.0),
    "fmod": (17.0, 17.0),
    "hypot": (5.0, 18.0),
    "logistic": (2.0, 8.5),
    "sin": (0.6, 5.0),
    "cos": (0.6, 5.0),
    "where": (1.0, 1.5),
    "integer_power": (1.0, 2.0),
    "power": (0.8, 2.7),
    "gaussian": (1.4, 2.8),
    "maximum": (0.4, 0.9),
    "minimum": (0.4, 0.9),
    "absolute": (0.4, 0.8),
    "cast": (0.3, 0.5),
}
TRANSCENDENTAL = (0.45, 1.3)  # exp, tanh, log and the like, which have vector loops


def node_nanoseconds(node: Node, numpy: InNumPy) -> int:
    """About how long NumPy takes to evaluate a node of a concrete graph, in whole nanoseconds."""
    return round(_nanoseconds(node, numpy))


def _nanoseconds(node: Node, numpy: InNumPy) -> float:
    kernel = node.primitive.kernel
    size, double = prod(node.shape), node.dtype.itemsize >= 8
    fresh = numpy.fresh * nbytes_of(node)
    match kernel:
        case Given():
            return 0.0
        case Move() | Generate():
            return numpy.broadcast if node.primitive is broadcast_to else numpy.view
        case Map():
            return numpy.call + fresh + size * _element(node, numpy)
        case Fold():
            size = prod(node.inputs[0].shape)
            return numpy.reduction + fresh + size * numpy.element * (6.0 if double else 3.0)
        case Contract():
            return numpy.product + fresh + _product(node, numpy)
        case Library(turns=turns) if turns is not None:
            inside = (one for body in bodies_of(node) for one in body.graph.nodes)
            each = sum(node_nanoseconds(one, numpy) for one in inside)
            return numpy.call + fresh + (iterations(node) or 1) * (numpy.iteration + each)
    return numpy.call + fresh + size + int(node.primitive.flops(node))


def _element(node: Node, numpy: InNumPy) -> float:
    double = max(one.dtype.itemsize for one in (node, *node.inputs)) >= 8
    known = SLOW.get(node.primitive.name)
    kernel = node.primitive.kernel
    assert isinstance(kernel, Map)
    if known is None and "(" in kernel.expression:
        known = TRANSCENDENTAL
    arrays = (1 + len(node.inputs)) * numpy.element
    return arrays * (2.0 if double else 1.0) if known is None else known[double]


def _product(node: Node, numpy: InNumPy) -> float:
    """Multiplying, and packing matrices; what is no product of matrices is copied before."""
    double = 2.0 if node.dtype.itemsize >= 8 else 1.0
    x, y = (prod(one.shape) for one in node.inputs)
    multiplying = int(node.primitive.flops(node)) * numpy.flop
    if node.primitive is contract:
        return double * (multiplying + (prod(node.shape) + x + y) * numpy.copying)
    if node.inputs[1].ndim == 2:  # packed for each matrix on the left
        y *= prod(node.shape[:-2])
    return double * (multiplying + (prod(node.shape) + x + y) * numpy.packing)


def iterations(node: Node) -> int:
    """How many there are in a loop, as far as it is known before a run; else 0."""
    kernel = node.primitive.kernel
    turns = kernel.turns if isinstance(kernel, Library) else None
    return (turns(node) or 0) if turns is not None else 0
