"""What the ranks of a group do together, as nodes between the parts of a graph that each computes.

They are made after differentiation, and stand for messages between pieces of a graph.  Where all
ranks are devices of one program, its executor evaluates them: its array namespace has them.
"""

from __future__ import annotations

from typing import Any

from chainrule.devices.tensor.layouts import Layout, local_type
from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType
from chainrule.primitives.movement import slice_
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Flat, Library, Primitive, Sample, no_flops
from chainrule.primitives.python import Python, Written

SHARDS, REPLICAS = "shards", "replicas"  # the groups of ranks


def _nothing(*arguments: Any, **params: Any) -> Any:
    raise AssertionError("ranks exchange values between pieces of a graph, not in them")


def _by_namespace(name: str) -> Any:
    """The evaluation by an array namespace that stands for several devices."""
    return lambda xp, x, **params: getattr(xp, name, _nothing)(x, **params)


def _made(name: str, doc: str, result_type: Any, params: dict[str, Any]) -> Primitive:
    return Primitive(
        name=name,
        doc=doc,
        inputs=("x",),
        result_type=result_type,
        evaluate=_by_namespace(name),
        derivative=Flat(),
        batch=_nothing,
        kernel=Library(among_devices=True),
        as_stored=True,
        flops=no_flops,
        latex=Latex(rf"\operatorname{{{{{name}}}}}({{x}})", ATOM, (0,)),
        samples=(Sample(((4,),), ((-2.0, 2.0),), tuple(sorted(params.items()))),),
        python=Python(lambda out, writing, x: Written(f"{name}({x.text})")),
    )


def _as_it_is(x: ArrayType, *, ways: int, among: str) -> ArrayType:
    return x


def _joined(x: ArrayType, *, axis: int, ways: int, among: str) -> ArrayType:
    return x.with_shape((*x.shape[:axis], x.shape[axis] * ways, *x.shape[axis + 1 :]))


def _parted(x: ArrayType, *, axis: int, ways: int, among: str) -> ArrayType:
    return local_type(x, Layout(axis), ways)


PARAMS = {"axis": 0, "ways": 2, "among": SHARDS}
all_reduce = _made(
    "all_reduce",
    "The sum of what the ranks of a group have, added in their order.",
    _as_it_is,
    {"ways": 2, "among": SHARDS},
)
all_gather = _made(
    "all_gather", "What the ranks of a group have, one after another along an axis.",
    _joined, PARAMS,
)  # fmt: skip
reduce_scatter = _made(
    "reduce_scatter", "This rank's part along an axis of the sum that all_reduce gives.",
    _parted, PARAMS,
)  # fmt: skip
own_part = _made(
    "own_part", "This rank's part along an axis of what all ranks of a group have.",
    _parted, PARAMS,
)  # fmt: skip

COLLECTIVES = (all_reduce, all_gather, reduce_scatter)


def is_collective(node: Node) -> bool:
    """Whether the ranks of a group exchange something for this value."""
    return node.primitive in COLLECTIVES


def as_slice(node: Node, x: Node, place: int) -> Node:
    """An `own_part` on the rank at this place of its group, from x."""
    axis, length = node.param("axis"), node.shape[node.param("axis")]
    start = tuple(place * length if at == axis else 0 for at in range(node.ndim))
    params = (("shape", node.shape), ("start", start), ("step", (1,) * node.ndim))
    return Node(slice_, (x,), params, node.type, node.origin)
