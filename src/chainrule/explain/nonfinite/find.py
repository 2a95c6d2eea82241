"""`nonfinite`: replays a graph node by node, and finds the first bad value that did harm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import EvaluationError
from chainrule.execute.arguments import bound_to
from chainrule.execute.leaves import leaves_of
from chainrule.execute.reference import apply, evaluate
from chainrule.execute.refusal import refuse_reference
from chainrule.explain.nonfinite.describe import Replay, diagnosis
from chainrule.explain.nonfinite.diagnosis import Diagnosis
from chainrule.explain.nonfinite.fault import Fault, fault_of, replayed
from chainrule.explain.nonfinite.inside import with_inside
from chainrule.explain.nonfinite.trail import Trail
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological

if TYPE_CHECKING:
    from chainrule.train.step.step import TrainingStep


def nonfinite(
    graph: Graph, arguments: Mapping[str, Any], *, of: str | Iterable[str] | None = None
) -> Diagnosis | None:
    """The first value of a run that is NaN or infinite and reaches a result; None if none does.

    `arguments` are those of `graph.run`.  Results are the outputs and all gradients of the graph,
    or the values that `of` names.  The graph is replayed on the reference executor, node by node.

    A fault is a NaN that comes from no NaN, an inf computed from finite numbers, or either in an
    input or a constant; and only if it reaches a result as NaN or inf.  Elements are followed one
    by one: what `np.where`, a maximum, an index or a turn of a loop leaves out reaches nothing.
    An inf in a constant, in a Python number, or in a mask of 0 and -inf is meant: it is the fault
    only of a result that nothing else explains.  What an operation that refused was given (the
    eigenvalues of NaN) counts as a result.  Raises what `graph.run` raises of finite numbers.
    """
    return _found(graph, arguments, of)


def nonfinite_step(
    step: TrainingStep, state: Mapping[str, np.ndarray], arguments: Mapping[str, Any]
) -> Diagnosis | None:
    """As `nonfinite` for the training step that would be taken on this state and batch.

    `state` has the arrays of a `State` by name, or is one; nothing is changed.  Results are the
    objective, all gradients, and the updated arrays.
    """
    return _found(step.graph, {**arguments, **state}, None, frozenset(state))


def _found(
    graph: Graph,
    arguments: Mapping[str, Any],
    of: str | Iterable[str] | None,
    held: frozenset[str] = frozenset(),
) -> Diagnosis | None:
    concrete, inputs = bound_to(graph, leaves_of(graph, arguments))
    targets = _targets(concrete, of)
    kept = _not_needed_by_others(targets)
    refuse_reference(concrete, kept, inputs)
    trail = Trail()
    refused = fault = None
    try:
        evaluate(concrete, inputs, kept, graph, watch=trail)
    except EvaluationError as error:
        refused = error
        targets = [*targets, *_given_to_the_next(concrete, kept, trail)]
    for node, where in trail.towards(targets).faults.items():
        fault = replayed(concrete, inputs, node, where)
        break
    if fault is None:
        returned = of is None and not held
        fault = _meant(inputs, trail, _not_returned(concrete, targets) if returned else targets)
    if fault is None and refused is not None:
        raise refused
    if fault is None:
        return None
    during = "the step" if held else "the run"
    replay = Replay(graph, concrete, inputs, during, held)
    return with_inside(diagnosis(fault, trail, replay), fault, replay)


def _targets(graph: Graph, of: str | Iterable[str] | None) -> list[Node]:
    """The results that a fault has to reach."""
    if of is not None:
        return [graph[name] for name in ([of] if isinstance(of, str) else of)]
    present = set(graph.nodes)
    made = [one.value for one in graph.gradients if one.value in present]
    return list(dict.fromkeys([*(node for _, node in graph.outputs), *made]))


def _not_needed_by_others(targets: list[Node]) -> list[Node]:
    """The targets from which all others are computed on the way: only these are kept."""
    used = {parent for node in topological(targets) for parent in node.inputs}
    return [node for node in targets if node not in used]


def _given_to_the_next(graph: Graph, kept: list[Node], trail: Trail) -> list[Node]:
    """What was not finite and given to the operation that could not be evaluated."""
    needed = set(topological(kept))
    refused = next(one for one in graph.nodes if one in needed and one not in trail.seen)
    return [one for one in refused.inputs if one in trail.bad]


def _not_returned(graph: Graph, targets: list[Node]) -> list[Node]:
    """The objectives and gradients among the targets.

    Another array that the program returns may well have an inf that the program wrote into it.
    """
    gradients = {one.value for one in graph.gradients}
    return [node for node in targets if node in gradients or not node.ndim]


def _meant(inputs: Mapping[Node, np.ndarray], trail: Trail, targets: list[Node]) -> Fault | None:
    """The first value with an inf that was meant and came to one of the targets."""
    for node, wrong in trail.towards(targets).given.items():
        value = inputs[node] if node in inputs else apply(node, [], ())
        return fault_of(node, value, [], wrong)
    return None
