"""Times each instruction of a plan: its code, with a time stamp after each, runs several times.

A stamp takes 10 ns, and clocks tick every 10 ns on some processors.  So three stamps come first,
which tell what one takes, and what it takes between two instructions that threads share, for which
they meet once more; and brief instructions are told by a mean of many runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import numpy as np

from chainrule.errors import UnsupportedError
from chainrule.execute.free_memory import refuse_beyond_free
from chainrule.execute.native.artifact import artifact_of
from chainrule.execute.native.plan_to_ir.segment_code import CLOCK, EMPTY_STAMPS
from chainrule.execute.native.program import NativeProgram
from chainrule.execute.native.runtime.arrays import plain, pointer_of
from chainrule.execute.native.runtime.launch import Launcher
from chainrule.execute.native.runtime.machine import Machine, Settings
from chainrule.graph.node import Node
from chainrule.machine_code.target import Target, host_target, native_refusal
from chainrule.plan.planner import Plan
from chainrule.plan.work import parts_of

RUNS, SECONDS = 5, 0.5  # at least so many, and so long
BRIEF = 1000.0  # nanoseconds: ticks of the clock count


def nanoseconds_of(plan: Plan, inputs: Mapping[Node, np.ndarray]) -> tuple[float, ...]:
    """How long each instruction of a plan takes on these arrays, undisturbed.

    See `Stamped`.
    """
    return Stamped(plan, inputs).least(RUNS, SECONDS)


class Stamped:
    """The code of a plan, compiled with a time stamp after each instruction, and its arrays.

    Arrays of inputs that the plan overwrites change.  UnsupportedError where no native code can be
    made, or only for shorter vectors; MemoryLimitError where there is no memory for it.
    """

    def __init__(self, plan: Plan, inputs: Mapping[Node, np.ndarray]) -> None:
        target = _target(plan)
        self.plan, self.overwrites = plan, dict(plan.overwrites)
        self.results = list(plan.schedule.results)
        self.machine = Machine(
            artifact_of(plan, self.overwrites, target, timed=True),
            Settings(plan.threads, target, False),
        )
        launcher = Launcher(plan.graph, self.results, self.overwrites, machine=self.machine)
        refuse_beyond_free(launcher.most_nbytes)
        self.context = launcher.new_context()
        self.arrays = {node: plain(array, node.dtype) for node, array in inputs.items()}
        self.made = {node: np.empty(node.shape, node.dtype) for node in launcher.fresh}
        self.stamps = np.zeros(CLOCK + len(plan.works) + 1 + EMPTY_STAMPS, np.int64)
        self.first: tuple[int, int] | None = None  # nanoseconds and ticks
        for node, array in self.arrays.items():
            self.context.slots[launcher.slots[node]] = pointer_of(array)
        for node, array in self.made.items():
            self.context.slots[launcher.result_slots[node]] = pointer_of(array)
        self.context.slots[len(self.context.slots) - 1] = pointer_of(self.stamps)

    def least(self, runs: int, seconds: float) -> tuple[float, ...]:
        """The nanoseconds of each instruction without its stamp, of at least so many runs and so
        many seconds, after one that does not count: the least, and of those that take less than a
        microsecond the mean of the quicker half.

        By the clock of the system, on the threads of the plan.  IndexOutOfRangeError for an index
        out of range.
        """
        found: list[np.ndarray] = []
        begun = perf_counter()
        while len(found) <= runs or perf_counter() - begun < seconds:
            found.append(self._run())
        ordered = np.sort(found[1:], axis=0) * self._tick()
        least, mean = ordered[0], np.mean(ordered[: -(-len(ordered) // 2)], axis=0)
        stamp, meeting, *taken = np.where(least < BRIEF, mean, least).tolist()
        shared = [parts_of(one) > 1 for one in self.plan.works]
        own = [
            meeting if here and before else stamp
            for before, here in zip([True, *shared], shared, strict=False)
        ]
        return tuple(max(one - less, 0.0) for one, less in zip(taken, own, strict=True))

    def after(self, seconds: float) -> float:
        """The nanoseconds of all instructions in a run.  Between two others and this one, this core
        did nothing for so long, and other processors went on."""
        self._run()
        self._run()
        end = perf_counter() + seconds
        while perf_counter() < end:
            pass
        return float(self._run()[EMPTY_STAMPS:].sum()) * self._tick()

    def _run(self) -> np.ndarray:
        """The ticks between stamps."""
        if not self.machine.call(self.plan.graph, self.context):
            program = NativeProgram(self.plan.graph, self.results, self.overwrites)
            program.raise_failure(self.arrays)
        if self.first is None:
            self.first = self._begun()
        return np.diff(self.stamps[CLOCK:])

    def _begun(self) -> tuple[int, int]:
        """When the last run began, in nanoseconds and in ticks."""
        seconds, rest, ticks = self.stamps[: CLOCK + 1].tolist()
        return 1_000_000_000 * seconds + rest, ticks

    def _tick(self) -> float:
        """The nanoseconds of a tick, from the first run to the last."""
        assert self.first is not None
        (before, first), (now, last) = self.first, self._begun()
        return (now - before) / (last - first)


def _target(plan: Plan) -> Target:
    """This machine, if code for it can run the plan."""
    here = "measure the plan on a machine that it is made for"
    refusal = native_refusal()
    if refusal is not None:
        raise UnsupportedError(refusal, hint=here)
    target = host_target()
    if target.vector_nbytes < plan.vector_nbytes:
        raise UnsupportedError(
            f"the plan of {plan.graph.name} is for vectors of {plan.vector_nbytes} bytes, and code "
            f"for this machine has {target.vector_nbytes}",
            hint=here,
        )
    if plan.multiplies_pairs and not target.multiplies_pairs:
        raise UnsupportedError(
            f"the plan of {plan.graph.name} is for processors with AVX-512-BF16, and code for "
            "this machine has no such instructions",
            hint=here,
        )
    return target
