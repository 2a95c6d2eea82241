"""Names and checks the arguments of a training step: parameters, saved arrays, state, batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.execute.arguments import bound_to
from chainrule.graph.graph import Graph
from chainrule.graph.parts import Input
from chainrule.graph.plain import refuse_subclass
from chainrule.nearest import perhaps
from chainrule.signatures import perhaps_argument
from chainrule.train.optimizers.optimizer import Optimizer, number_of
from chainrule.train.step.state import State


def checked_arrays(
    graph: Graph, items: list[Input], values: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The arrays of the state, checked as the inputs of a run are; those that fit are not copied.

    An array with a size such as h·w, which its own shape does not tell, waits for the check of
    the first step.
    """
    for name, value in values.items():
        refuse_subclass(value, f"the array {name} of {graph.name}")
    plain = [item for item in items if all(map(_is_plain, item.type.shape))]
    alone = Graph(
        name=graph.name,
        inputs=tuple(plain),
        outputs=tuple((item.name, item.node) for item in plain),
        nodes=tuple(item.node for item in plain),
        names={item.name: item.node for item in plain},
    )
    given = {name: value for name, value in values.items() if name in alone}
    concrete, arrays = bound_to(alone, given)
    checked = {item.name: arrays[item.node] for item in concrete.inputs}
    return {
        item.name: checked[item.name] if item.name in checked else np.array(values[item.name])
        for item in items
    }


def _is_plain(size: Any) -> bool:
    return isinstance(size, int) or str(size).isidentifier()


def refuse_no_parameters(
    graph: Graph, names: Iterable[str], parameters: Collection[str], kept: Collection[str]
) -> None:
    """InputError for a name given to `init` that is no parameter; `kept` are other arrays."""
    for name in names:
        if name in parameters:
            continue
        known = f"the parameters (wrt=) are: {', '.join(parameters)}"
        if name in kept:
            raise InputError(
                f"{name} is an array of the optimizer, which step.init makes anew",
                hint=f"step.restore({{...}}) takes the optimizer's arrays as well;\n{known}",
            )
        if any(item.name == name for item in graph.inputs):
            raise InputError(
                f"{name} is an input of {graph.name} and no parameter of this step", hint=known
            )
        raise InputError(
            f"{graph.name} has no parameter called {name!r}", hint=perhaps(name, parameters) + known
        )


def refuse_other_arrays(graph: Graph, names: Collection[str], wanted: list[Input]) -> None:
    """InputError where the arrays given to `restore` are not exactly those of a state."""
    known = {item.name: item for item in wanted}
    for name in names:
        if name not in known:
            raise InputError(
                f"{name} was given to step.restore, and a state of {graph.name} has no such array",
                hint=f"{perhaps(name, known)}its arrays are: {', '.join(known)}",
            )
    missing = [item for name, item in known.items() if name not in names]
    if missing:
        raise InputError(
            f"step.restore of {graph.name} was not given: "
            + ", ".join(f"{item.name}: {item.type}" for item in missing),
            hint="it takes all arrays of a state, {**state}; "
            "step.init begins with parameters alone",
        )


def refuse_missing(graph: Graph, items: Iterable[Input], given: Any, call: str) -> None:
    """InputError where an input without default was not given to `call` (step, step.init)."""
    missing = [item for item in items if item.name not in given and item.default is None]
    if missing:
        name = missing[0].name
        argument = f"{name}=..." if name.isidentifier() else f"{{{name!r}: ...}}"
        raise InputError(
            f"{call} of {graph.name} was not given: "
            + ", ".join(f"{item.name}: {item.type}" for item in missing),
            where=missing[0].node.origin.describe(),
            hint=f"{call}(state, {argument}, ...)" if call == "step" else f"{call}({argument})",
        )


def refuse_no_state(state: Any, parameters: Iterable[str]) -> None:
    """InputError where the first argument of a step is no `State`."""
    if not isinstance(state, State):
        given = ", ".join(f"{name}=..." for name in parameters if name.isidentifier())
        raise InputError(
            f"the first argument of a step is its state, got {type(state).__name__}",
            hint=f"state = step.init({given}); then step(state, ...)",
        )


def given_to_step(batch: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a step is given: a mapping of names to arrays, and arrays by name; InputError for a
    batch that is none."""
    if batch is None:
        return named
    if type(batch) is not dict and not isinstance(batch, Mapping):
        kind = f"an array of shape {batch.shape}" if isinstance(batch, np.ndarray) else None
        raise InputError(
            "the second argument of a step is its batch by name, got "
            f"{kind or type(batch).__name__}",
            hint="step(state, x=x, y=y), or step(state, {'x': x, 'y': y})",
        )
    return {**batch, **named}


def refuse_scheduled(graph: Graph, batch: Iterable[str], optimizer: Optimizer) -> None:
    """InputError for a scalar of the optimizer in the batch that a schedule computes."""
    for name, schedule in optimizer.schedules.items():
        if name in batch and not any(item.name == name for item in graph.inputs):
            numbers = [f"{number_of(name, inner)}={value:g}" for inner, value in schedule.scalars]
            raise InputError(
                f"{name} was given to a step, which computes it by its schedule {schedule}",
                hint=f"a step takes the numbers of the schedule: step(state, ..., {numbers[0]})"
                + (f";\nalso {', '.join(numbers[1:])}" if numbers[1:] else "")
                + f";\nwithout a schedule, as in cr.{optimizer.name}(0.1), it takes {name}=",
            )


def refuse_no_batch(graph: Graph, batch: Iterable[str], held: Collection[str]) -> None:
    """InputError for a name in the batch that is no input, or whose array the state holds."""
    inputs = {item.name for item in graph.inputs}
    parts = {
        root: graph.structures[root].leaf_names if root in graph.structures else (root,)
        for root in {*graph.arguments, *batch}
    }
    for root in batch:
        for name in parts[root]:
            if name in held:
                raise InputError(
                    f"{name} was given to a step, and lives in the state",
                    hint=f"leave {root} out: step(state, ...)",
                )
        if root not in graph.structures and root not in inputs:
            taken = [name for name in graph.arguments if not set(parts[name]) & set(held)]
            raise InputError(
                f"{graph.name} has no input called {root!r}",
                hint=perhaps_argument(root, taken)
                + f"a step takes: {', '.join(taken) or 'nothing'}",
            )
