"""A `MicroBatchedStep` accumulates gradients over parts of a batch, then updates once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.dataclass import dataclass, field, replace
from chainrule.errors import ChainruleError, IndexOutOfRangeError, InputError, MemoryLimitError
from chainrule.execute import Run
from chainrule.execute.arguments import bound_to, sizes_from, swapped_nbytes
from chainrule.execute.budget import refuse_copies, with_copies
from chainrule.execute.executors import executor_of, memory_of
from chainrule.execute.run import Keep
from chainrule.graph.by_name import sizes_by_name
from chainrule.graph.cached import cached_property
from chainrule.graph.frozen import Frozen
from chainrule.random import fold_in
from chainrule.tracebacks import entry
from chainrule.train.step.check_arguments import given_to_step, refuse_no_state
from chainrule.train.step.random_inputs import key_inputs
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep

if TYPE_CHECKING:
    from chainrule.explain.memory.fits import Fit
    from chainrule.explain.memory.lying import Layout
    from chainrule.plan.planner import Plan
    from chainrule.train.step.micro_memory import MicroBatchMemory


@dataclass(frozen=True, eq=False)
class MicroBatchedStep(Frozen):
    """A training step on `count` equal parts of a batch; `TrainingStep.micro_batched` makes it.

    With a batch of n rows, the first part is rows 0 to n / count, and so on.  `accumulating` adds
    the gradients of one part to sums, `updating` moves the parameters by the sums divided by
    `count`.  This is the step on the whole batch, up to rounding, for an objective that is a mean
    over the batch, plus a penalty that does not depend on the batch: the average of the objectives
    of equal parts is the objective of the whole.  It is another step for an objective that is a sum
    over the batch (the average is the sum divided by `count`), or that looks at the batch as a
    whole (as batch normalisation does).  What the objective carries from step to step, it carries
    from part to part: each sees what the one before left.  Of several parts, the i-th (from 0) gets
    fold_in(key, i) for an input of type uint32[2]: no two parts have the same dropout.

    `whole` is the step that is taken so: states of one are states of the other.  `size` is the
    named size of the axes that are split, `split` says which inputs have one, and where.
    """

    _called = "a training step in parts"
    _instead = TrainingStep._instead

    whole: TrainingStep
    accumulating: TrainingStep
    updating: TrainingStep
    count: int
    size: str
    split: Mapping[str, int]
    replicas: int = 0  # ranks that share the parts out, where there are some: for advice
    _sums: WeakKeyDictionary[State, State] = field(default_factory=WeakKeyDictionary, repr=False)
    _within: dict[Any, TrainingStep] = field(default_factory=dict, repr=False)
    # Of a state that has taken a step: the types of the batch, and who has which arrays.
    _seen: WeakKeyDictionary[State, Any] = field(default_factory=WeakKeyDictionary, repr=False)

    def init(self, parameters: Mapping[str, Any] | None = None, /, **named: Any) -> State:
        """As `TrainingStep.init`."""
        return self.whole.init(parameters, **named)

    def restore(self, arrays: Mapping[str, Any], /, *, steps: int = 0) -> State:
        """As `TrainingStep.restore`."""
        return self.whole.restore(arrays, steps=steps)

    @entry
    def __call__(
        self, state: State, batch: Mapping[str, Any] | None = None, /, **named: Any
    ) -> Any:
        """Take one step on this batch, part by part; as `TrainingStep` does.

        Returns the mean of the objectives of the parts.  Whatever is raised, in whichever part,
        the state is then as it was.  InputError for a batch that has no `count` equal parts.
        """
        refuse_no_state(state, self.whole.parameters)
        given = given_to_step(batch, named)
        state.refuse_second_step()
        with state.updating:
            state.is_stepping = True
            try:
                objective = self._taken(state, given)
            finally:
                state.is_stepping = False
            return objective

    def _taken(self, state: State, given: Mapping[str, Any]) -> Any:
        """Take one step, for a caller who holds the state."""
        parts = self.split_batch(state, given)
        sums = self._sums_at_start(state)
        accumulating = self._within_memory(parts[0], given)
        is_plain = accumulating is self.accumulating or not self._reads_c_order_only
        for number, part in enumerate(parts):
            try:
                # copies are counted here: the part's own budget has no room for them
                accumulating(sums, part if is_plain else self._in_c_order(part))
            except ChainruleError as error:
                name, axis = next(iter(self.split.items()))
                note_part(error, number, self.count, part[name].shape[axis])
                raise
        taken = self.updating.scalars.values()
        numbers = {name: given[name] for name in taken if name in given}
        arrays, summed = sums.arrays, self.accumulating.persistent
        left = {x.next_name if x.is_carried else x.name: arrays[x.name] for x in summed}
        return state.latest.taken(self.updating, state, {**numbers, **left})

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
        """As `TrainingStep.run`: on the whole batch at once, with the memory that this takes."""
        return self.whole.run(state, batch, keep=keep, **named)

    @entry
    def memory(
        self,
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        executor: str | None = None,
        layout: Layout | None = None,
        **named: int,
    ) -> MicroBatchMemory:
        """The bytes that a step takes, before one is taken: `print(step.memory(n=256))`.

        Sizes and `layout` are those of the whole batch.  InputError where it has no `count` equal
        parts, MemoryLimitError where a budget is too small for all of them and the update.
        """
        from chainrule.train.step.micro_memory import memory_of_parts

        given = sizes_by_name(self.whole.graph, "step.memory", sizes, named)

        def report(executor: str | None) -> MicroBatchMemory:
            return memory_of_parts(self, executor, layout, given)

        try:
            return report(executor)
        except MemoryLimitError as error:
            from chainrule.train.step.over_budget import advised_of_parts  # where it is refused

            used = executor or self.whole.executor
            raise advised_of_parts(error, self.count, used, report) from None

    @entry
    def fits(
        self,
        amount: int | str | Mapping[str, int] | None = None,
        /,
        *,
        nbytes: int | str | None = None,
        executor: str | None = None,
        layout: Layout | None = None,
        **named: int,
    ) -> Fit:
        """Whether a step at these sizes fits in an amount: `step.fits("8GiB", n=256)`.

        As `TrainingStep.fits`; sizes are those of the whole batch.
        """
        from chainrule.explain.memory.fits import amount_or_sizes

        nbytes, sizes = amount_or_sizes(amount, nbytes)
        return self.memory(sizes, executor=executor, layout=layout, **named).fits(nbytes)

    @entry
    def plan(self, **sizes: int) -> tuple[Plan, Plan]:
        """How the native executor takes a part, and the update, of a batch of these sizes."""
        from chainrule.train.step.micro_memory import sizes_of_parts

        part, known = sizes_of_parts(self, sizes, "step.plan")
        return self.accumulating_at(sizes).plan(**part), self.updating.plan(**known)

    def accumulating_at(self, sizes: Mapping[str, int]) -> TrainingStep:
        """What takes a part of a batch of these sizes: within the memory that is left for it, if
        the step has a budget."""
        if memory_of(self.whole.executor) is None:
            return self.accumulating
        key = tuple(sorted(sizes.items()))
        if key not in self._within:
            executor = self.memory(sizes).accumulating.executor
            self._within[key] = replace(self.accumulating, executor=executor)
        return self._within[key]

    def part_of(self, rows: int) -> int:
        """The rows of one part; InputError where the parts would not be equal."""
        if rows % self.count:
            lower = rows - rows % self.count
            near = " or ".join(str(n) for n in (lower, lower + self.count) if n)
            raise InputError(
                f"a batch with {self.size} = {rows} does not split into {self.count} equal parts",
                hint=f"give {near} rows{self._other_counts(rows)}",
            )
        return rows // self.count

    def _other_counts(self, rows: int) -> str:
        """Advice: numbers of equal parts near `count`, which replicas can share."""
        near = counts_near(rows, self.count, max(self.replicas, 1))
        if not near:
            return ""
        listed = " or ".join(map(str, near))
        if self.replicas:
            return f", or say micro_batches={listed}"
        return f", or cut the batch into {listed} part{'s' if near != [1] else ''}"

    def split_batch(self, state: State, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The inputs of each part, checked as by the whole step: views of the batch, keys of their
        own, the rest as it is."""
        arrays, arguments = self._looked_at(state, given, state.outlines)
        shared = {name: arguments[name] for name in self._shared if name in arguments}
        name, axis = next(iter(self.split.items()))
        rows = self.part_of(arrays[name].shape[axis])
        found = []
        for part in range(self.count):
            here = slice(part * rows, (part + 1) * rows)
            own = {name: arrays[name][_along(axis, here)] for name, axis in self.split.items()}
            own |= {name: fold_in(arrays[name], part) for name in self.keys}
            found.append({**shared, **own})
        return found

    def whole_batch(self, state: State, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The inputs that the state has not, checked as by the whole step: the rows of all parts,
        the keys of the parts stacked along a new first axis, the rest as it is.

        The state is not read, which may be on a device.
        """
        outlines = state.outlines_only
        arrays, arguments = self._looked_at(state, given, outlines)
        found = {name: arrays[name] for name in self.split}
        for name in self.keys:
            found[name] = np.stack([fold_in(arrays[name], part) for part in range(self.count)])
        inputs = {item.name: item for item in self.whole.differentiated.inputs}
        for name in self._shared:
            if name in arguments and name not in outlines:
                found[name] = np.asarray(arguments[name], inputs[name].type.dtype)
        name, axis = next(iter(self.split.items()))
        self.part_of(arrays[name].shape[axis])
        return found

    def _looked_at(
        self, state: State, given: Mapping[str, Any], outlines: Mapping[str, np.ndarray]
    ) -> tuple[Mapping[str, np.ndarray], Mapping[str, Any]]:
        """As `_checked`, for less where a batch is as in the step before; `outlines` has all arrays
        of the state."""
        seen = _types_of(given), state.shares
        if self._seen.get(state) == seen:
            return given, outlines
        arrays, arguments = self._checked(outlines, given)
        is_plain = seen[0] is not None and all(arrays.get(x) is given[x] for x in given)
        if is_plain and arrays.keys() == given.keys():
            self._seen[state] = seen
        return arrays, arguments

    def _checked(
        self, outlines: Mapping[str, np.ndarray], given: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray], Mapping[str, Any]]:
        """The inputs that differ from part to part, as arrays, and all arguments, checked."""
        graph = self.whole.graph
        arguments = self.whole.arguments(outlines, given)
        _, arrays = bound_to(graph, arguments)
        checked = dict(zip([item.name for item in graph.inputs], arrays.values(), strict=True))
        return {name: checked[name] for name in (*self.split, *self.keys)}, arguments

    @cached_property
    def _shared(self) -> tuple[str, ...]:
        """The inputs that parts have alike, where they are given."""
        own = {*self.split, *self.keys, *self.whole.carried}
        return tuple([x.name for x in self.whole.differentiated.inputs if x.name not in own])

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The inputs that are keys of random numbers, where parts have keys of their own."""
        named = [*self.split, *self.whole.carried]
        return key_inputs(self.whole.graph, named) if self.count > 1 else ()

    def _within_memory(self, part: Mapping[str, Any], given: Mapping[str, Any]) -> TrainingStep:
        if memory_of(self.whole.executor) is None:
            return self.accumulating
        graph = self.whole.differentiated
        sizes = sizes_from(graph, {name: np.asarray(one) for name, one in part.items()})
        sizes[self.size] *= self.count
        self._refuse_copies(part, given, sizes)
        return self.accumulating_at(sizes)

    @property
    def _reads_c_order_only(self) -> bool:
        return executor_of(self.whole.executor).traits.c_order_only

    def _in_c_order(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The part with its own arrays as code reads them: copies of those that lie otherwise."""
        return {
            name: np.require(one, requirements=["C", "A"]) if name in self.split else one
            for name, one in part.items()
        }

    def _refuse_copies(
        self, part: Mapping[str, Any], given: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> None:
        """MemoryLimitError where the budget has no room for copies that would not be made of a
        batch in C order."""
        graph = self.whole.graph
        nodes = {item.name: item.node for item in graph.inputs}
        copied = swapped_nbytes({nodes[x]: one for x, one in given.items() if x in nodes})
        if self._reads_c_order_only:
            for name, axis in self.split.items():
                flags, node = part[name].flags, nodes[name]
                if not axis and not (flags.c_contiguous and flags.aligned):
                    copied[node] = copied.get(node, 0) + part[name].nbytes
        if copied:
            limit = memory_of(self.whole.executor)
            assert limit is not None
            needed = with_copies(self.memory(sizes).needed_nbytes, copied)
            refuse_copies(graph, copied, needed, limit)

    def _sums_at_start(self, state: State) -> State:
        """The sums that belong to a state, set to 0, and copies of what it carries."""
        parts = self.accumulating.persistent
        if state not in self._sums:
            arrays = {}
            for part in parts:
                owner = part.name if part.is_carried else part.parameter
                shape = state.arrays[owner].shape if owner else ()
                arrays[part.name] = np.zeros(shape, self.accumulating.graph[part.name].dtype)
            self._sums[state] = State(arrays, (), {})
        sums, memory, zero = self._sums[state], state.memory, np.zeros((), bool)
        changes = [(part.name, zero) for part in parts if not part.is_carried]
        sums.put([*changes, *((name, memory[name]) for name in self.whole.carried)])
        return sums


def counts_near(rows: int, count: int, replicas: int = 1) -> list[int]:
    """The two numbers of equal parts of so many rows that are nearest to `count`, and that
    replicas can share; fewer where there are not as many."""
    counts = range(replicas, min(rows, 2 * max(count, replicas)) + 1, replicas)
    fitting = [one for one in counts if rows % one == 0]
    return sorted(sorted(fitting, key=lambda one: abs(one - count))[:2])


def note_part(
    error: ChainruleError, number: int, count: int, rows: int, what: str = "part"
) -> None:
    """Notes which rows of a batch an error is about: those of a part, by its number from 0."""
    first = number * rows
    last = f"s {first} to {first + rows - 1}" if rows > 1 else f" {first}"
    counted = f" (positions count from {first})" * isinstance(error, IndexOutOfRangeError)
    counted += " (sizes are those of a part)" * isinstance(error, MemoryLimitError)
    error.add_note(f"in {what} {number + 1} of {count} of the batch, row{last}{counted}")


def _types_of(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The shapes and dtypes of arrays; None where something else is given."""
    are_arrays = all(type(one) is np.ndarray for one in given.values())
    return {name: (one.shape, one.dtype) for name, one in given.items()} if are_arrays else None


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, part)
