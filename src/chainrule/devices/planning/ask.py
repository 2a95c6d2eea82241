"""The way into the search: checks what was asked for, then searches, or says why nothing fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chainrule.devices.carried import refuse_serial
from chainrule.devices.grid import Grid
from chainrule.devices.job import launched
from chainrule.devices.one_program import spreads
from chainrule.devices.planning.choose import Search
from chainrule.devices.planning.counted import devices_of
from chainrule.devices.planning.devices import Devices, count_of
from chainrule.devices.planning.growth import growth
from chainrule.devices.planning.pins import (
    CHUNKS,
    INTERLEAVED,
    SCHEDULES,
    Pins,
    chunks_of,
    sizes_of,
    stages_said,
)
from chainrule.devices.planning.refusal import refusal, refuse_state
from chainrule.devices.stages import MEMORY, TIME
from chainrule.devices.tensor.choosing import MOST_WAYS
from chainrule.errors import InputError
from chainrule.train.step.micro_batches import counts_near
from chainrule.train.step.step import TrainingStep

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep


def asked(
    step: TrainingStep,
    devices: Any,
    batch: Any,
    micro_batches: int | None,
    stages: int | Sequence[str] | None,
    replicas: int | None,
    schedule: str | None,
    recompute: bool | None,
    ways: int | None,
    split: Mapping[str, int | None] | None,
    shard: bool | None,
    chunks: int | None,
    size: str | None,
) -> ParallelStep:
    """See `cr.parallel`, with devices."""
    pins = micro_batches, stages, replicas, schedule, recompute, ways, split, shard, chunks
    search = search_of(step, devices, batch, *pins, size)
    refuse_state(search)
    if not search.predictions:
        raise _no_plan(search)
    found = search.best()
    if found is None:
        raise refusal(search)
    return found


def search_of(
    step: TrainingStep,
    devices: Any,
    batch: Any,
    micro_batches: int | None = None,
    stages: int | Sequence[str] | None = None,
    replicas: int | None = None,
    schedule: str | None = None,
    recompute: bool | None = None,
    ways: int | None = None,
    split: Mapping[str, int | None] | None = None,
    shard: bool | None = None,
    chunks: int | None = None,
    size: str | None = None,
) -> Search:
    """The search for what was asked, before it has begun; raises where that makes no sense."""
    from chainrule.devices.parallelise import refuse_without_ranks

    devices = devices_of(devices, step.executor, stages)
    if schedule is not None and schedule not in SCHEDULES:
        raise InputError(f"schedule is {schedule!r}", hint=f"one of {', '.join(SCHEDULES)}")
    each = chunks_of(schedule, chunks)
    if stages is None and spreads(step.executor):
        stages = 1
    count, ends = stages_said(stages, each)
    replicas = None if replicas is None else count_of(replicas, "replicas")
    micro_batches = None if micro_batches is None else count_of(micro_batches, "micro_batches")
    ways = None if ways is None else count_of(ways, "ways")
    refuse_without_ranks(Grid(count or 1, replicas or 2, ways or 2), split, bool(shard))
    limited = any(one.memory_nbytes is not None for one in devices.groups)
    balances = (TIME, MEMORY) if limited and ends is None else (TIME,)
    recomputing = (recompute,) if recompute is not None else (False, True)[: 1 + limited]
    pins = Pins(
        micro_batches,
        count,
        ends,
        replicas,
        schedule,
        balances,
        recomputing,
        split,
        (ways,) if ways is not None else _ways(devices, limited, split),
        (shard,) if shard is not None else (False, True)[: 1 + limited],
        each if schedule == INTERLEAVED else CHUNKS,
    )
    parts = step.micro_batched(1, size=size)
    sizes = sizes_of(step, parts.size, batch)
    refuse_serial(parts, replicas or 1)
    if micro_batches is None:
        refuse_sum(step, parts.size)
        refuse_carried(step)
    job = launched()
    return Search(step, devices, sizes, parts.size, pins, _ranks(devices, pins), job is not None)


def _ways(
    devices: Devices, limited: bool, split: Mapping[str, int | None] | None
) -> tuple[int, ...]:
    """Over how many ranks products may be split: those of a group of devices, where memory may ask
    for it, or somebody does."""
    most = min(MOST_WAYS, *(one.devices for one in devices.groups))
    powers = tuple(2**power for power in range(most.bit_length()))
    if split is not None:
        return powers[1:] or (2,)
    return powers if limited else (1,)


def refuse_sum(step: TrainingStep, size: str) -> None:
    """InputError for an objective that is a sum over the batch: the mean of parts is another."""
    graph = step.differentiated
    if growth(graph, graph[step.objective], size):
        raise InputError(
            f"{step.objective} grows with {size}, and a plan takes the mean of the parts of a "
            "batch, which would be another objective",
            where=graph[step.objective].origin.describe(),
            hint=f"np.mean instead of np.sum, or a division by {size}; or micro_batches=8 says "
            "that the mean of 8 parts is meant",
        )


def refuse_carried(step: TrainingStep) -> None:
    """InputError for a step with state of its objective, which each part of a batch changes."""
    if step.carried:
        raise InputError(
            f"the step carries {', '.join(step.carried)}, which each part of a batch changes: of "
            "other micro-batches, it is another step",
            hint="micro_batches=8 says how many there are",
        )


def _ranks(devices: Devices, pins: Pins) -> tuple[int, ...]:
    """How many ranks there may be: those of the job; else up to as many as there are devices."""
    job = launched()
    least = (pins.stages or 1) * (pins.replicas or 1) * min(pins.ways)
    most = devices.count if job is None else job[1]
    if most > devices.count:
        raise InputError(
            f"this job has {most} ranks, and there are {devices.count} devices",
            hint=f"chainrule run -n {devices.count}, or the devices of the job: "
            "mpiexec chainrule devices --measure -o job.toml",
        )
    if least > most:
        where = "devices" if job is None else "ranks of the job"
        raise InputError(
            f"{pins.stages or 1} stages, {pins.replicas or 1} replicas and {min(pins.ways)} ways "
            f"are {least} ranks, and there are {most} {where}",
            hint=f"{least} devices, or fewer stages, replicas or ways",
        )
    return tuple(range(1, most + 1)) if job is None else (most,)


def _no_plan(search: Search) -> InputError:
    """Numbers that do not fit each other."""
    pins, rows = search.pins, search.rows
    said = {"replicas": pins.replicas, "micro_batches": pins.micro_batches}
    fixed = ", ".join(f"{name}={n}" for name, n in said.items() if n is not None)
    if search.in_job:
        fixed = f"{fixed}, {search.ranks[0]} ranks of the job" if fixed else "the ranks of the job"
    return InputError(
        f"a batch with {search.size} = {rows} cannot be cut into equal parts for {fixed}",
        hint=advice_on_parts(rows, pins.replicas, pins.micro_batches),
    )


def advice_on_parts(rows: int, replicas: int | None, micro_batches: int | None) -> str:
    """A batch of other rows, or other micro-batches, that have equal parts for each replica."""
    each = replicas or 1
    asked = micro_batches or each
    count = -(-asked // each) * each  # which replicas can share
    lower = rows - rows % count
    near = " or ".join(str(one) for one in (lower, lower + count) if one)
    found = [f"a batch of {near} rows" + f" in micro_batches={count}" * (count != asked)]
    counts = counts_near(rows, asked, each) if micro_batches is not None else []
    if counts:
        found = found[: rows % count > 0]
        found.append(f"micro_batches={' or '.join(map(str, counts))}")
    return ", or ".join(found)
