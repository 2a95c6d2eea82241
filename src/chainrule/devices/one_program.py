"""Takes a split step as one program: all ranks are devices of it, and its executor has them all.

Plans of one stage can be taken so, by executors that can run a program on several devices
(`chainrule.execute.across`).  The state stays on the devices between steps.  Where the program
says that something failed, and so has changed nothing, the ranks take the same step by messages:
that raises what there is to raise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.devices.graphs import graphs_of
from chainrule.devices.job import TRANSPORT, launched
from chainrule.devices.one_graph import OneGraph, one_graph
from chainrule.devices.tensor.collectives import REPLICAS, SHARDS
from chainrule.errors import InputError
from chainrule.execute.across import Across, Operation, Spreading
from chainrule.execute.executor import Analysed
from chainrule.execute.executors import executor_of, in_memory
from chainrule.graph.graph import Graph
from chainrule.train.step.state import State

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep
    from chainrule.devices.splitting import Split

BY_MESSAGES = ("threads", "mpi")  # of CHAINRULE_TRANSPORT


def spreads(executor: str) -> bool:
    """Whether an executor is asked to run plans of one stage as one program."""
    chosen = os.environ.get(TRANSPORT, "") not in BY_MESSAGES
    return chosen and isinstance(executor_of(executor), Spreading)


def is_one_program(step: ParallelStep) -> bool:
    """Whether all ranks of a step are devices of one program."""
    return step.stages == 1 and spreads(step.parts.whole.executor)


class Recording:
    """What is noted of a step that is taken as one program: when it began, in seconds of
    `perf_counter`, its graph, `OneGraph.sums`, the bytes of each device, and what those of this
    process did."""

    def __init__(self) -> None:
        self.begun, self.nbytes = 0.0, 0
        self.graph: Graph | None = None
        self.sums: Mapping[str, str | None] = {}
        self.operations: list[Operation] = []


class OneProgram:
    """A split step at some sizes, bound to a state: called with a batch, it takes steps."""

    def __init__(self, step: ParallelStep, split: Split, state: State) -> None:
        self.state, self.split = state, split
        self.made, self.program, graph = prepared(step, split)
        inputs = {item.name: item.node for item in graph.inputs}
        memory = state.home.memory
        numbers = [x for x in graph.inputs if x.default is not None and x.name not in memory]
        self.defaults = {x.name: x.default for x in numbers}
        self.numbers = {x.name: np.array(x.default, x.type.dtype) for x in numbers}
        held = {inputs[x]: one for x, one in (*memory.items(), *self.numbers.items())}
        self.names = [x for x in inputs if x not in memory and x not in self.numbers]
        order = [inputs[name] for name in self.names]
        self.objective = graph.names[self.made.objective]
        self.steps_taken = state.steps_taken
        self.call = self.program.hold(order, held, self._taken, state.home)

    def __call__(
        self,
        arrays: Mapping[str, np.ndarray],
        given: Mapping[str, Any],
        recording: Recording | None = None,
    ) -> Any:
        """The objective after a step; None where the program failed, and nothing has changed.

        Numbers that are not given have their defaults.
        """
        self.call.renew()
        for name, array in self.numbers.items():
            array[...] = given.get(name, self.defaults[name])
        self.steps_taken = self.state.steps_taken + 1
        ordered = tuple([arrays[name] for name in self.names])
        if recording is None:
            values = self.call(ordered)
        else:
            self.compile()
            recording.graph, recording.sums = self.call.graph, self.made.sums
            arguments = sum(int(item.type.nbytes) for item in self.call.graph.inputs)
            recording.nbytes = arguments + self.program.allocated_nbytes()
            recording.begun = perf_counter()
            values, recording.operations = self.call.measured(ordered)
        return None if values is None else values[0][()]

    def compile(self) -> None:
        """What the first call would do, too."""
        self.program.compiled_nbytes()

    def _taken(self, values: Sequence[np.ndarray]) -> None:
        """The step was taken; called again where a signal interrupts it."""
        self.state.steps_taken = self.steps_taken


def prepared(step: ParallelStep, split: Split) -> tuple[OneGraph, Any, Any]:
    """The graph of each rank, the program of all, and the form of the graph that it computes."""
    parts, grid, executor = step.parts, step.grid, step.parts.whole.executor
    sizes = {**split.sizes, parts.size: split.rows}
    made = one_graph(parts.whole.graph.name, graphs_of(step, sizes), parts.split, parts.count)
    graph = in_memory(executor, made.graph, made.wanted)
    inputs = {item.name: item.node for item in graph.inputs}
    cuts = {inputs[name]: found for name, found in made.cuts.items() if name in inputs}
    axes = {REPLICAS: grid.replicas, SHARDS: grid.ways}
    lying = Across(axes, cuts, rank_of(step), memory_of_each(step))
    found = executor_of(executor)
    assert isinstance(found, Spreading)
    return made, found.across(graph, *made.wanted(graph), lying), graph


def rank_of(step: ParallelStep) -> int | None:
    """The rank that this process is, where each has a process of its own."""
    job = launched()
    return None if job is None or step.ranks == 1 else job[0]


def memory_of_each(step: ParallelStep) -> int | None:
    """The bytes that each device has: those of the one with least, as all run the same program;
    None where nobody has said."""
    if step.devices is None:
        return None
    each = [step.devices.group_of(rank).memory_nbytes for rank in range(step.ranks)]
    return min([one for one in each if one is not None], default=None)


def compiled_nbytes(step: ParallelStep, split: Split) -> dict[str, int]:
    """The bytes of each device by what they are, as the executor's compiler says; empty where it
    has not as many devices, or the plan is no one program."""
    if not is_one_program(step) or has_too_few(step):
        return {}
    _, program, _ = prepared(step, split)
    return dict(program.compiled_nbytes()) if isinstance(program, Analysed) else {}


def has_too_few(step: ParallelStep) -> bool:
    """Whether the executor has fewer devices than the step has ranks."""
    found = executor_of(step.parts.whole.executor)
    if found.refusal() is not None:
        return True
    assert isinstance(found, Spreading)
    return launched() is None and found.device_count()[0] < step.ranks


def refuse_too_few(step: ParallelStep) -> None:
    """InputError where the executor has fewer devices than the step has ranks."""
    grid = step.grid
    refuse_more_devices(
        step.parts.whole.executor,
        grid.count,
        f"the plan has {grid.count} devices ({grid.replicas} replica{'s' * (grid.replicas > 1)} x "
        f"{grid.ways} way{'s' * (grid.ways > 1)})",
    )


def refuse_more_devices(executor: str, count: int, what: str) -> None:
    """InputError where the executor has fewer than `count` devices, which `what` asks for."""
    found = executor_of(executor)
    if not isinstance(found, Spreading) or found.refusal() is not None or launched() is not None:
        return  # a refusal is raised where a program is called
    there, kind = found.device_count()
    if there < count:
        raise InputError(
            f"{what}, and the executor {found.name!r} has {there} here ({kind})",
            hint=f"a plan of at most {there} rank{'s' * (there > 1)}; to try one on a CPU, "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={count} in the environment; or "
            f"{TRANSPORT}=threads: ranks are then threads, which share what there is",
        )


def take_together(
    step: ParallelStep,
    state: State,
    given: Mapping[str, Any],
    recording: Recording | None = None,
) -> tuple[Any, Split]:
    """Takes a step for a caller who holds the state; gives the objective, None where the program
    failed, and the split."""
    arrays = step.parts.whole_batch(state, given)
    keyless = {name: one for name, one in arrays.items() if name not in step.parts.keys}
    split = step.split_for({**state.outlines_only, **keyless}, parts=step.parts.count)
    if rank_of(step) is not None:
        from chainrule.devices.one_program_of_ranks import take_as_rank

        return take_as_rank(step, split, state, arrays, given, recording), split
    return bound_to(step, split, state)(arrays, given, recording), split


def bound_to(step: ParallelStep, split: Split, state: State) -> OneProgram:
    """The program bound to this state, made if there is none yet."""
    found = state.bound.get(split)
    if found is None:
        refuse_too_few(step)
        found = state.bound[split] = OneProgram(step, split, state)
    return found
