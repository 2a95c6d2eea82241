"""Says which value does not fit on which device, and what would help: advice that was tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from chainrule.devices.planning.candidates import Candidate
from chainrule.devices.planning.choose import Followed, Search
from chainrule.devices.planning.devices import Devices
from chainrule.devices.planning.pins import Way
from chainrule.errors import MemoryLimitError
from chainrule.graph.bytes_text import in_bytes

LEAST_EFFORT = 5_000  # nodes of the plans of which the one that needs least is told
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
    """What would help; each was tried."""
    most = max(one.most_nbytes for one in least.memory.ranks)
    yield f"devices with {most:,} bytes each ({in_bytes(most)}), on which this plan fits"
    for times in TIMES:
        rows = search.rows // times
        if search.rows % times == 0 and _fits(search.like(sizes={search.size: rows})):
            yield f"a smaller batch, {search.size} = {rows}"
            break
    for times in TIMES if not search.in_job else ():
        more = _more(search.devices, times)
        ranks = tuple(range(1, more.count + 1))
        if more.count <= MOST_RANKS and _fits(search.like(devices=more, ranks=ranks)):
            yield f"{more.count} devices of this kind"
            break


def _fits(search: Search) -> bool:
    return search.first_fitting(ADVICE_EFFORT) is not None


def _more(devices: Devices, times: int) -> Devices:
    groups = tuple(replace(one, devices=one.devices * times) for one in devices.groups)
    return Devices(groups, devices.between)
