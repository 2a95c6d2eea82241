"""Says which value does not fit on which device, and what would help: advice that was tried."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from chainrule.devices.planning.candidates import Candidate
from chainrule.devices.planning.choose import SLACK, Followed, Search
from chainrule.devices.planning.devices import Devices
from chainrule.devices.planning.pins import Way
from chainrule.errors import MemoryLimitError
from chainrule.graph.bytes_text import in_bytes

LEAST_EFFORT = 5_000  # nodes of the plans of which the one that needs least is told
NEAR = 8  # plans by the model that need least, of which advice is made
SHOWN = 3  # values of the device that is worst off
TIMES = (2, 4, 8)  # as many devices, or as small a batch
ADVICE_EFFORT = 1_000  # nodes of the plans that are tried for one piece of advice
MOST_RANKS = 16  # of plans that are tried for advice


def refusal(search: Search) -> MemoryLimitError:
    """The error for a search in which nothing fits."""
    least = _least(search)
    needed = [one.most_nbytes for one in least.memory.ranks]
    limits = [search.devices.group_of(rank).memory_nbytes or 0 for rank in range(len(needed))]
    ratios = [n / limit if limit else 0 for n, limit in zip(needed, limits, strict=True)]
    rank = ratios.index(max(ratios))
    where = search.devices.name(rank)
    held = least.memory.ranks[rank].held[:SHOWN]
    told = [f"{one.name} ({one.kind}) {in_bytes(one.nbytes * one.count)}" for one in held]
    sizes = ", ".join(f"{name} = {size}" for name, size in search.sizes.items())
    plans = "the only plan" if len(search.predictions) == 1 else "the smallest plan found"
    words = Candidate(*least.way, 0.0, 0, True).words
    error = MemoryLimitError(
        f"{search.step.graph.name} with {sizes} does not fit on the devices: {plans}, {words}, "
        f"needs {needed[rank]:,} bytes on {where}, which has {limits[rank]:,}; "
        f"there are {', '.join(told)}",
        hint="; or ".join(_advice(search, least)),
    )
    error.needed_nbytes, error.free_nbytes = needed[rank], limits[rank]
    error.source = f"the memory of {where}"
    return error


def _least(search: Search) -> Followed:
    """The plan that needs least of those that are followed: until the model, which hardly says more
    than a plan needs, says more of the next one than the best needs."""
    best = search.follow(search.smallest[0])
    left = (way for way in search.smallest if search.least_excess[way] < best.excess)
    for one in search.within_effort(left, LEAST_EFFORT):
        best = min(best, one, key=_excess)
    alike = [way for way in search.predictions if way == best.way._replace(schedule=way.schedule)]
    return min(map(search.follow, alike), key=_excess)


def _excess(one: Followed) -> tuple[float, Way]:
    return one.excess, one.way


def _advice(search: Search, least: Followed) -> Iterator[str]:
    """What would help; each was tried, with plans that are near the one that needs least."""
    most = max(one.most_nbytes for one in least.memory.ranks)
    yield f"devices with {most:,} bytes each ({in_bytes(most)}), on which this plan fits"
    near = list(dict.fromkeys([least.way, *search.smallest[:NEAR]]))
    batches = TIMES if search.least_state_excess <= SLACK else ()
    for times in batches:
        rows, left = divmod(search.rows, times)
        ways = [way for way in near if rows % way.micro_batches == 0]
        if not left and ways and _fits(search.like(sizes={search.size: rows}, only=ways)):
            yield f"a smaller batch, {search.size} = {rows}"
            break
    for times in TIMES if not search.in_job else ():
        more = _more(search.devices, times)
        ways = [one for way in near for one in _wider(search, way, times)]
        if more.count > MOST_RANKS or not ways or not _may_hold(more, search.state_nbytes):
            continue
        if _fits(search.like(devices=more, only=dict.fromkeys(ways))):
            yield f"{more.count} devices of this kind"
            break


def _wider(search: Search, way: Way, times: int) -> Iterator[Way]:
    """The plan with as many times more stages, ways or replicas, where nobody has said how many."""
    pins = search.pins
    if pins.stages is None:
        yield way._replace(stages=way.stages * times)
    if way.ways * times in pins.ways:
        yield way._replace(ways=way.ways * times)
    replicas = way.replicas * times
    parts = math.lcm(way.micro_batches, replicas)
    is_free = pins.micro_batches in (None, parts) and pins.replicas is None
    if is_free and search.rows % parts == 0:
        yield way._replace(replicas=replicas, micro_batches=parts, shard=True in pins.sharding)


def refuse_state(search: Search) -> None:
    """MemoryLimitError where parameters and the optimizer's arrays alone have more bytes than all
    devices, if each is on one of them: no plan fits then."""
    count = max(search.ranks)
    limits = [search.devices.group_of(rank).memory_nbytes for rank in range(count)]
    persistent = search.step.persistent
    graph = search.step.graph.bind(**search.sizes)
    found = [(int(graph[one.name].type.nbytes), one.name) for one in persistent]
    total, room = sum(nbytes for nbytes, _ in found), sum(filter(None, limits))
    if None in limits or total <= room:
        return
    sizes = ", ".join(f"{name} = {size}" for name, size in search.sizes.items())
    largest = ", ".join(f"{name} {in_bytes(n)}" for n, name in sorted(found)[: -SHOWN - 1 : -1])
    each = -(-total // count)
    error = MemoryLimitError(
        f"{search.step.graph.name} with {sizes} does not fit on the devices: what it keeps from "
        f"step to step alone has {total:,} bytes, and {count} devices have {room:,}; the largest "
        f"are {largest}",
        hint=f"{each:,} bytes on each device ({in_bytes(each)}) are too few still: gradients and "
        "values come beside; ask with more, and you hear how much the smallest plan needs",
    )
    error.needed_nbytes, error.free_nbytes = total, room
    error.source = "the memory of all devices"
    raise error


def _may_hold(devices: Devices, nbytes: int | None) -> bool:
    """Whether devices have room for so many bytes, if each is on one of them."""
    limits = [one.memory_nbytes for one in devices.groups for _ in range(one.count)]
    return nbytes is None or None in limits or nbytes <= SLACK * sum(filter(None, limits))


def _fits(search: Search) -> bool:
    return search.first_fitting(ADVICE_EFFORT) is not None


def _more(devices: Devices, times: int) -> Devices:
    groups = tuple(replace(one, devices=one.devices * times) for one in devices.groups)
    return Devices(groups, devices.between)
