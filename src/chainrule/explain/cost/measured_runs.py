"""Measures how long runs take on this machine, on arrays that are made up.

No sum over instructions tells that: what an instruction takes depends on what those before it have
left in the caches, and on the pages that NumPy's arrays get.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass, replace
from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute.free_memory import give_back, refuse_beyond_free
from chainrule.execute.made_up import made_up
from chainrule.execute.run import leaves_of
from chainrule.graph.graph import Graph

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.train.step.micro_batches import MicroBatchedStep
    from chainrule.train.step.step import TrainingStep

CALLS, TURN = 2, 0.1  # at least so many calls, and seconds, in a turn
ROUNDS, ENOUGH = 4, 30.0  # of turns; no further one after so many seconds
UNASKED = 20.0  # seconds of runs that nobody asked for, at most about
OTHERS = 1.05  # times the time of a thread: more is that of other threads

Measure = bool | Mapping[str, Any]  # whether; or arrays by name, in place of what is made up
Run = Callable[[], Callable[[], object]]  # makes the call that is timed, with its arrays


@dataclass(frozen=True)
class Timed:
    """Nanoseconds; `is_measured`, or estimated as there was no memory for it."""

    nanoseconds: float
    is_measured: bool


def timed(runs: Sequence[Run], estimated: Sequence[float], seconds: float = inf) -> list[Timed]:
    """How long each call takes: the median of some turns, each with new arrays, of which the least
    of its calls counts, as other processes may slow them down.

    Where arrays lie decides a few percent of what a call takes that computes little with them.
    Where there is no memory for a call, or by its estimate, in nanoseconds, no time within
    `seconds` of all, the estimate is scaled as the measured ones turn out.
    """
    turns: list[list[float]] = [[] for _ in runs]
    begun = time.perf_counter()
    for place, run in enumerate(runs):
        spent = time.perf_counter() - begun
        if spent + (1 + CALLS) * estimated[place] / 1e9 <= seconds:
            turns[place].append(turn(run))
    for _ in range(ROUNDS - 1):
        if time.perf_counter() - begun < min(ENOUGH, seconds):
            for found, run in zip(turns, runs, strict=True):
                if found and found[0] < inf:
                    found.append(turn(run))
    taken = [median(found) if found else inf for found in turns]
    pairs = list(zip(taken, estimated, strict=True))
    scale = median([one / about for one, about in pairs if one < inf and about] or [1.0])
    return [Timed(one, True) if one < inf else Timed(scale * about, False) for one, about in pairs]


def run_of_report(report: MemoryReport, measure: Measure) -> Run:
    """The main run of a report: a step, or calls of a program that overwrite nothing."""
    if report.step is not None:
        step = replace(report.step, executor=report.executor)
        return run_of_step(step, report.sizes, measure)
    program = report.main.program

    def make() -> Callable[[], object]:
        refuse_beyond_free(sum(int(item.type.nbytes) for item in program.graph.inputs))
        inputs = made_up(program.graph, _known(program.graph, measure))
        return lambda: program(inputs)

    return make


def run_of_step(
    step: TrainingStep | MicroBatchedStep, sizes: Mapping[str, int], measure: Measure
) -> Run:
    """Steps on the batch of these sizes, from a state of their own."""
    whole: Any = getattr(step, "whole", step)

    def make() -> Callable[[], object]:
        graph = whole.graph.bind(**sizes)
        refuse_beyond_free(sum(int(item.type.nbytes) for item in graph.inputs))
        initial = {
            part.name: part.array.initial for part in whole.persistent if part.array is not None
        }
        found = made_up(graph, {**initial, **_known(graph, measure)})
        own = {part.name for part in whole.persistent}
        arrays = {item.name: found.pop(item.node) for item in graph.inputs if item.name in own}
        batch = {
            x.name: found[x.node] for x in graph.inputs if x.node in found and x.default is None
        }
        refuse_beyond_free(sum(int(x.type.nbytes) for x in graph.inputs if x.name in own))
        state = step.restore(arrays)
        return lambda: step(state, batch)

    return make


def _known(graph: Graph, measure: Measure) -> dict[str, Any]:
    if isinstance(measure, Mapping):
        return leaves_of(graph, measure)
    if not isinstance(measure, bool):
        raise InputError(
            f"measure is True, or arrays by name, got {type(measure).__name__}",
            hint='measure={"x": x}',
        )
    return {}


def turn(run: Run) -> float:
    """The least nanoseconds of some calls; infinite where there is no memory for them."""
    try:
        call = run()
        return least_nanoseconds(call, CALLS, TURN)
    except (MemoryLimitError, MemoryError):
        return inf
    finally:
        call = None
        give_back()


def least_nanoseconds(call: Callable[[], object], calls: int, seconds: float) -> float:
    """The least that a call takes, of at least so many and of so many seconds; after one that does
    not count.  It is the time of the calling thread, unless other threads work for it."""
    call()
    found: list[float] = []
    begun = time.perf_counter()
    while len(found) < calls or time.perf_counter() - begun < seconds:
        found.append(_nanoseconds(call))
    return min(found)


def _nanoseconds(call: Callable[[], object]) -> float:
    clocks = time.thread_time_ns, time.process_time_ns, time.perf_counter_ns
    before = [clock() for clock in clocks]
    call()
    own, of_all, passed = (clock() - one for clock, one in zip(clocks, before, strict=True))
    return float(own if 0 < of_all <= OTHERS * own else passed)
