"""The primitive `cond`: runs one of two bodies, chosen by a value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.control.bodies import between, body_of, tidied
from chainrule.control.cost import COND, flops
from chainrule.control.evaluate_body import in_c_order, program_of
from chainrule.control.numpy_source import cond_python
from chainrule.control.packing import (
    is_zero,
    matched,
    packed,
    packed_batch,
    packed_type,
    strong,
    taken_apart,
    unpacked,
)
from chainrule.control.samples import choosing
from chainrule.control.taken import only_taken
from chainrule.control.whole import chosen, has_loops
from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.families import BOOL
from chainrule.primitives.logic import logical_not, where
from chainrule.primitives.movement import add_batch_axis, broadcast_to, reshape
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Joint, Primitive
from chainrule.primitives.python import Python
from chainrule.primitives.sources import full_like, input_, uniform
from chainrule.schedule.plain import iteration_nbytes
from chainrule.transforms.batch import batch_nodes
from chainrule.transforms.conditions import Condition, leaving
from chainrule.transforms.jvp import push
from chainrule.transforms.selected import Selections
from chainrule.transforms.vjp import pull, summed_seeds

Branch = tuple[str, Sequence[Node], Sequence[Node], Any]
# Derivatives in a branch, what is known of them there, and for conditions there those outside.
Known = tuple[Sequence[Node | None], Selections, Mapping[Condition, Condition]]


def choose(
    predicate: Node,
    outer: Sequence[tuple[str, Node]],
    branches: Sequence[Branch],
    wanted: Collection[int],
) -> dict[int, Any]:
    """The nodes of these results of a choice.

    Each branch is a name, what stands in it for the operands `outer` (each a name and a node), its
    results, and the names of nodes inside.
    """
    found: dict[int, Any] = {}
    types = [node.type for node in branches[0][2]]
    for dtype in dict.fromkeys(types[i].dtype for i in wanted):
        some = [i for i in wanted if types[i].dtype == dtype]
        read: set[int] = set()
        for _, inner, results, _ in branches:
            nodes = set(between(inner, [results[i] for i in some]))
            read |= {place for place, one in enumerate(inner) if one in nodes}
        places = sorted(read)
        bodies = [
            body_of(
                name,
                [(outer[place][0], inner[place]) for place in places],
                [(f"out{i}", results[i]) for i in some],
                names,
            )
            for name, inner, results, names in branches
        ]
        node = cond(
            predicate,
            *(outer[place][1] for place in places),
            if_true=bodies[0],
            if_false=bodies[1],
            dtype=dtype,
        )
        found.update(zip(some, unpacked(node, [types[i] for i in some]), strict=True))
    return found


def _bodies(out: Node) -> tuple[Body, Body]:
    return out.param("if_true"), out.param("if_false")


def result_types(body: Body) -> list[ArrayType]:
    """What a body gives, one after another."""
    return [node.type for _, node in body.graph.outputs]


def _type(*types: ArrayType, if_true: Body, if_false: Body, dtype: np.dtype) -> ArrayType:
    predicate, *operands = types
    if predicate.dtype != BOOL or predicate.shape:
        raise TypeError(f"a condition is one boolean, got {predicate}")
    for body in (if_true, if_false):
        wanted = [strong(item.type) for item in body.graph.inputs]
        if wanted != [strong(one) for one in operands]:
            raise TypeError(f"{body} takes {wanted}, got {operands}")
    results = result_types(if_true)
    if results != result_types(if_false) or any(one.dtype != dtype for one in results):
        raise TypeError(f"the branches give {results} and {result_types(if_false)}, not {dtype}")
    return packed_type(dtype, results)


def _evaluate(
    xp: Any, predicate: Any, *operands: Any, if_true: Body, if_false: Body, dtype: np.dtype
) -> Any:
    if has_loops(xp):
        return chosen(xp, predicate, *operands, if_true=if_true, if_false=if_false, dtype=dtype)
    body = if_true if predicate else if_false
    places = body.made.get("places") or body.made.setdefault("places", _places(body))
    flat = np.empty(places[-1].stop, dtype) if xp is np else xp.result
    found = program_of(body)([in_c_order(one) for one in operands])
    for value, place in zip(found, places, strict=True):
        flat[place] = value.ravel()
    return flat


def _places(body: Body) -> list[slice]:
    """Where each result of a concrete body lies in the flat array."""
    found, start = [], 0
    for one in result_types(body):
        found.append(slice(start, start + int(one.size)))
        start = found[-1].stop
    return found


def _scratch(out: Node, predicate: np.ndarray, *operands: np.ndarray) -> int:
    """What the larger branch takes: which one it will be is not known before."""
    taken = sum(one.nbytes for one in operands if not one.flags.c_contiguous)
    return taken + max(iteration_nbytes(body) for body in _bodies(out))


def _branches(out: Node) -> list[tuple[str, list[Node], list[Node], Any]]:
    return [
        (
            body.graph.name,
            [item.node for item in body.graph.inputs],
            [node for _, node in body.graph.outputs],
            body.graph.names,
        )
        for body in _bodies(out)
    ]


def _operands(out: Node, operands: Sequence[Node]) -> list[tuple[str, Node]]:
    names = [item.name for item in out.param("if_true").graph.inputs]
    return list(zip(names, operands, strict=True))


def _tidied(branch: Branch) -> Branch:
    name, inner, results, names = branch
    new = tidied(inner, results)
    shown = {key: new[node] for key, node in names.items() if node in new}
    return name, inner, [new[node] for node in results], shown


def _variable(type_: ArrayType) -> Any:
    return input_(index=-1, type=type_)


def _tangent(
    dxs: tuple[Any, ...],
    out: Node,
    predicate: Node,
    *operands: Node,
    selections: Selections | None = None,
) -> Any:
    """The same choice of the branches' tangents."""
    selections = Selections(forward=True) if selections is None else selections
    live = [place for place, dx in enumerate(dxs[1:]) if dx is not None]
    moving = [dxs[1:][place] for place in live]
    outer = _operands(out, operands)
    outer += [(f"d{outer[place][0]}", dx) for place, dx in zip(live, moving, strict=True)]
    conditions = _conditions(selections, moving)
    outer += [(f"selected{i}", condition.node()) for i, condition in conditions.items()]
    branches, known = [], []
    for name, inner, results, names in _branches(out):
        moves = [_variable(inner[place].type) for place in live]
        nodes = between(inner, results)
        nodes = [*inner, *(node for node in nodes if node not in set(inner))]
        tangents = dict(zip([inner[place] for place in live], moves, strict=True))
        selected, inside, outside = _inside(conditions, moves, Selections(forward=True))
        for dx, move in zip(moving, moves, strict=True):
            inside.inherit(selections, [dx], move)
        found = push(nodes, tangents, selections=inside)
        known.append(([found.get(node) for node in results], inside, outside))
        after = [
            matched(found[node], node.type) if node in found else full_like(node, 0)
            for node in results
        ]
        branches.append(_tidied((f"{name}_tangent", [*inner, *moves, *selected], after, names)))
    values = choose(predicate, outer, branches, range(len(branches[0][2])))
    _tell(selections, values, predicate, outer, branches, known)
    return packed([*values.values()], out.dtype, selections)


