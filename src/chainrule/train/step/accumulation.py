"""Parts a training step into two graphs: one sums gradients, one updates with their mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass, replace
from chainrule.graph.free_names import free_name
from chainrule.graph.invariants import check
from chainrule.graph.node import Node, stamp
from chainrule.graph.origin import Origin
from chainrule.graph.parts import Gradient, Input
from chainrule.graph.rebuild import ordered, resting_on
from chainrule.graph.types import array_type
from chainrule.primitives.arithmetic import add, divide
from chainrule.primitives.logic import cast
from chainrule.primitives.sources import full_like, input_
from chainrule.train.optimizers.optimizer import Optimizer, StateArray
from chainrule.train.step.update import Persistent, reached_gradients, wide_dtype, with_update
from chainrule.transforms.backward import gradient_name

if TYPE_CHECKING:
    from chainrule.train.step.step import TrainingStep


@dataclass(frozen=True)
class Sum:
    """The sum over parts of a batch of one `value`: the objective, or its gradient by `wrt`.

    `name` is that of the sum (`J_sum`, `W_grad_sum`), `of` that of the value.
    """

    name: str
    of: str
    value: Node
    wrt: str | None


def sums_of(step: TrainingStep) -> tuple[Sum, ...]:
    """What is added up: the objective, and the gradients of the parameters that it reaches."""
    graph, objective = step.differentiated, step.objective
    taken = set(step.graph.names)
    found = [Sum(_free(f"{objective}_sum", taken), objective, graph[objective], None)]
    for wrt, value in reached_gradients(graph, objective, step.parameters).items():
        name = _free(f"{wrt}_grad_sum", taken)
        found.append(Sum(name, gradient_name(objective, wrt), value, wrt))
    return tuple(found)


def _free(wish: str, taken: set[str]) -> str:
    """A free name, which is taken from now on."""
    name = free_name(wish, taken)
    taken.add(name)
    return name


def accumulating(step: TrainingStep, sums: tuple[Sum, ...]) -> TrainingStep:
    """The step whose state are the sums: it adds what one part of a batch contributes.

    What the objective carries is among its state, too: each part sees what the one before left.
    Parameters are given to it like a batch.  float16 is added up in float32.
    """
    graph = step.differentiated
    inputs, names = list(graph.inputs), dict(graph.names)
    outputs = [(step.objective, graph[step.objective])]
    taken = {*names, *(one.name for one in sums)}
    persistent = [part for part in step.persistent if part.is_carried]
    outputs += [(part.next_name, graph[part.next_name]) for part in persistent]
    for one in sums:
        origin = one.value.origin.derived("accumulation", one.value)
        item = _sum_input(one, len(inputs), origin)
        inputs.append(item)
        after = add(item.node, _in(one.value, item.node))
        stamp((after,), origin)
        following = _free(f"{one.name}_next", taken)
        part = Persistent(one.name, following, one.wrt, StateArray("sum"))
        names |= {part.name: item.node, part.next_name: after}
        outputs.append((part.next_name, after))
        persistent.append(part)
    made = graph.replace(inputs=tuple(inputs), outputs=tuple(outputs), names=names, result=None)
    return replace(
        step,
        graph=check(resting_on(made, {})),
        switched=None,
        optimizer=Optimizer("accumulation", (), _adds_only),
        persistent=tuple(persistent),
        scalars={},
    )


def updating(step: TrainingStep, sums: tuple[Sum, ...], count: int) -> TrainingStep:
    """The step whose batch are the sums over `count` parts: it updates the state by their means.

    What the last part left of the arrays that the objective carries is given under the name of what
    follows them.
    """
    graph = step.differentiated
    inputs = [graph.input(name) for name in step.parameters]
    names = {item.name: item.node for item in inputs}
    means: dict[str | None, Node] = {}
    for one in sums:
        origin = one.value.origin.derived("accumulation", one.value)
        item = _sum_input(one, len(graph.inputs) + len(inputs), origin)
        inputs.append(item)
        mean = _in(divide(item.node, full_like(item.node, count)), one.value)
        stamp((mean,), origin)
        names |= {item.name: item.node, one.of: mean}
        means[one.wrt] = mean
    carried = [part for part in step.persistent if part.is_carried]
    for part in carried:
        old = graph.input(part.name)
        new = input_(index=len(graph.inputs) + len(inputs), type=old.type)
        stamp((new,), old.node.origin.derived("accumulation", old.node))
        inputs += [old, Input(part.next_name, new)]
        names |= {part.name: old.node, part.next_name: new}
    gradients = {}
    for name in step.parameters:
        unreached = full_like(graph[name], 0)
        stamp((unreached,), graph[name].origin.derived("accumulation", graph[name]))
        gradients[name] = means.get(name, unreached)
        names[gradient_name(step.objective, name)] = gradients[name]
    made = graph.replace(
        inputs=tuple(inputs),
        outputs=((step.objective, means[None]),),
        names=names,
        gradients=tuple(
            Gradient(step.objective, graph[name], value, ()) for name, value in gradients.items()
        ),
        conditions=(),
        guards=(),
        assigned={},
        structures={
            root: structure
            for root, structure in graph.structures.items()
            if set(structure.leaf_names) <= set(step.weights)
        },
        result=None,
    )
    made = made.replace(nodes=ordered(made))
    update = with_update(
        made,
        step.objective,
        step.parameters,
        step.optimizer,
        {part.name: part.next_name for part in carried},
        taken=set(graph.names),
    )
    return replace(
        step,
        graph=update.graph,
        differentiated=made,
        switched=None,
        persistent=update.persistent,
        scalars=update.scalars,
    )


def _sum_input(one: Sum, index: int, origin: Origin) -> Input:
    node = input_(index=index, type=array_type(wide_dtype(one.value), one.value.shape))
    stamp((node,), origin)
    return Input(one.name, node)


def _in(node: Node, like: Node) -> Node:
    """The node in the dtype of another."""
    return node if node.dtype == like.dtype else cast(node, dtype=like.dtype, weak=False)


def _adds_only(*arguments: Any) -> Any:
    raise AssertionError("the graph of an accumulation is made, not asked for")
