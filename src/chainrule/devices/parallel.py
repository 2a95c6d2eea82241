"""`cr.parallel(step, stages=2, micro_batches=8)`: a training step split over several ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule.devices.check import check_programs
from chainrule.devices.instructions import Key, Program
from chainrule.devices.pieces import Piece
from chainrule.devices.programs import Parts, Programs
from chainrule.devices.rank import run_program
from chainrule.devices.stages import Placed, cuts_after, cuts_of_least_load, placed
from chainrule.devices.threads import Mailboxes, Stopped, ThreadTransport
from chainrule.errors import ChainruleError, InputError
from chainrule.execute.arguments import sizes_from
from chainrule.execute.executors import memory_of, prepare
from chainrule.graph.frozen import Frozen
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.plan.pipelines.pipeline import pipeline
from chainrule.plan.pipelines.stages import Orders
from chainrule.plan.speeds import SPEEDS
from chainrule.tracebacks import entry
from chainrule.train.step.check_arguments import refuse_no_state
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.random_inputs import key_inputs
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep

CHUNKED = "interleaved"


@entry
def parallel(
    step: TrainingStep,
    *,
    micro_batches: int,
    stages: int | Sequence[str] = 1,
    replicas: int = 1,
    schedule: str = "1f1b",
    size: str | None = None,
) -> ParallelStep:
    """Splits a training step over `stages` times `replicas` ranks, which are threads.

    The graph of the step is cut into `stages` parts so that the one with most to do has least, or
    where you say: stages=("h1", "h2") are three, of which the first ends with h1 and the second
    with h2.  A batch is cut into `micro_batches` equal parts, as by
    `step.micro_batched`; each replica works on its share of them one after the other, stage by
    stage, in the order of `schedule`: "gpipe", "1f1b", "zb-h1" or "zb-h2", as
    `chainrule.plan.pipeline` has them.  Replicas then add their gradients, in their order, and
    each rank updates its own parameters.

    The result is called as the step is: `split(state, x=x, y=y)`.  It is
    `step.micro_batched(micro_batches)` with other sums only where there are several replicas.

    InputError for numbers that do not fit each other, NameLookupError for an unknown name.
    """
    if not isinstance(step, TrainingStep):
        raise InputError(
            f"cr.parallel splits a training step, got {type(step).__name__}",
            hint="cr.training_step(objective, wrt, optimizer)",
        )
    budget = memory_of(step.executor)
    if budget is not None:
        raise InputError(
            f"the step has memory={budget}, which is a budget of one process: its ranks have none",
            hint="make the step without memory=, or do not split it",
        )
    count = _count("stages", stages if isinstance(stages, int) else len(stages) + 1)
    replicas = _count("replicas", replicas)
    parts = step.micro_batched(micro_batches, size=size)
    if parts.count % replicas:
        raise InputError(
            f"{parts.count} micro-batches cannot be shared out to {replicas} replicas",
            hint=f"micro_batches={parts.count + replicas - parts.count % replicas}",
        )
    if schedule in (CHUNKED, "search"):
        raise InputError(
            f"schedule is {schedule!r}",
            hint="one of gpipe, 1f1b, zb-h1, zb-h2: a stage has one part",
        )
    ends = None if isinstance(stages, int) else tuple(stages)
    made = pipeline(count, parts.count // replicas, 1.0, 1.0, 1.0, schedule=schedule)
    orders = tuple(tuple(slot.task for slot in slots) for slots in made.timeline)
    return ParallelStep(parts, count, ends, replicas, schedule, orders)


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} is {value!r}", hint=f"{name}=2, an integer of 1 or more")
    return value


@dataclass(frozen=True, eq=False)
class Split(Frozen):
    """A step at some sizes: its pieces, and the program of each rank."""

    _called = "a training step that is split"

    placed: Placed
    pieces: tuple[Piece, ...]
    programs: tuple[Program, ...]
    names: Mapping[str, int]  # the numbers of inputs
    ends: Mapping[str, int]  # the numbers of what replaces arrays of the state, and the objective
    compiled: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class ParallelStep(Frozen):
    """A training step on several ranks; `cr.parallel` makes it.

    `parts` is the step in micro-batches that is split, `stages` and `replicas` say into how many
    ranks, `ends` the names of the values that stages end with, if they were said.
    """

    _called = "a training step on several ranks"
    _instead = TrainingStep._instead

    parts: MicroBatchedStep
    stages: int
    ends: tuple[str, ...] | None
    replicas: int
    schedule: str
    orders: Orders
    _splits: dict[tuple[tuple[str, int], ...], Split] = field(default_factory=dict, repr=False)

    @property
    def ranks(self) -> int:
        """How many ranks there are; rank r * stages + s is stage s of replica r."""
        return self.stages * self.replicas

    def init(self, parameters: Mapping[str, Any] | None = None, /, **named: Any) -> State:
        """As `TrainingStep.init`."""
        return self.parts.init(parameters, **named)

    def restore(self, arrays: Mapping[str, Any], /, *, steps: int = 0) -> State:
        """As `TrainingStep.restore`."""
        return self.parts.restore(arrays, steps=steps)

    @entry
    def __call__(
        self, state: State, batch: Mapping[str, Any] | None = None, /, **named: Any
    ) -> Any:
        """Take one step on this batch; as `MicroBatchedStep` does.

        Whatever is raised, on whichever rank, the state is then as it was.
        """
        whole = self.parts.whole
        refuse_no_state(state, whole.parameters)
        given = {**(batch or {}), **named}
        state.refuse_second_step()
        with state.stepping, state.updating:
            pieces = self.parts.split_batch(state, given)
            split = self._split(pieces[0])
            numbers = {
                name: np.asarray(given.get(name, item.default), item.type.dtype)
                for item in self.parts.updating.graph.inputs
                for name in (item.name,)
                if item.default is not None
            }
            found = self._run(split, state, pieces, numbers)
            after = {name: found[split.ends[name]] for name in state.memory if name in split.ends}
            objective = found[split.ends[whole.objective]]
            state.put(list(after.items()))
            state.steps_taken += 1
        return objective[()]

    def split_at(self, **sizes: int) -> Split:
        """The pieces and the programs for a batch of these sizes."""
        part = {**sizes, self.parts.size: self.parts.part_of(sizes[self.parts.size])}
        return self._split_of(part)

    def _split(self, part: Mapping[str, Any]) -> Split:
        graph = self.parts.whole.differentiated
        return self._split_of(
            sizes_from(graph, {name: np.asarray(one) for name, one in part.items()})
        )

    def _split_of(self, sizes: Mapping[str, int]) -> Split:
        key = tuple(sorted(sizes.items()))
        if key not in self._splits:
            self._splits[key] = self._made(sizes)
        return self._splits[key]

    def _made(self, sizes: Mapping[str, int]) -> Split:
        parts = self._parts(sizes)
        graph = parts.summing
        inputs = {item.name: item.node for item in graph.inputs}
        sums = {inputs[name]: graph.names[then] for name, then in parts.sums.items()}
        place = placed(
            graph,
            graph.names[parts.objective],
            sums,
            [inputs[name] for name in self.parts.whole.parameters],
            self.stages,
            self._cuts(graph),
        )
        owner = dict(place.owner)
        for part in self.parts.accumulating.persistent:
            of = part.parameter
            last = place.forward[graph.names[parts.objective]]
            owner[inputs[part.name]] = last if of is None else owner[inputs[of]]
        backward = dict(place.backward)
        for name, then in parts.sums.items():
            backward[graph.names[then]] = owner[inputs[name]]
        place = Placed(place.count, place.forward, backward, owner, place.everywhere)
        making = Programs(parts, place, self.orders, self.replicas)
        programs = making.programs()
        check_programs(programs)
        executor = self.parts.whole.executor
        compiled = tuple(
            prepare(executor, piece.graph, list(dict.fromkeys(piece.gives.values())), {})
            for piece in making.pieces
        )
        ends = {
            name: making.number[parts.updating.names[then]]
            for name, then in {**parts.following, parts.objective: parts.objective}.items()
        }
        return Split(place, tuple(making.pieces), programs, making.names, ends, compiled)

    def _parts(self, sizes: Mapping[str, int]) -> Parts:
        step, summing, updating = self.parts.whole, self.parts.accumulating, self.parts.updating
        bound = summing.graph.bind(**{n: sizes[n] for n in summing.graph.sizes})
        update = updating.graph.bind(**{n: sizes[n] for n in updating.graph.sizes})
        keys = key_inputs(step.graph, self.parts.split) if self.parts.count > 1 else ()
        moving = {
            part.name: part.next_name
            for part in updating.persistent
            if update.names[part.next_name] is not update.names[part.name]
        }
        return Parts(
            bound,
            update,
            step.objective,
            {part.name: part.next_name for part in summing.persistent},
            moving,
            {part.name: part.parameter for part in updating.persistent if part.parameter},
            frozenset({*self.parts.split, *keys}),
        )

    def _cuts(self, graph: Graph) -> Callable[[Sequence[Node]], Mapping[Node, int]]:
        if self.ends is not None:
            return cuts_after(graph, self.ends)
        speeds = SPEEDS[64].numpy
        return cuts_of_least_load(
            graph, lambda node: node_nanoseconds(node, speeds) / 1e9, self.stages
        )

    # Running it in threads -----------------------------------------------------------------------

    def _run(
        self,
        split: Split,
        state: State,
        parts: Sequence[Mapping[str, Any]],
        numbers: Mapping[str, np.ndarray],
    ) -> dict[int, np.ndarray]:
        """The results of all ranks of the first replica, by the numbers of values."""
        given = self._given(split, state, parts, numbers)
        boxes = Mailboxes(self.ranks)
        found: list[dict[Key, np.ndarray]] = [{} for _ in split.programs]
        errors: list[tuple[int, BaseException]] = []

        def work(rank: int) -> None:
            transport = ThreadTransport(rank, boxes)
            try:
                program = split.programs[rank]
                found[rank] = run_program(program, split.pieces, split.compiled, given, transport)
            except Stopped:
                pass
            except BaseException as error:
                errors.append((rank, error))
                boxes.stop()

        threads = [
            threading.Thread(target=work, args=(rank,), name=f"rank {rank}", daemon=True)
            for rank in range(self.ranks)
        ]
        for one in threads:
            one.start()
        try:
            for one in threads:
                one.join()
        except BaseException:
            boxes.stop()
            for one in threads:
                one.join()
            raise
        if errors:
            rank, error = errors[0]
            if isinstance(error, ChainruleError):
                error.add_note(f"on rank {rank} of {self.ranks}")
            raise error
        return {key.value: array for one in found[: self.stages] for key, array in one.items()}

    def _given(
        self,
        split: Split,
        state: State,
        parts: Sequence[Mapping[str, Any]],
        numbers: Mapping[str, np.ndarray],
    ) -> dict[Key, np.ndarray]:
        """What ranks have at first: the state, sums at 0, data, and numbers of the optimizer."""
        graph = self.parts.accumulating.graph
        found = {}
        for name, number in split.names.items():
            if name in state.memory:
                found[Key(number, None)] = state.memory[name]
            elif name in numbers:
                found[Key(number, None)] = numbers[name]
        for item in graph.inputs:
            if item.name in parts[0]:
                number = split.names[item.name]
                for index, part in enumerate(parts):
                    array = np.asarray(part[item.name], item.type.dtype)
                    found[Key(number, index)] = array
                    found.setdefault(Key(number, None), array)
            elif item.default is not None:
                found[Key(split.names[item.name], None)] = np.asarray(item.default, item.type.dtype)
        for part in self.parts.accumulating.persistent:
            shape = state.memory[part.parameter].shape if part.parameter else ()
            dtype = graph[part.name].dtype
            found[Key(split.names[part.name], None)] = np.zeros(shape, dtype)
        return found
