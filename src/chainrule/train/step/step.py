"""A `TrainingStep` runs forward propagation, backpropagation and update as one graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute import Run, run_graph
from chainrule.execute.casting import in_own_precision
from chainrule.execute.executors import in_memory, prepare
from chainrule.execute.leaves import by_name, leaves_of, refuse_bare, taken_apart
from chainrule.execute.prepared import Prepared
from chainrule.execute.run import Keep
from chainrule.graph.by_name import sizes_by_name
from chainrule.graph.cached import cached_property
from chainrule.graph.frozen import Frozen
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.tracebacks import entry, shorten
from chainrule.train.optimizers.optimizer import Optimizer
from chainrule.train.step.check_arguments import (
    checked_arrays,
    given_to_step,
    refuse_missing,
    refuse_no_batch,
    refuse_no_parameters,
    refuse_no_state,
    refuse_other_arrays,
    refuse_scheduled,
)
from chainrule.train.step.shown import ShownAsGraph
from chainrule.train.step.state import State
from chainrule.train.step.update import Persistent

if TYPE_CHECKING:
    from chainrule.explain.cost.measured_runs import Measure
    from chainrule.explain.memory.fits import Fit
    from chainrule.explain.memory.lying import Layout
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.explain.memory.tradeoff import Tradeoff
    from chainrule.graph.structure import Structure
    from chainrule.plan.speeds import Speeds
    from chainrule.train.step.micro_batches import MicroBatchedStep


@dataclass(frozen=True, eq=False)
class TrainingStep(Frozen, ShownAsGraph):
    """One training step; `training_step` makes it.

    `graph` is the whole step: its outputs are the objective, then the updated parameters
    (`W1_next`), then what follows the objective's own state (`running_mean_next`), then the
    optimizer's updated arrays: those of each parameter (`W1_m_next`), and those that all share
    (`steps_next`).  `differentiated` is the same without the update; `switched` is the graph of
    `training=False`, None if the objective has no such switch.
    `parameters` are names of inputs, containers taken apart.
    `scalars` maps each number of the optimizer to the input that takes it (`learning_rate`, or
    `learning_rate_1` where the objective has an input of that name; with a schedule,
    `learning_rate_base` and the others in its place).  `saved` is the dtype in which the backward
    pass reads values of the forward pass, None for their own.
    """

    _called = "a training step"
    _instead = (
        "send the objective, make the step there, and go on from arrays: np.savez(file, **state), "
        "step.restore(np.load(file)); or cr.Checkpoints"
    )

    graph: Graph  # pyrefly: ignore[bad-override]
    differentiated: Graph
    switched: Graph | None
    objective: str
    parameters: tuple[str, ...]
    optimizer: Optimizer
    executor: str
    persistent: tuple[Persistent, ...]
    scalars: Mapping[str, str]
    saved: np.dtype | None = None

    @property
    def unreached(self) -> tuple[str, ...]:
        """The parameters on which the objective does not depend; a step does not change them."""
        return tuple(name for name in self.parameters if name in self.graph.unreached)

    @property
    def evaluation(self) -> Graph:
        """The forward pass that is evaluated: without training if the objective has that switch."""
        return self.switched or self.differentiated

    @cached_property
    def carried(self) -> tuple[str, ...]:
        """The arrays of the objective's own state, which are not trained; containers taken apart.

        `training_step(..., state=)` names them.
        """
        return tuple(part.name for part in self.persistent if part.is_carried)

    @property
    def weights(self) -> tuple[str, ...]:
        """What evaluation needs of a state: the parameters, then what is carried."""
        return (*self.parameters, *self.carried)

    @entry
    def init(self, parameters: Mapping[str, Any] | None = None, /, **named: Any) -> State:
        """Makes a new state with copies of these parameters: `step.init(W1=W1, W2=W2)`.

        The objective's own state (`state=` of `training_step`) is given like parameters, but for
        what has a default.  Containers are given whole (`params=...`); names that are no
        identifiers go into the mapping.  Raises InputError for a parameter that is unknown, missing
        or of another type, SizeError where named sizes disagree.  Floats of another dtype are cast,
        with a CastWarning.
        """
        if parameters is not None:
            named = {**by_name(self.graph, parameters, "step.init"), **named}
        leaves, structures = taken_apart(self.graph, named)
        leaves = {n: one for n, one in leaves.items() if not self._is_own_number(n, one)}
        if not set(leaves) <= set(self.weights):
            refuse_bare(self.graph, named, "step.init")
        kept = [part.name for part in self.persistent if part.array is not None]
        refuse_no_parameters(self.graph, leaves, self.weights, kept)
        items = [self.graph.input(name) for name in self.weights]
        refuse_missing(self.graph, items, leaves, "step.init")
        arrays = checked_arrays(self.graph, items, in_own_precision(self.graph, leaves))
        for part in self.persistent:
            if part.array is not None:
                owner = None if part.array.scalar else part.parameter
                shape = () if owner is None else arrays[owner].shape
                initial = np.array(part.array.initial, self.graph[part.name].dtype)
                arrays[part.name] = np.broadcast_to(initial, shape)
        return State(arrays, self.parameters, self._containers(structures), self.carried)

    @entry
    def restore(self, arrays: Mapping[str, Any], /, *, steps: int = 0) -> State:
        """Makes a new state with copies of these arrays, which are all arrays of a state, by name.

        After `np.savez("state.npz", **state)`, steps on `step.restore(np.load("state.npz"))` are
        those that would have come, to the last bit (with one machine and number of threads).
        `steps` is where `state.steps` begins.  Containers of parameters may be given whole.
        Raises InputError for an array that is missing, unknown or of another type, SizeError
        where named sizes disagree.
        """
        items = [self.graph.input(part.name) for part in self.persistent]
        leaves, _ = taken_apart(self.graph, by_name(self.graph, arrays, "step.restore"))
        refuse_other_arrays(self.graph, leaves, items)
        arrays = checked_arrays(self.graph, items, leaves)
        state = State(arrays, self.parameters, self._containers({}), self.carried)
        state.steps_taken = steps
        return state

    def __call__(
        self, state: State, batch: Mapping[str, Any] | None = None, /, **named: Any
    ) -> Any:
        """Take one step on this batch: updates `state`, returns the objective before the update.

        `J = step(state, x=x, y=y)`; a NumPy scalar.  `learning_rate=` and other scalars may be
        given too.  Whatever is raised, the state is then as it was.
        """
        try:
            if type(state) is not State:
                refuse_no_state(state, self.parameters)
            given = named if batch is None else given_to_step(batch, named)
            if state.is_stepping:
                state.refuse_second_step()
            with state.updating:
                state.is_stepping = True
                try:
                    objective = state.latest.taken(self, state, given)
                finally:
                    state.is_stepping = False
                return objective
        except Exception as error:
            shorten(error)
            raise

    def looked_at(self, state: State, given: Mapping[str, Any]) -> Any:
        """Look at a batch, and take a step on it, for a caller who holds the state.

        The program is bound to the state's memory at the first call of each set of sizes.
        """
        from chainrule.train.step.bound import BoundStep

        prepared = Prepared(self.graph, partial(BoundStep, self, state), self.memory, state.bound)
        return prepared.checked(self.arguments(state.outlined, given))[1]

    @entry
    def micro_batched(self, count: int, *, size: str | None = None) -> MicroBatchedStep:
        """Makes a step that takes `count` equal parts of a batch in turn, and updates once.

        `step.micro_batched(4)(state, x=x, y=y)` computes the gradients of each quarter of the rows,
        and moves the parameters by their mean: in less memory, the step on the whole batch where
        the objective is an average over the batch plus what does not depend on it.  The batch is
        split along the axis whose size is called `size` (default: the one that only the batch
        has).  InputError where that is not clear, or a parameter has such an axis.
        """
        from chainrule.train.step.splitting_batches import micro_batched

        return micro_batched(self, count, size)

    @entry
    def run(
        self,
        state: State,
        batch: Mapping[str, Any] | None = None,
        /,
        *,
        keep: Keep = "outputs",
        **named: Any,
    ) -> Run:
        """Computes the values of the next step without changing the state.

        `step.run(state, x=x, y=y, keep="named")["dJ/dW1"]`; `keep` as in `Graph.run`, but what is
        kept if nothing is said is the outputs: the objective and the updated arrays.
        """
        refuse_no_state(state, self.parameters)
        with state.updating:
            return self._run(state.arrays, given_to_step(batch, named), keep)

    @entry
    def plan(self, **sizes: int) -> Any:
        """Shows how the executor runs a step at these sizes: `print(step.plan(n=256))`."""
        concrete = in_memory(self.executor, self.graph.bind(**sizes), self.results)
        return prepare(self.executor, concrete, *self.results(concrete)).plan

    @entry
    def memory(
        self,
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        predict: str | tuple[str, ...] | list[str] | None = None,
        executor: str | None = None,
        layout: Layout | None = None,
        **named: int,
    ) -> MemoryReport:
        """The bytes that a step takes, before one is taken: `print(step.memory(n=256))`.

        Training is the whole step with its optimizer, prediction what the values in `predict` need
        (default: the objective).  The rest is as for `Graph.memory`; `executor=None` is the
        executor of the step.  `layout` is of the batch: parameters are copied once, by `init`.
        """
        from chainrule.explain.memory.report import memory_of_step

        given = sizes_by_name(self.graph, "step.memory", sizes, named)
        options: Any = {"predict": predict, "executor": executor, "layout": layout}
        try:
            return memory_of_step(self, given, **options)
        except MemoryLimitError as error:
            from chainrule.train.step.over_budget import advised  # where a budget is too small

            raise advised(error, self, given, options) from None

    @entry
    def tradeoff(
        self,
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        executor: str | None = None,
        speeds: Speeds | None = None,
        measure: Measure = False,
        **named: int,
    ) -> Tradeoff:
        """What less memory costs in time at these sizes: `print(step.tradeoff(n=256))`.

        Times are predicted for this machine, which is calibrated once (a fifth of a second; of the
        executor "reference" for a known processor), or for one with other `speeds`.
        With `measure=True` steps are taken with each plan, on arrays that are made up: that takes
        some seconds for each, and its memory; where that is not free, the prediction is scaled.
        `measure={"x": x}` gives arrays and parameters in place of those, repeated or cut to their
        shapes.
        """
        report = self.memory(sizes, predict=None, executor=executor, layout=None, **named)
        return report.tradeoff(speeds=speeds, measure=measure)

    @entry
    def fits(
        self,
        amount: int | str | Mapping[str, int] | None = None,
        /,
        *,
        nbytes: int | str | None = None,
        executor: str | None = None,
        layout: Layout | None = None,
        speeds: Speeds | None = None,
        measure: Measure | None = None,
        **sizes: int,
    ) -> Fit:
        """Whether a step at these sizes fits in an amount: `step.fits("8 GiB", n=256)`.

        As `Graph.fits`; parameters and the optimizer's arrays are counted.  `print` it: `ways` are
        those in which it fits, with bytes and time, the quickest first.  Each is run when they are
        asked for, for half a second on made-up arrays; `measure=True` takes up to two seconds each
        for nearer times, `measure={"x": x}` gives arrays in place of those that are made up,
        `measure=False` or `speeds` estimates as `tradeoff` does.  Estimated is also what
        depends on the elements (`cr.while_loop`, `cr.primitive`), and what would take too long.
        """
        from chainrule.train.step.ways_to_fit import fit_of_step

        return fit_of_step(self, amount, nbytes, executor, layout, sizes, speeds, measure)

    @entry
    def results(self, concrete: Graph) -> tuple[list[Node], dict[Node, Node]]:
        """What a step computes, its graph bound to sizes, and which inputs' arrays take which."""
        from chainrule.train.step.bound import results_of

        return results_of(self, concrete)

    def _containers(self, given: Mapping[str, Structure]) -> dict[str, Structure]:
        """The containers that live in a state as a whole: those that were given, else as traced."""
        return {
            root: given.get(root, structure)
            for root, structure in self.graph.structures.items()
            if not structure.is_leaf and set(structure.leaf_names) <= set(self.weights)
        }

    def _is_own_number(self, name: str, value: Any) -> bool:
        """Whether it is a number in a container that is not trained, as it was traced."""
        for item in self.graph.inputs:
            if item.name == name and name not in self.weights and not name.isidentifier():
                return type(value) in (int, float) and value == item.default
        return False

    def _run(self, arrays: Mapping[str, np.ndarray], batch: Mapping[str, Any], keep: Keep) -> Run:
        arguments = self.arguments(arrays, batch)
        return run_graph(
            self.graph,
            arguments,
            keep=keep,
            flat=True,
            executor=self.executor,
            report=self.memory if keep == "outputs" else None,
        )

    def arguments(
        self, arrays: Mapping[str, np.ndarray], batch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The inputs of the graph by name, from the state and the batch."""
        if set(arrays) != {part.name for part in self.persistent}:
            raise InputError(
                f"the state holds {', '.join(arrays)}; this step updates "
                + ", ".join(part.name for part in self.persistent),
                hint="make the state with init of the same step",
            )
        refuse_scheduled(self.graph, batch, self.optimizer)
        refuse_no_batch(self.graph, batch, arrays)
        for name, given in batch.items():
            self.check_number(name, given)
        arguments = {**leaves_of(self.graph, batch), **arrays}
        refuse_missing(self.graph, self.graph.inputs, arguments, "step")
        return arguments

    def check_number(self, name: str, value: Any) -> None:
        """InputError where the input `name` is a scalar of the optimizer that cannot be `value`."""
        for scalar, taken_by in self.scalars.items():
            if taken_by == name:
                self.optimizer.check(scalar, value)

    def __str__(self) -> str:
        return str(self.graph)
