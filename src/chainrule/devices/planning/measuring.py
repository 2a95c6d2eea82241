"""Measures devices: this machine, or all ranks of an MPI job with the links between them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from itertools import groupby
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.devices.job import launched, process_of_its_own
from chainrule.devices.planning.devices import (
    THREADS,
    Devices,
    Group,
    Link,
    Processor,
    count_of,
    processor_of,
    products_of,
    starting_seconds,
)
from chainrule.execute.free_memory import free_memory
from chainrule.execute.native.runtime.machine import settings_now
from chainrule.execute.native.runtime.pool import thread_count
from chainrule.explain.cost.measured_speeds import measured_speeds
from chainrule.graph.sizes.sizes import size
from chainrule.graph.types import array_type
from chainrule.plan.speeds import speeds_of
from chainrule.train.optimizers.optimizers import adam
from chainrule.train.step.making import training_step

if TYPE_CHECKING:
    from chainrule.devices.mpi import World

SMALL, LARGE = 2**10, 2**22  # bytes of the messages that are timed
SMALL_TIMES, LARGE_TIMES = 100, 10
LAYERS, STEPS = 8, 20  # of a step whose begin and end are timed
FASTEST = 1e-12  # seconds for each byte at least: a clock has no finer ticks


def here() -> Devices:
    """A device for each core of this machine, as quick as the known processor with its vectors."""
    known = speeds_of(settings_now(1).target.vector_nbytes)
    return _of_machine(thread_count(), processor_of(known))


def measured(count: int | None = None) -> Devices:
    """See `Devices.measure`."""
    processor = replace(processor_of(measured_speeds()), starting=_starting())
    if launched() is None:
        return _of_machine(count_of(count or thread_count(), "the number of devices"), processor)
    from chainrule.devices.mpi import join

    return _of_job(join(), processor)


def _of_machine(count: int, processor: Processor) -> Devices:
    free = free_memory()
    each = None if free is None else free.nbytes // count
    return Devices((_group("cpu", count, 1, each, processor, THREADS),), THREADS)


def _group(
    name: str, devices: int, copies: int, nbytes: int | None, processor: Processor, link: Link
) -> Group:
    speeds = processor.speeds
    moved = speeds.memory[-1].nbytes_each_nanosecond * 1e9
    return Group(name, devices, copies, nbytes, products_of(speeds), moved, link, processor)


def _of_job(world: World, processor: Processor) -> Devices:
    free = free_memory()
    own = [socket.gethostname(), free.nbytes if free is not None else -1, *astuple(processor)]
    told = world.exchange("measures devices", own)
    hosts = [one[0] for one in told]
    within = _link(world, [(a, a + 1) for a in range(len(hosts) - 1) if hosts[a] == hosts[a + 1]])
    others = [(a, b) for b in range(len(hosts)) for a in range(b) if hosts[a] != hosts[b]]
    between = _link(world, others[:1])
    return devices_of(told, within or between or THREADS, between or within or THREADS)


def devices_of(told: Sequence[Sequence[Any]], within: Link, between: Link) -> Devices:
    """The devices of a job: `told` has the host, the free bytes and the processor of each rank.

    Ranks of a host that follow each other are a group; where all have as many, one with copies,
    of which each device has the median of the numbers.
    """
    runs = [list(found) for _, found in groupby(told, key=lambda one: one[0])]
    counts = {one[0]: sum(other[0] == one[0] for other in told) for one in told}
    if len({len(run) for run in runs}) == 1:
        groups = (_median("node", len(runs[0]), len(runs), told, counts, within),)
    else:
        groups = tuple(
            _median(f"node{number}", len(run), 1, run, counts, within)
            for number, run in enumerate(runs)
        )
    return Devices(groups, between)


def _median(
    name: str,
    devices: int,
    copies: int,
    ranks: Sequence[Sequence[Any]],
    counts: dict[str, int],
    link: Link,
) -> Group:
    each = [nbytes // counts[host] for host, nbytes, *_ in ranks]
    known = min(each) > 0
    vector, *times = zip(*(one[2:] for one in ranks), strict=True)
    processor = Processor(min(vector), *map(median, times))
    return _group(name, devices, copies, min(each) if known else None, processor, link)


def _starting() -> float:
    """How many times as long as on the known processor a step takes to begin and end, beside what
    its ranks do: those of a small step are threads here, also in a job."""
    weights = [np.eye(8, dtype=np.float32)] * LAYERS
    x = array_type(np.dtype(np.float32), (size("n"), 8))
    step = training_step(_layers, "Ws", adam(), Ws=weights, executor="reference", x=x)
    batch = {"x": np.ones((8, 8), np.float32)}
    with process_of_its_own():
        split = Devices.cpu(1).parallel(step, batch=8, micro_batches=2)
        state = split.init(Ws=weights)
        split(state, batch)  # plans are made, and kept
        found = median(split.trace(state, batch).measured.starting for _ in range(STEPS))
    return found / starting_seconds(len(step.persistent))


def _layers(x: Any, Ws: Any) -> Any:
    for W in Ws:
        x = np.tanh(x @ W)
    return np.mean(x**2)


# Links --------------------------------------------------------------------------------------------


def _link(world: World, pairs: Sequence[tuple[int, int]]) -> Link | None:
    """The link between the ranks of the first pair; all ranks of the job call it, and have it."""
    if not pairs:
        return None
    pair = pairs[0]
    seconds = _seconds_between(world, *pair) if world.rank in pair else []
    small, large = world.exchange("measures links", seconds)[pair[0]]
    each = max((large - small) / (LARGE - SMALL), FASTEST)
    return Link(max(small - SMALL * each, 0.0), 1 / each)


def _seconds_between(world: World, one: int, other: int) -> list[float]:
    """How long a small and a large message take one way: half of there and back, the median."""
    found = []
    for nbytes, times in ((SMALL, SMALL_TIMES), (LARGE, LARGE_TIMES)):
        there = _round_trip(world, one, other, nbytes)
        found.append(median(there() for _ in range(times)) / 2)
    return found


def _round_trip(world: World, one: int, other: int, nbytes: int) -> Callable[[], float]:
    sent, came = np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    to = other if world.rank == one else one

    def what() -> str:
        return f"measures the link to {world.ranks[to]}"

    def there() -> float:
        begun = perf_counter()
        for receives in (world.rank == other, world.rank == one):
            if receives:
                world.wait(world.comm.Irecv([came, world.mpi.BYTE], to), what, (to,))
            else:
                world.wait(world.comm.Isend([sent, world.mpi.BYTE], to), what, (to,))
        return perf_counter() - begun

    return there
