"""Measures how long runs take on this machine, on arrays that are made up.

No sum over instructions tells that: what an instruction takes depends on what those before it have
left in the caches, and on the pages that NumPy's arrays get.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from statistics import geometric_mean, median, stdev
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

CALLS, TURN = 2, 0.05  # at least so many calls, and seconds, in a turn
ROUNDS, MOST_ROUNDS = 4, 60  # of turns; more than the first as the times differ
PRECISE = 0.005  # of a time: an error below which no further round is taken
EACH, ENOUGH = 2.0, 30.0  # seconds for each run, and for all, after which none is
UNASKED, EACH_UNASKED = 20.0, 0.6  # seconds of runs that nobody asked for, at most about
OF_MEDIANS = 1.25  # their standard error by that of means
OTHERS = 1.05  # times the time of a thread: more is that of other threads

Measure = bool | Mapping[str, Any]  # whether; or arrays by name, in place of what is made up
Run = Callable[[], Callable[[], object]]  # makes the call that is timed, with its arrays


@dataclass(frozen=True)
class Timed:
    """Nanoseconds; `is_measured`, or estimated as there was no memory for it."""

    nanoseconds: float
    is_measured: bool


def timed(
    runs: Sequence[Run],
    estimated: Sequence[float],
    seconds: float = inf,
    each: float | None = None,
) -> list[Timed]:
    """How long each call takes, in rounds in which each run has a turn with new arrays.

    Of the calls of a turn the least counts, as other processes may slow them down.  Where arrays
    lie decides a few percent of what a call takes that computes little with them, and a machine is
    quicker at one time than at another.  So a time is a median: of what a turn took, by the mean of
    its round.  There are rounds until these medians are known well, or `each` seconds (default:
    EACH) for each run have passed.

    Where there is no memory for a call, or by its estimate, in nanoseconds, no time within
    `seconds` of all, the estimate is scaled as the measured ones turn out.
    """
    first: dict[int, float] = {}
    begun = time.perf_counter()
    for place, run in enumerate(runs):
        spent = time.perf_counter() - begun
        if spent + (1 + CALLS) * estimated[place] / 1e9 <= seconds:
            first[place] = turn(run)
    places = [place for place, found in first.items() if found < inf]
    rounds = [[first[place] for place in places]]
    most = min(ENOUGH, seconds)
    each = EACH if each is None else each
    for number in range(1, MOST_ROUNDS if places else 1):
        spent = time.perf_counter() - begun
        is_known = spent > each * len(places) or error_of(rounds) < PRECISE
        if spent > most or (number >= ROUNDS and is_known):
            break
        found = [turn(runs[place]) for place in places]
        if max(found) < inf:
            rounds.append(found)
    taken = dict(zip(places, levels_of(rounds), strict=True))
    scale = median(
        [one / estimated[place] for place, one in taken.items() if estimated[place]] or [1]
    )
    return [
        Timed(taken[place], True) if place in taken else Timed(scale * about, False)
        for place, about in enumerate(estimated)
    ]


def levels_of(rounds: Sequence[Sequence[float]]) -> list[float]:
    """What each run takes of the rounds: the median of its parts of their geometric means, which
    differ as the machine is quicker or slower, times the median of these."""
    means = [geometric_mean(one) for one in rounds if one]
    return [median(means) * median(parts) for parts in _parts(rounds)]


def error_of(rounds: Sequence[Sequence[float]]) -> float:
    """The largest standard error of the medians of `levels_of`, as if parts were normal."""
    if len(rounds) < 2:
        return inf
    errors = (stdev(parts) / median(parts) for parts in _parts(rounds))
    return OF_MEDIANS * max(errors) / len(rounds) ** 0.5


def _parts(rounds: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    """Of each run, by round, what it took of the geometric mean."""
    parts = ([one / geometric_mean(turns) for one in turns] for turns in rounds)
    return list(zip(*parts, strict=True))


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
    return float(max(own if 0 < of_all <= OTHERS * own else passed, 1))
