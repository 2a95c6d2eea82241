"""Measures when the ranks of a step do what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from socket import gethostname
from time import perf_counter
from typing import TYPE_CHECKING, Any

from chainrule.devices.instructions import (
    COLLECTIVES,
    AllGather,
    AllReduce,
    Await,
    Begin,
    Clear,
    Key,
    Receive,
    ReduceScatter,
    Run,
    Send,
)
from chainrule.devices.job import TRANSPORT
from chainrule.devices.reports.memory import memory_of
from chainrule.devices.reports.spans import (
    WAITING,
    Exchange,
    Message,
    ParallelTimeline,
    Span,
    StepTrace,
)
from chainrule.devices.reports.timeline import doing_of, timeline_of, title
from chainrule.devices.reports.values import values_of
from chainrule.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.devices.parallel import ParallelStep, Split
    from chainrule.plan.speeds import Speeds
    from chainrule.train.step.job import Job


class Clock:
    """Notes when each instruction of a rank ends.

    `sums` are those that its helper has added up, each with the times at which it began and at
    which it was there; `commit` when it waited for all ranks before the update.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.sums: list[tuple[AllReduce, float, float]] = []
        self.commit: tuple[float, float] | None = None

    def watch(self) -> None:
        """Notes the time; called before the first instruction, and after each."""
        self.times.append(perf_counter())


def refuse_several_machines(job: Job) -> None:
    """InputError for a job whose ranks have not one clock."""
    hosts = dict.fromkeys(job.exchange("traces a step", gethostname()))
    if len(hosts) > 1:
        raise InputError(
            f"a trace compares times of all ranks, and those on {', '.join(hosts)} have clocks of "
            "their own",
            hint=f"{TRANSPORT}=threads in the environment: a process then runs all ranks",
        )


def exchanged(
    job: Job, split: Split, own: Clock, begun: float, ended: float
) -> tuple[list[Clock], float, float]:
    """The clocks of all ranks of a job, when the first of them began, and when the last ended."""
    sums = [pair for _, *pair in own.sums]
    told = job.exchange("traces a step", [begun, ended, own.times, own.commit, sums])
    clocks = []
    for program, (_, _, times, commit, pairs) in zip(split.programs, told, strict=True):
        clocks.append(Clock())
        clocks[-1].times = times
        clocks[-1].commit = None if commit is None else tuple(commit)
        begins = [one.sum for one in program.instructions if isinstance(one, Begin)]
        helped = [one for one in begins if one not in split.shown]
        clocks[-1].sums = [(one, *pair) for one, pair in zip(helped, pairs, strict=True)]
    return clocks, min(one for one, *_ in told), max(one for _, one, *_ in told)


def trace_of(
    step: ParallelStep,
    split: Split,
    clocks: Sequence[Clock],
    objective: Any,
    speeds: Speeds | None,
    begun: float,
) -> StepTrace:
    """What was measured in a step, which `begun` then and has ended now, beside what is predicted
    for it."""
    ended, sizes, job = perf_counter(), split.sizes, step.job
    if job.count > 1:
        clocks, begun, ended = exchanged(job, split, clocks[step.rank], begun, ended)
    inside = max(one.times[-1] for one in clocks) - min(one.times[0] for one in clocks)
    real = measured(step, split, sizes, clocks, ended - begun - inside)
    return StepTrace(objective, real, timeline_of(step, split, sizes, speeds))


def measured(
    step: ParallelStep,
    split: Split,
    sizes: Mapping[str, int],
    clocks: Sequence[Clock],
    starting: float,
) -> ParallelTimeline:
    """The timeline of a step whose ranks have noted these times; `starting` are the seconds of the
    step in which none of them ran."""
    values = values_of(step, split)
    memory = memory_of(step, split, sizes)
    zero = min(one.times[0] for one in clocks)
    ranks: list[tuple[Span, ...]] = []
    sent: dict[tuple[int, int, Key], float] = {}
    there: dict[tuple[int, int, Key], float] = {}
    started: dict[tuple[int, tuple[int, ...]], list[float]] = {}  # the collectives of a group
    for rank, program in enumerate(split.programs):
        for at, one in enumerate(program.instructions):
            if isinstance(one, COLLECTIVES) and one not in split.shown:
                started.setdefault((rank, one.group), []).append(clocks[rank].times[at] - zero)
    helped = {
        (rank, one): (start - zero, end - zero)
        for rank, clock in enumerate(clocks)
        for one, start, end in clock.sums
    }
    exchanges: list[Exchange] = []
    for rank, (program, clock) in enumerate(zip(split.programs, clocks, strict=True)):
        times = [one - zero for one in clock.times]
        spans = [Span(WAITING, None, 0.0, times[0], 0, 0)] if times[0] else []
        done: Counter[tuple[int, ...]] = Counter()
        for at, one in enumerate(program.instructions):
            start, end = times[at], times[at + 1]
            if at == split.commits.at[rank] and clock.commit is not None:
                spans.append(Span(WAITING, None, start, clock.commit[1] - zero, at, 0))
                start = spans[-1].end
            part = None
            match one:
                case Await(begun) | Begin(begun) if begun in split.shown:
                    continue
                case AllReduce() if one in split.shown:
                    continue
                case Run(piece, part):
                    doing = split.pieces[piece].purpose
                case Receive(key, sender):
                    doing, part = WAITING, key.micro_batch
                    there[sender, rank, key] = end
                case AllReduce() | AllGather() | ReduceScatter():  # which wait for the last
                    doing, part = doing_of(one)
                    number = done[one.group]
                    done[one.group] += 1
                    last = max(started[other, one.group][number] for other in one.group)
                    all_there = min(max(start, last), end)
                    spans.append(Span(WAITING, part, start, all_there, at, 0))
                    start = all_there
                case Await(begun):
                    doing = WAITING
                    there_all = max(helped[other, begun][0] for other in begun.group)
                    _, added = helped[rank, begun]
                    waited = max(0.0, min(end, added) - max(start, there_all))
                    nbytes = sum(values[key.value].nbytes for key in begun.keys)
                    exchanges.append(Exchange(rank, nbytes, there_all, added, waited))
                case Send(key, to):
                    sent[rank, to, key] = start
                    continue
                case Begin() | Clear():
                    continue
            spans.append(Span(doing, part, start, end, at, memory.ranks[rank].during[at]))
        ranks.append(tuple(spans))
    messages = []
    for (sender, to, key), start in sent.items():
        value, end = values[key.value], there[sender, to, key]
        messages.append(
            Message(value.name, key.micro_batch, value.nbytes, sender, to, start, max(start, end))
        )
    return ParallelTimeline(
        title(step, sizes),
        step.stages,
        True,
        tuple(ranks),
        tuple(messages),
        exchanges=tuple(exchanges),
        ways=step.ways,
        starting=starting,
    )
