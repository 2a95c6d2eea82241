"""A training step split over several ranks: takes steps on all of them; its reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.dataclass import dataclass, field
from chainrule.devices.grid import Grid
from chainrule.devices.job import launched
from chainrule.devices.one_program import Recording, is_one_program
from chainrule.devices.running import taken
from chainrule.devices.splitting import Split, split_of
from chainrule.devices.stages import TIME
from chainrule.devices.tensor.choosing import Chosen, choose
from chainrule.errors import IdleStageWarning
from chainrule.execute.arguments import sizes_from
from chainrule.graph.by_name import sizes_by_name
from chainrule.graph.graph import Graph
from chainrule.graph.in_notebooks import ShownByText
from chainrule.plan.pipelines.stages import Orders
from chainrule.plan.speeds import checked_speeds
from chainrule.tracebacks import entry, warn_user
from chainrule.train.step.check_arguments import given_to_step, refuse_no_state
from chainrule.train.step.job import ALONE, Job, SplitStep
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.micro_memory import sizes_of_parts
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep

if TYPE_CHECKING:
    from chainrule.devices.planning.candidates import Candidates
    from chainrule.devices.planning.devices import Devices
    from chainrule.devices.reports.measuring import Clock
    from chainrule.devices.reports.memory import ParallelMemory
    from chainrule.devices.reports.spans import ParallelTimeline, StepTrace
    from chainrule.explain.drawing.drawing import Drawing
    from chainrule.explain.reading.symbols import Indices
    from chainrule.plan.speeds import Speeds


@dataclass(frozen=True, eq=False)
class ParallelStep(SplitStep, ShownByText):
    """A training step on several ranks; `cr.parallel` makes it.

    `parts` is the step in micro-batches that is split, `grid` says over how many ranks, `ends` are
    the names of the values that stages end with and `asked` the axes of parameters, if they were
    said; `balance` says whether the other stages share out time or memory, `recompute` whether
    stages compute their forward pass again, but for what they keep in `spare` bytes of a
    micro-batch each.  Where the step was split for `devices`, `candidates`
    are the plans that were compared.
    """

    _called = "a training step on several ranks"
    _instead = TrainingStep._instead

    parts: MicroBatchedStep  # pyrefly: ignore[bad-override]
    grid: Grid
    ends: tuple[str, ...] | None
    asked: Mapping[str, int | None] | None
    shard_optimizer: bool
    schedule: str
    orders: Orders
    recompute: bool
    balance: str = TIME
    spare: tuple[int, ...] = ()
    devices: Devices | None = None
    candidates: Candidates | None = None
    _splits: dict[tuple[tuple[str, int], ...], Split] = field(default_factory=dict, repr=False)
    _chosen: list[Chosen] = field(default_factory=list, repr=False)

    @property
    def stages(self) -> int:
        """How many parts the two passes are cut into."""
        return self.grid.stages

    @property
    def replicas(self) -> int:
        """How many groups of ranks each work on a share of the micro-batches."""
        return self.grid.replicas

    @property
    def ways(self) -> int:
        """How many ranks share each stage of a replica."""
        return self.grid.ways

    @property
    def chunks(self) -> int:
        """How many parts of the model each stage has."""
        return self.grid.chunks

    @property
    def order(self) -> str:
        """The schedule, in words: `1f1b`, or `interleaved, 2 chunks each`."""
        return f"{self.schedule}, {self.chunks} chunks each" if self.chunks > 1 else self.schedule

    @property
    def ranks(self) -> int:
        """How many ranks there are: (r * stages + s) * ways + w is shard w, stage s, replica r."""
        return self.grid.count

    @property
    def job(self) -> Job:
        """The processes of which each is one rank; a job of one where ranks are threads."""
        if launched() is None:
            return ALONE
        from chainrule.devices.mpi import join

        return join()

    @property
    def rank(self) -> int:
        """The rank that this process is: 0 for one alone, whose threads are the ranks."""
        return (launched() or (0, 1))[0]

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
        return self._taken(state, given_to_step(batch, named))[0]

    def _taken(
        self,
        state: State,
        given: Mapping[str, Any],
        clocks: Sequence[Clock] | None = None,
        recording: Recording | None = None,
    ) -> tuple[Any, Split]:
        whole = self.parts.whole
        refuse_no_state(state, whole.parameters)
        state.refuse_second_step()
        with state.updating:
            state.is_stepping = True
            try:
                found = taken(self, state, given, clocks, recording)
            finally:
                state.is_stepping = False
            return found

    @entry
    def collect(self, state: State) -> State:
        """The state with the arrays of all ranks, as a copy; every rank calls it, and has it.

        As a rank of a job, a state has only what its rank updates or reads: collect it to save
        it, or to evaluate.
        """
        refuse_no_state(state, self.parts.whole.parameters)
        if state.shares is None:
            return state.copy()
        return self.restore(self.arrays_of(state), steps=state.steps)

    def arrays_of(
        self, state: State, names: Collection[str] | None = None, to: int | None = None
    ) -> Mapping[str, np.ndarray]:
        """The arrays of a state, or those of these names, on every rank, or on rank `to` alone."""
        if state.shares is None:
            wanted = state.arrays if names is None else names
            return {name: state.arrays[name] for name in wanted}
        from chainrule.devices.mpi import join
        from chainrule.devices.processes import gathered

        return gathered(join(), state, names, to)

    def split_at(self, sizes: Mapping[str, int] | None = None, /, **named: int) -> Split:
        """The pieces and the programs for a batch of these sizes; SizeError where one is missing,
        InputError where the batch has no equal parts."""
        return self.at(self._sizes("split_at", sizes, named), "split_at")

    def _sizes(self, call: str, given: Any, named: Mapping[str, int]) -> dict[str, int]:
        return sizes_by_name(self.parts.whole.graph, f"split.{call}", given, named)

    def at(self, sizes: Mapping[str, int], call: str) -> Split:
        """The same, for a call of this name, which errors tell."""
        return self._split_of(sizes_of_parts(self.parts, sizes, f"split.{call}")[0])

    # What it needs, and when ----------------------------------------------------------------------

    @entry
    def memory(self, sizes: Mapping[str, int] | None = None, /, **named: int) -> ParallelMemory:
        """The bytes of each rank by name, before a step is taken: `print(split.memory(n=256))`.

        Sizes are those of the whole batch.  What a rank has: its parameters and the optimizer's
        arrays, sums of gradients, its part of the batch, values kept for the backward pass of the
        micro-batches that are under way, what it has received, and what its pieces allocate while
        they run.  A message belongs to its sender until its program frees it, then to its receiver
        once it is received.  The batch is taken to be in C order.  SizeError for a size that is
        missing, InputError where the batch has no equal parts.
        """
        from chainrule.devices.reports.memory import memory_of

        sizes = self._sizes("memory", sizes, named)
        return memory_of(self, self.at(sizes, "memory"), sizes)

    def planned_nbytes(self, sizes: Mapping[str, int]) -> int:
        """The most bytes that the ranks of this process have at once, at sizes of a batch."""
        ranks = self.memory(sizes).ranks
        return sum(one.peak_nbytes for one in ranks if launched() in (None, (one.rank, len(ranks))))

    @entry
    def timeline(
        self,
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        speeds: Speeds | None = None,
        **named: int,
    ) -> ParallelTimeline:
        """When each rank is predicted to do what: `split.timeline(n=256).save("step.svg")`.

        Times of pieces are those of this machine, calibrated once, or by `speeds`; messages take a
        latency and a time for each byte.  Raises as `memory` does.
        """
        from chainrule.devices.reports.timeline import timeline_of

        sizes = self._sizes("timeline", sizes, named)
        return timeline_of(self, self.at(sizes, "timeline"), sizes, speeds)

    @entry
    def trace(
        self,
        state: State,
        batch: Mapping[str, Any] | None = None,
        /,
        *,
        speeds: Speeds | None = None,
        **named: Any,
    ) -> StepTrace:
        """Take one step, and measure when each rank does what: beside what was predicted, by
        `speeds` as in `timeline`.  In a job, every rank calls it, and has the trace of all.  Of one
        program on several devices, the profiler of its executor tells: the trace then has each
        operation, by name.  Raises as a step does, and InputError for a job on several machines,
        whose clocks differ, and where somebody else profiles."""
        from chainrule.devices.reports.measuring import Clock, refuse_several_machines, trace_of
        from chainrule.devices.reports.operations import trace_of_program

        given, speeds = given_to_step(batch, named), checked_speeds(speeds)
        refuse_several_machines(self.job)
        clocks = [Clock() for _ in range(self.ranks)]
        recording = Recording() if is_one_program(self) else None
        begun = perf_counter()
        objective, split = self._taken(state, given, clocks, recording)
        if recording is not None and recording.operations:
            return trace_of_program(self, split, recording, objective, speeds)
        return trace_of(self, split, clocks, objective, speeds, begun)

    @entry
    def why(self, name: str, /, **sizes: int) -> str:
        """On which rank the value with this name lies, and why there: `split.why("W1", n=256)`.

        Without sizes they are those of the latest step, or a guess.  NameLookupError for an
        unknown name.
        """
        from chainrule.devices.reports.why import reason

        return reason(self, name, sizes)

    def ranks_data(self, sizes: Mapping[str, int], /) -> dict[str, Any]:
        """What `cr.report(split, sizes=sizes)` shows of the ranks, as dicts and lists."""
        from chainrule.devices.reports.page import ranks_data

        return ranks_data(self, sizes)

    @entry
    def draw(
        self,
        sizes: Mapping[str, int] | None = None,
        /,
        *,
        phase: str = "both",
        detail: str = "names",
        expand: Collection[str] = (),
        fold: str | Collection[str] = "auto",
        shapes: bool = False,
        nbytes: bool = False,
        indices: Indices = "subscript",
        symbols: Mapping[str, str] | None = None,
        theme: str = "auto",
        **named: int,
    ) -> Drawing:
        """The two passes of a micro-batch as `Graph.draw` shows them, a frame for each stage,
        messages between stages as thick arrows: `split.draw().save("split.svg")`.

        Sizes are those of the whole batch, without any as for `why`.  Raises as `Graph.draw` does.
        """
        from chainrule.devices.reports.lanes import drawing_of

        options = {"phase": phase, "detail": detail, "expand": expand, "fold": fold}
        options |= {"shapes": shapes, "nbytes": nbytes, "indices": indices}
        options |= {"symbols": symbols, "theme": theme}
        return drawing_of(self, self._sizes("draw", sizes, named), options)

    def __str__(self) -> str:
        from chainrule.devices.reports.summary import summary

        return summary(self)

    @property
    def latest(self) -> Split | None:
        """The split for the sizes that came last; None before the first."""
        return next(reversed(self._splits.values()), None)

    # Making the split -----------------------------------------------------------------------------

    def split_for(self, arrays: Mapping[str, Any], *, parts: int = 1) -> Split:
        """The split for inputs of one part of a batch, or of so many, as arrays."""
        graph = self.parts.whole.differentiated
        sizes = sizes_from(graph, {name: np.asarray(one) for name, one in arrays.items()})
        return self._split_of({**sizes, self.parts.size: sizes[self.parts.size] // parts})

    def _split_of(self, sizes: Mapping[str, int]) -> Split:
        key = tuple(sorted(sizes.items()))
        known = self._splits.pop(key, None)
        found = self._splits[key] = split_of(self, sizes) if known is None else known
        is_tried = self.devices is not None and self.candidates is None
        if known is None and found.idle and self.rank == 0 and not is_tried:
            self._warn_of_idle(found.idle)
        return found

    def _warn_of_idle(self, idle: Sequence[int]) -> None:
        left, name = self.stages - len(idle), self.parts.whole.graph.name
        numbers = ", ".join(map(str, idle)) if len(idle) < 4 else f"{idle[0]} to {idle[-1]}"
        warn_user(
            f"of {self.stages} stages of {name}, {len(idle)} compute nothing ({numbers}): their "
            f"ranks wait for the others\n  try: stages={left}{' or fewer' * (left > 1)}",
            IdleStageWarning,
        )

    def chosen(self, graph: Graph) -> Chosen:
        """Along which axes parameters are split: for all sizes as for those that came first."""
        if not self._chosen:
            objective = graph.names[self.parts.whole.objective]
            parameters = self.parts.whole.parameters
            self._chosen.append(choose(graph, objective, parameters, self.ways, self.asked))
        return self._chosen[0]