def _conditions(selections: Selections, several: Sequence[Node]) -> dict[int, Condition]:
    """By number, the conditions of those derivatives that have one."""
    found = {i: selections.of(g) for i, g in enumerate(several)}
    return {i: condition for i, condition in found.items() if condition is not None}


def _inside(
    conditions: dict[int, Condition], several: Sequence[Node], selections: Selections
) -> tuple[list[Node], Selections, dict[Condition, Condition]]:
    """What stands in a branch for the conditions, what is known of the derivatives there, and
    for each condition there the one outside."""
    made, outside = [], {}
    for i, condition in conditions.items():
        one = _variable(array_type(BOOL, several[i].shape))
        made.append(one)
        within = Condition(lambda one=one: one, (), condition.only_steep)
        outside[within] = condition
        selections.put(several[i], within)
    return made, selections, outside


def _tell(
    selections: Selections,
    values: Mapping[int, Node],
    predicate: Node,
    outer: Sequence[tuple[str, Node]],
    branches: Sequence[Branch],
    known: Sequence[Known],
) -> None:
    """Of the values of a choice, which are derivatives, what is known of them in the branches."""
    for i, value in values.items():
        within = []
        for several, inside, _ in known:
            one = several[i]
            within.append(one is not None and (inside.of(one) or True))
            if one is not None:
                selections.inherit(inside, [one], value)
        if all([one is True for one in within]):
            continue
        shape = branches[0][2][i].shape

        def made(within: Sequence[Condition | bool] = within, shape: Any = shape) -> Node:
            asked = [
                (
                    name,
                    inner,
                    [one.node() if isinstance(one, Condition) else uniform(one, BOOL, shape)],
                    names,
                )
                for (name, inner, _, names), one in zip(branches, within, strict=True)
            ]
            return choose(predicate, outer, [_tidied(one) for one in asked], [0])[0]

        left = {
            leaving(one, outside, made)
            for one, (_, _, outside) in zip(within, known, strict=True)
            if isinstance(one, Condition)
        }
        if True in within or len(left) != 1:
            left = {Condition(made, (), True)}
        selections.put(value, left.pop())


