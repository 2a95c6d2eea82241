"""`cond` on traced arrays: traces two functions into the branches of one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.control.carry_types import common_type, converted
from chainrule.control.cond_node import choose
from chainrule.control.trace_body import Call, parameter, trace_body
from chainrule.control.tracing import Frame, Site
from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.trace import Trace
from chainrule.graph.node import Node
from chainrule.graph.structure import Structure, flatten
from chainrule.primitives.families import BOOL


def traced_cond(
    building: Trace, frame: Frame, predicate: Any, functions: Sequence[Any], operands: Any
) -> Any:
    """`cond` on traced arrays."""
    with Site(building, frame) as site:
        condition = as_node(building, predicate)
        if condition.type.dtype != BOOL or condition.shape:
            raise DTypeError(
                f"the condition of cond is {condition.type}, not one boolean",
                where=building.where(),
                hint="compare (x > 0), or choose elementwise with np.where",
            )
        given = [site.leaves(one, f"x{place}") for place, one in enumerate(operands)]
        calls = []
        for function in functions:
            arguments = []
            for place, (nodes, _) in enumerate(given):
                structure = flatten(operands[place], parameter(function, place, f"x{place}"))[1]
                arguments.append((structure, [node.type for node in nodes]))
            with np.errstate(all="ignore"):  # of numbers in a branch that may not be taken
                calls.append(trace_body(building, function, arguments, lambda one: [("out", one)]))
        structure, results = _agreed(calls)
        outer = [pair for nodes, one in given for pair in zip(one.leaf_names, nodes, strict=True)]
        read = {node: name for call in calls for name, node in call.read}
        outer += [(name, node) for node, name in read.items()]
        branches = [
            (
                call.name,
                [*(leaf for leaves in call.variables for leaf in leaves), *read],
                nodes,
                call.names,
            )
            for call, nodes in zip(calls, results, strict=True)
        ]
        found = choose(condition, outer, branches, range(len(results[0])))
        nodes = [found[i] for i in range(len(results[0]))]
        result = site.wrapped(structure, nodes)
    return result


def _agreed(calls: Sequence[Call]) -> tuple[Structure, list[list[Node]]]:
    """What two branches give, in the same types."""
    first, second = calls
    (structure, xs), (other, ys) = first.results[0], second.results[0]
    where = f"{first.where}\n{second.where}"
    one, another = first.shown, second.shown
    if one == another:
        one, another = "the first branch", "the second branch"
    if structure.spec != other.spec:
        raise InputError(
            f"{one} returns {', '.join(structure.leaf_names) or 'nothing'}, "
            f"{another} returns {', '.join(other.leaf_names) or 'nothing'}",
            where=where,
            hint="both branches of cond return the same containers",
        )
    pairs = []
    for name, x, y in zip(structure.leaf_names, xs, ys, strict=True):
        both = common_type(x.type, y.type)
        if both is None:
            kind = DTypeError if x.shape == y.shape else ShapeError
            raise kind(
                f"{name} is {x.type} where {one} is taken, and {y.type} where {another} is",
                where=where,
                hint="both branches of cond return values of the same types",
            )
        pairs.append((converted(x, both), converted(y, both)))
    return structure, [[x for x, _ in pairs], [y for _, y in pairs]]
