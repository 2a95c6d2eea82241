"""What a planner has to do for each node: nothing, an expression inlined anywhere, or a kernel."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from enum import Enum, auto
from math import prod

import numpy as np

from chainrule.graph.dtypes import FLOAT32, dtype_kind, is_bfloat16
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import absolute, maximum, minimum, negative
from chainrule.primitives.cumulative import CUMULATIVE
from chainrule.primitives.logic import cast, where
from chainrule.primitives.primitive import (
    Assemble,
    Contract,
    Fold,
    Gather,
    Generate,
    Given,
    Library,
    Map,
    Move,
)
from chainrule.primitives.reduce import max_, min_, sum_
from chainrule.primitives.sources import iota
from chainrule.primitives.windows import fold_windows

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
# The functions that kernels have of integers and booleans, too.
OF_INTEGERS = (
    *("cast", "fabs", "fmax_nan", "fmin_nan", "sign", "where"),
    *("ceil", "floor", "floor_divide", "fmod", "left_shift", "remainder", "right_shift", "trunc"),
    *("threefry_first", "threefry_mixed", "threefry_second"),
)


class Role(Enum):
    """How the value of a node comes about."""

    GIVEN = auto()  # an array from outside: inputs, constants
    GENERATED = auto()  # from its position alone, wherever it is read
    MOVED = auto()  # the elements of its input, at other places: read through an index map
    SCALAR = auto()  # the same number everywhere: arithmetic of 0-d values, repeated where read
    MAP = auto()
    FOLD = auto()
    GATHER = auto()
    SCATTER = auto()
    PRODUCT = auto()
    ASSEMBLED = auto()  # by nests that write regions one after another: pad, concatenate
    ROUTINE = auto()  # by routines of LAPACK, matrix by matrix
    FOREIGN = auto()  # no kernel: the reference evaluation


KERNELS = frozenset(
    (
        *(Role.MAP, Role.FOLD, Role.GATHER, Role.SCATTER, Role.PRODUCT, Role.ASSEMBLED),
        *(Role.ROUTINE, Role.FOREIGN),
    )
)
# Whose results are elements of the operands, or these with another sign.
PICKING = (absolute, max_, maximum, min_, minimum, negative, where)
FAILING = (Role.GATHER, Role.SCATTER, Role.ROUTINE, Role.FOREIGN)  # which may stop a run
WORTH_COMPILING = 4  # iterations of a loop: its body is then compiled
# What needs no instruction: it can be read through, or repeated where it is read.
TRANSPARENT = frozenset((Role.GENERATED, Role.MOVED, Role.SCALAR))


def roles_of(graph: Graph) -> dict[Node, Role]:
    """The role of each node of a concrete graph."""
    roles: dict[Node, Role] = {}
    widened = _widened_by_products(graph)
    for node in graph.nodes:
        roles[node] = Role.MOVED if node in widened else _role(node, roles)
    return roles


def is_given(node: Node) -> bool:
    """Whether its role is GIVEN, which depends on no other node."""
    return isinstance(node.primitive.kernel, Given)


def _widened_by_products(graph: Graph) -> set[Node]:
    """The casts from bfloat16 to float32 that only products read, as they are or moved: products
    widen what they read, or multiply it as it is, so that no array is made for the cast."""
    widening = (node for node in graph.nodes if node.dtype == FLOAT32 and is_widening(node))
    casts = {node for node in widening if is_bfloat16(node.inputs[0].dtype)}
    if not casts:
        return casts
    read, otherwise = set[Node](), set[Node]()
    for node in reversed(graph.nodes):
        kernel = node.primitive.kernel
        passes_on = isinstance(kernel, Move) and node in read and node not in otherwise
        if not (isinstance(kernel, Contract) or passes_on):
            otherwise.update(node.inputs)
        read.update(node.inputs)
    return (casts & read) - otherwise


def _role(node: Node, roles: dict[Node, Role]) -> Role:
    primitive = node.primitive
    match primitive.kernel:
        case Generate():
            return Role.GENERATED
        case Given():
            return Role.GIVEN
        case Assemble():
            return Role.ASSEMBLED
        case Move() | Map("x"):
            return Role.MOVED
        case Library() if primitive in (fold_windows, *CUMULATIVE) and _computes(node):
            return Role.ASSEMBLED
        case Library(routine=routine) if routine is not None and _has_routine(node):
            return Role.ROUTINE
        case Map():
            if not _computes(node):
                return Role.FOREIGN
            return Role.SCALAR if all(_is_one_number(x, roles) for x in node.inputs) else Role.MAP
        case Fold() if primitive is not sum_ and 0 in node.inputs[0].shape:
            return Role.FOREIGN  # there may be no largest element
        case Fold():
            return Role.FOLD if _computes(node) else Role.FOREIGN
        case Gather(adds):
            if not _computes(node) or 0 in (*node.shape, *node.inputs[0].shape):
                return Role.FOREIGN  # no loop would check indices into an empty array
            return Role.SCATTER if adds else Role.GATHER
        case Contract():
            return Role.PRODUCT if node.dtype in FLOATS else Role.FOREIGN
    return Role.FOREIGN


def _is_one_number(node: Node, roles: dict[Node, Role]) -> bool:
    """Whether all elements are one number that needs no kernel."""
    while roles[node] is Role.MOVED:
        node = node.inputs[0]
    if roles[node] is Role.GENERATED:
        return node.primitive is not iota
    return roles[node] is Role.SCALAR or (roles[node] is Role.GIVEN and node.shape == ())


def _has_routine(node: Node) -> bool:
    """Whether there are elements, and of the dtypes: LAPACK has no others."""
    return all(one.dtype in FLOATS and 0 not in one.shape for one in (node, *node.inputs))


def _computes(node: Node) -> bool:
    """Whether the kernels have the dtypes: not float16, whose rounding after each operation they
    would not repeat, nor bfloat16 before `widen` has said by casts that float32 is computed, and of
    integers only what is no function of real numbers."""
    dtypes = [one.dtype for one in (node, *node.inputs)]
    if any(one == np.float16 or (is_bfloat16(one) and node.primitive.widens) for one in dtypes):
        return False
    kernel = node.primitive.kernel
    if not isinstance(kernel, Map) or any(dtype_kind(one.dtype) == "f" for one in node.inputs):
        return True
    function, bracket, _ = kernel.expression.partition("(")
    return "/" not in kernel.expression and (not bracket or function in OF_INTEGERS)


def is_widening(node: Node) -> bool:
    """Whether it is the same numbers in more bytes: a cast to a wider float."""
    if node.primitive is not cast or not node.ndim:
        return False
    old, new = node.inputs[0].dtype, node.dtype
    are_floats = dtype_kind(old) == dtype_kind(new) == "f"
    return are_floats and new.itemsize > old.itemsize


def is_rounded_already(node: Node) -> bool:
    """Whether it rounds to bfloat16 what is of bfloat16 already, but for the dtype: elements that
    are picked, or change their sign."""
    if node.primitive is not cast or not is_bfloat16(node.dtype):
        return False
    picked = node.inputs[0]
    return (
        picked.dtype.kind != "b"
        and picked.primitive in PICKING
        and all(
            one.dtype.kind == "b" or (one.primitive is cast and is_bfloat16(one.inputs[0].dtype))
            for one in picked.inputs
        )
    )


def repeats_compiled_code(node: Node) -> bool:
    """Whether a node without a kernel is a loop whose body is compiled: it is done often enough."""
    kernel = node.primitive.kernel
    if not isinstance(kernel, Library) or kernel.turns is None:
        return False
    turns = kernel.turns(node)
    return turns is None or turns >= WORTH_COMPILING


def size_of(node: Node) -> int:
    """The number of elements of a node of a concrete graph."""
    return prod(node.shape)


def nbytes_of(node: Node) -> int:
    """The bytes of the elements of a node of a concrete graph."""
    return int(node.type.nbytes)


def needed(node: Node, roles: Mapping[Node, Role], stored: Container[Node]) -> list[Node]:
    """What must exist in memory to read `node`: itself, or its sources where it is transparent
    and not `stored`."""
    if roles[node] in TRANSPARENT and node not in stored:
        return sources(node, roles, stored)
    return [node]


def sources(node: Node, roles: Mapping[Node, Role], stored: Container[Node] = ()) -> list[Node]:
    """The nodes that must exist in memory, or be computed in the same kernel, to compute `node`:
    its inputs, with those that are transparent (and not `stored`) seen through."""
    return sources_of(node.inputs, roles, stored)


def sources_of(
    operands: Sequence[Node], roles: Mapping[Node, Role], stored: Container[Node] = ()
) -> list[Node]:
    """The same for what is computed from these operands."""
    found: dict[Node, None] = {}
    pending = list(reversed(operands))
    seen: set[Node] = set()
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if roles[one] in TRANSPARENT and one not in stored:
            pending.extend(reversed(one.inputs))
        else:
            found.setdefault(one)
    return list(found)
