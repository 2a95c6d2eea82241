"""A `TrainingStep` is forward propagation, backpropagation and update as one graph, and runs it."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import InputError
from chainrule.graph.graph import Graph, Input
from chainrule.graph.structure import Structure, flatten
from chainrule.run import Run, run_graph
from chainrule.run.executors import executor_named
from chainrule.run.run import Keep, bound_to, leaves_of
from chainrule.tracing import trace
from chainrule.train.optimizer import Optimizer
from chainrule.train.penalty import second_decay
from chainrule.train.state import State
from chainrule.train.update import Persistent, with_update
from chainrule.transforms.backward import Wrt, backward, wrt_names

if TYPE_CHECKING:
    from chainrule.plan.planner import Plan

REMEMBERED = 8  # sizes for which a state keeps its code bound (the last batch may be short)


def training_step(
    objective: Callable[..., Any] | Graph,
    wrt: Wrt,
    optimizer: Optimizer,
    *,
    of: str | None = None,
    executor: str | None = None,
    **types: Any,
) -> TrainingStep:
    """The training step that makes `objective` small by changing the inputs `wrt`.

    `objective` is a function (traced; further keywords are types or examples for `trace`) or a
    graph; `wrt` names its parameters, or containers of them; `of` says which output is the
    objective where there are several (the others stay as named values).  `executor` is "native"
    (compiled; the default where native code can be made) or "reference".

    Raises NotDifferentiableError for a parameter that is not floating-point, NameLookupError for
    an unknown one, and what `trace` and `backward` raise.  Warns (UserWarning) where the objective
    penalises parameters that the optimizer decays as well.
    """
    executor = executor_named(executor)
    if not isinstance(optimizer, Optimizer):
        raise InputError(
            f"optimizer={optimizer!r} is no optimizer", hint="optimizer=cr.sgd(learning_rate=0.1)"
        )
    forward = _forward(objective, types)
    parameters = _parameters(forward, wrt)
    combined = backward(forward, wrt=parameters, of=of)
    name = of or forward.outputs[0][0]
    twice = second_decay(forward, name, parameters, optimizer)
    if twice:
        warnings.warn(twice, UserWarning, stacklevel=2)
    update = with_update(combined, name, parameters, optimizer)
    return TrainingStep(
        graph=update.graph,
        objective=name,
        parameters=parameters,
        optimizer=optimizer,
        executor=executor,
        persistent=update.persistent,
        scalars=update.scalars,
    )


@dataclass(frozen=True, eq=False)
class TrainingStep:
    """One training step; `training_step` makes it.

    `graph` is the whole step: its outputs are the objective, then the updated parameters
    (`W1_next`), then the optimizer's updated arrays: those of each parameter (`W1_m_next`), and
    those that all share (`steps_next`).  `parameters` are names of inputs, containers taken apart.
    `scalars` maps each scalar of the optimizer to the input that takes it (`learning_rate`, or
    `learning_rate_1` where the objective has an input of that name).
    """

    graph: Graph
    objective: str
    parameters: tuple[str, ...]
    optimizer: Optimizer
    executor: str
    persistent: tuple[Persistent, ...]
    scalars: Mapping[str, str]

    @property
    def unreached(self) -> tuple[str, ...]:
        """The parameters on which the objective does not depend: a step leaves them as they are."""
        return tuple(name for name in self.parameters if name in self.graph.unreached)

    def init(self, parameters: Mapping[str, Any] | None = None, /, **named: Any) -> State:
        """A new state with copies of these parameters: `step.init(W1=W1, W2=W2)`.

        Containers are given whole (`params=...`); names that are no identifiers go into the
        mapping.  Raises InputError for a parameter that is unknown, missing or of another type,
        SizeError where named sizes disagree.
        """
        given = {**(parameters or {}), **named}
        leaves: dict[str, Any] = {}
        structures: dict[str, Structure] = {}
        for root, value in given.items():
            if root in self.parameters:
                leaves[root] = value
                continue
            parts, structures[root] = flatten(value, root)
            leaves.update(zip(structures[root].leaf_names, parts, strict=True))
        self._refuse_unknown(list(leaves))
        items = [self.graph.input(name) for name in self.parameters]
        self._refuse_missing(items, leaves, "step.init")
        arrays = _checked_copies(self.graph, items, leaves)
        for part in self.persistent:
            if part.array is not None:
                owner = None if part.array.scalar else part.parameter
                shape = () if owner is None else arrays[owner].shape
                dtype = self.graph[part.name].dtype
                arrays[part.name] = np.full(shape, part.array.initial, dtype)
        return State(arrays, self.parameters, structures)

    def __call__(
        self, state: State, batch: Mapping[str, Any] | None = None, /, **named: Any
    ) -> Any:
        """Take one step on this batch: updates `state`, returns the objective before the update.

        `J = step(state, x=x, y=y)`; a NumPy scalar.  `learning_rate=` and other scalars may be
        given too.  Whatever is raised, the state is then as it was.
        """
        given = {**batch, **named} if batch else named
        latest = state.latest
        if latest is not None and latest.step is self:
            objective = latest(given)
            if objective is not None:
                return objective
        arrays = state.arrays
        state.refuse_second_step()
        with state.stepping, state.updating:
            if self.executor == "native":
                return self._native(state, arrays, given)
            run = self._run(arrays, given, "outputs")
            objective = run[self.objective][()]
            state.advance([(part.name, run[part.next_name]) for part in self.persistent])
        return objective

    def _native(self, state: State, arrays: Mapping[str, np.ndarray], given: Any) -> Any:
        """A step in machine code, bound to the state's memory at the first call of each size."""
        from chainrule.train.bound import BoundStep

        concrete, inputs = bound_to(self.graph, self._arguments(arrays, given))
        bound = state.bound.get(concrete)
        if bound is None:
            bound = BoundStep(self, state, concrete)
            while len(state.bound) >= REMEMBERED:
                state.bound.pop(next(iter(state.bound)))
            state.bound[concrete] = bound
        state.latest = bound
        return bound.take(inputs)

    def run(
        self,
        state: State,
        batch: Mapping[str, Any] | None = None,
        /,
        *,
        keep: Keep = "outputs",
        **named: Any,
    ) -> Run:
        """The named values of the step that would be taken; the state stays as it is.

        `step.run(state, x=x, y=y, keep="named")["dJ/dW1"]`; `keep` as in `Graph.run`.
        """
        with state.updating:
            return self._run(state.arrays, {**(batch or {}), **named}, keep)

    def plan(self, **sizes: int) -> Plan:
        """How the native executor takes a step at these sizes: `print(step.plan(n=256))`."""
        from chainrule.run.native.machine import plan_for
        from chainrule.train.bound import results_of

        concrete = self.graph.bind(**sizes)
        return plan_for(concrete, *results_of(self, concrete))

    def _run(self, arrays: Mapping[str, np.ndarray], batch: Mapping[str, Any], keep: Keep) -> Run:
        arguments = self._arguments(arrays, batch)
        return run_graph(self.graph, arguments, keep=keep, flat=True, executor=self.executor)

    def _arguments(
        self, arrays: Mapping[str, np.ndarray], batch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The inputs of the graph by name, from the state and the batch."""
        if set(arrays) != {part.name for part in self.persistent}:
            raise InputError(
                f"the state holds {', '.join(arrays)}; this step updates "
                + ", ".join(part.name for part in self.persistent),
                hint="make the state with init of the same step",
            )
        for root in batch:
            structure = self.graph.structures.get(root)
            for name in structure.leaf_names if structure is not None else (root,):
                if name in arrays:
                    raise InputError(
                        f"{name} was given to a step, and lives in the state",
                        hint=f"leave {root} out: step(state, ...)",
                    )
        arguments = {**leaves_of(self.graph, batch), **arrays}
        self._refuse_missing(self.graph.inputs, arguments, "step")
        return arguments

    def _refuse_unknown(self, names: list[str]) -> None:
        for name in names:
            if name in self.parameters:
                continue
            known = any(item.name == name for item in self.graph.inputs)
            near = difflib.get_close_matches(name, self.parameters, n=1)
            raise InputError(
                f"{name} is an input of {self.graph.name} and no parameter of this step"
                if known
                else f"{self.graph.name} has no parameter called {name!r}",
                hint=(f"perhaps {near[0]}; " if near else "")
                + f"the parameters (wrt=) are: {', '.join(self.parameters)}",
            )

    def _refuse_missing(self, items: Any, given: Mapping[str, Any], call: str) -> None:
        missing = [i for i in items if i.name not in given and i.default is None]
        if missing:
            name = missing[0].name
            argument = f"{name}=..." if name.isidentifier() else f"{{{name!r}: ...}}"
            raise InputError(
                f"{call} of {self.graph.name} was not given: "
                + ", ".join(f"{item.name}: {item.type}" for item in missing),
                where=missing[0].node.origin.describe(),
                hint=f"{call}(state, {argument}, ...)" if call == "step" else f"{call}({argument})",
            )

    def __str__(self) -> str:
        return str(self.graph)


def _forward(objective: Callable[..., Any] | Graph, types: Mapping[str, Any]) -> Graph:
    if not isinstance(objective, Graph):
        return trace(objective, **types)
    if types:
        raise InputError(
            f"{', '.join(types)} given for {objective.name}, which is a graph already",
            hint="give types to cr.trace",
        )
    return objective


def _parameters(graph: Graph, wrt: Wrt) -> tuple[str, ...]:
    """The inputs that `wrt` means, each one array."""
    names = wrt_names(graph, wrt)
    inputs = {item.name for item in graph.inputs}
    for name in names:
        if name not in inputs:
            raise InputError(
                f"{name} is computed by {graph.name}: only an input can be a parameter",
                where=graph[name].origin.describe(),
                hint=f"wrt= names inputs: {_float_inputs(graph)}",
            )
    if not names:
        raise InputError(
            "wrt names no parameter: there is nothing to train",
            hint=f"wrt= names inputs: {_float_inputs(graph)}",
        )
    return tuple(names)


def _float_inputs(graph: Graph) -> str:
    return ", ".join(item.name for item in graph.inputs if item.type.is_float)


def _checked_copies(
    graph: Graph, items: list[Input], values: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The parameters in memory of their own, checked as the inputs of a run are.

    A parameter with a size such as h·w, which its own shape does not tell, waits for the check of
    the first step.
    """
    plain = [item for item in items if all(map(_is_plain, item.type.shape))]
    alone = Graph(
        name=graph.name,
        inputs=tuple(plain),
        outputs=tuple((item.name, item.node) for item in plain),
        nodes=tuple(item.node for item in plain),
        names={item.name: item.node for item in plain},
    )
    given = {name: value for name, value in values.items() if name in alone}
    checked = run_graph(alone, given, keep="outputs", flat=True)  # an executor's arrays are its own
    return {
        item.name: checked[item.name] if item.name in checked else np.array(values[item.name])
        for item in items
    }


def _is_plain(size: Any) -> bool:
    return isinstance(size, int) or str(size).isidentifier()