def _cotangents(
    g: Any,
    out: Node,
    active: tuple[int, ...],
    predicate: Node,
    *operands: Node,
    selections: Selections | None = None,
) -> tuple[Any | None, ...]:
    """The same choice of the branches' cotangents: the branch that was not taken adds nothing, and
    results that nothing reads have no cotangent."""
    selections = Selections() if selections is None else selections
    places = [place - 1 for place in active if place]
    types = result_types(out.param("if_true"))
    apart = taken_apart(g, types, selections)
    parts = {i: part for i, part in enumerate(apart) if not is_zero(part)}
    outer = _operands(out, operands)
    outer += [(f"dout{i}", part) for i, part in parts.items()]
    conditions = _conditions(selections, [*parts.values()])
    outer += [(f"selected{i}", condition.node()) for i, condition in conditions.items()]
    branches, known = [], []
    for name, inner, results, names in _branches(out):
        seeds = [_variable(types[i]) for i in parts]
        wrt = [inner[place] for place in places]
        nodes = between(inner, results)
        nodes = [*inner, *(node for node in nodes if node not in set(inner))]
        selected, inside, outside = _inside(conditions, seeds, Selections())
        for part, seed in zip(parts.values(), seeds, strict=True):
            inside.inherit(selections, [part], seed)
        sums = summed_seeds([results[i] for i in parts], seeds)
        found, _ = pull(nodes, sums, wrt, selections=inside)
        after = [
            matched(found[node], node.type) if node in found else full_like(node, 0) for node in wrt
        ]
        known.append(([found.get(node) for node in wrt], inside, outside))
        branches.append(_tidied((f"{name}_cotangent", [*inner, *seeds, *selected], after, names)))
    found = choose(predicate, outer, branches, range(len(places)))
    _tell(selections, found, predicate, outer, branches, known)
    result: list[Any] = [None] * (1 + len(operands))
    for number, place in enumerate(places):
        result[1 + place] = found[number]
    return tuple(result)


def _batch(size: int | Size, inputs: tuple[Node, ...], batched: tuple[bool, ...], out: Node) -> Any:
    """One choice for the whole batch, or, where every example has its own, both and a selection."""
    predicate, *operands = inputs
    types = result_types(out.param("if_true"))
    branches = []
    for name, inner, results, names in _branches(out):
        has = dict(zip(inner, batched[1:], strict=True))
        if batched[0]:
            taken = _variable(array_type(BOOL, ()))
            guarded = only_taken(taken, between(inner, results))
            results = [guarded.get(node, node) for node in results]
            inner, has[taken] = [*inner, taken], True
        given = {
            node: _variable(node.type.with_shape((size, *node.shape)))
            for node in inner
            if has[node]
        }
        new = batch_nodes(between(inner, results), given, size)
        after = [new[node] if node in new else add_batch_axis(node, size) for node in results]
        shown = {key: new.get(node, node) for key, node in names.items()}
        branches.append((name, [given.get(node, node) for node in inner], after, shown))
    if batched[0]:
        chosen = predicate, logical_not(predicate)
        both = [
            inlined(inner, [*operands, taken], after)
            for taken, (_, inner, after, _) in zip(chosen, branches, strict=True)
        ]
        parts = [select(predicate, x, y) for x, y in zip(*both, strict=True)]
    else:
        outer = _operands(out, operands)
        parts = [*choose(predicate, outer, branches, range(len(types))).values()]
    return packed_batch(parts, [one.size for one in types])


def inlined(inner: Sequence[Node], outer: Sequence[Node], results: Sequence[Node]) -> list[Node]:
    """The results of a body, as nodes of the graph around it."""
    new = dict(zip(inner, outer, strict=True))
    for node in between(inner, results):
        if node not in new:
            operands = tuple([new[parent] for parent in node.inputs])
            new[node] = node.with_inputs(operands)
    return [new[node] for node in results]


def select(predicate: Any, x: Any, y: Any) -> Any:
    """x where the condition, one for each example, holds, else y."""
    shape = (*predicate.shape, *(1,) * (x.ndim - 1))
    return where(broadcast_to(reshape(predicate, shape=shape), shape=x.shape), x, y)


cond = Primitive(
    name="cond",
    doc="What the first body gives where the condition holds, else the second, in one array.",
    inputs=("condition", "x"),
    result_type=_type,
    evaluate=_evaluate,
    derivative=Joint(_tangent, _cotangents, selects=True),
    batch=_batch,
    kernel=COND,
    as_stored=True,
    flops=flops,
    latex=Latex(r"\operatorname{{cond}}_{{{if_true}, {if_false}}}({condition}, {x})", ATOM, (0, 0)),
    samples=(choosing(),),
    variadic=True,
    scratch=_scratch,
    python=Python(cond_python, noun="chosen"),
)
