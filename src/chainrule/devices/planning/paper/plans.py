"""Time and bytes of one plan: stages of the chain, ways of each, replicas, micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from math import fsum
from operator import mul
from typing import Any, NamedTuple

from chainrule.dataclass import dataclass, fields, replace
from chainrule.devices.planning.devices import Devices
from chainrule.devices.planning.model import apart, orders_of
from chainrule.devices.planning.paper.pricing import Price
from chainrule.devices.reports.times import adding_seconds
from chainrule.plan.pipelines.orders import groups_of, interleaved
from chainrule.plan.pipelines.pipeline import INTERLEAVED
from chainrule.plan.pipelines.stages import Kind, Stages
from chainrule.plan.pipelines.timeline import timeline

SCHEDULES = ("1f1b", "zb-h1", "zb-h2", INTERLEAVED)
UPDATES = 3  # times that an update reads or writes its arrays


class Way(NamedTuple):
    """A plan; `rows` are those of a micro-batch; a stage has so many `chunks` of the chain."""

    stages: int
    ways: int
    replicas: int
    rows: int
    micro_batches: int
    schedule: str
    sharded: bool
    recomputed: bool
    chunks: int = 1

    @property
    def devices(self) -> int:
        """How many devices it uses."""
        return self.stages * self.ways * self.replicas

    @property
    def each(self) -> int:
        """The micro-batches of a replica."""
        return self.micro_batches // self.replicas

    @property
    def words(self) -> str:
        """`4 stages x 8 ways x 2 replicas, 64 micro-batches, 1f1b`."""
        parts = [
            " x ".join(
                f"{number} {what}{'s' if number > 1 else ''}"
                for number, what in (
                    (self.stages, "stage"),
                    (self.ways, "way"),
                    (self.replicas, "replica"),
                )
            ),
            f"{self.micro_batches} micro-batch{'es' if self.micro_batches > 1 else ''}",
        ]
        parts += [self.schedule] if self.stages > 1 else []
        parts += [f"{self.chunks} chunks each"] if self.chunks > 1 else []
        parts += ["sharded optimizer"] if self.sharded else []
        parts += ["recomputed layers"] if self.recomputed else []
        return ", ".join(parts)


@dataclass(frozen=True)
class StagePlan:
    """A stage: its elements of the chain, from the first to the last of each of its chunks, seconds
    of a micro-batch, and the bytes of each of its devices by what they are for."""

    chunks: tuple[tuple[int, int], ...]
    forward: float
    backward: float
    weights: float
    parts: dict[str, int]
    leaving_nbytes: int

    @property
    def nbytes(self) -> int:
        """All bytes of a device at its peak."""
        return sum(self.parts.values())

    @property
    def seconds(self) -> float:
        """What a micro-batch takes, both ways."""
        return self.forward + self.backward + self.weights


def units(way: Way, stage: int) -> int:
    """The micro-batches that a stage of one chunk keeps at most.

    1F1B keeps those under way between the stage and the last; ZB-H1 as many as 1F1B's first stage,
    ZB-H2 up to 2p - 1 (Qi et al., Zero Bubble Pipeline Parallelism, section 2).
    """
    most = {"zb-h1": way.stages, "zb-h2": 2 * way.stages - 1}
    return min(way.each, most.get(way.schedule, way.stages - stage))


@lru_cache(maxsize=4096)
def under_way(stages: int, each: int, chunks: int, stage: int) -> frozenset[tuple[int, ...]]:
    """How many micro-batches a stage of an interleaved pipeline keeps of each of its chunks, at any
    time; three groups of them are as many as all."""
    once = (1.0,) * stages
    alike = Stages(stages, each, once, once, once, (0.0,) * stages, chunks)
    group = groups_of(alike)[0]
    few = replace(alike, micro_batches=min(each, 3 * group))
    counts, found = [0] * chunks, set[tuple[int, ...]]()
    for task in interleaved(few, group)[stage]:
        counts[task.chunk] += 1 if task.kind is Kind.FORWARD else -1
        found.add(tuple(counts))
    return frozenset(found)


class Totals:
    """Sums of the prices of elements that follow each other."""

    def __init__(self, prices: Sequence[Price]) -> None:
        self.prices = prices
        names = (one.name for one in fields(Price))
        self._before = {
            name: [0, *accumulate(getattr(one, name) for one in prices)] for name in names
        }

    def of(self, name: str, first: int, last: int) -> Any:
        """The sum of a number of the elements from `first` to `last`, both included."""
        before = self._before[name]
        return before[last + 1] - before[first]


def stage_plan(
    way: Way, stage: int, totals: Totals, chunks: Sequence[tuple[int, int]]
) -> StagePlan:
    """The stage whose chunks have the elements from their first to their last one."""
    prices = totals.prices

    def whole(name: str) -> Any:
        return sum(totals.of(name, first, last) for first, last in chunks)

    forward, optimizer = whole("forward"), whole("optimizer_nbytes")
    again = forward if way.recomputed else 0.0
    keeps = "entering_nbytes" if way.recomputed else "kept_nbytes"
    kept = [totals.of(keeps, first, last) for first, last in chunks]
    counts = frozenset({(units(way, stage),)})
    if way.chunks > 1:
        counts = under_way(way.stages, way.each, way.chunks, stage)
    working = max(
        one.working_nbytes + (one.kept_nbytes if way.recomputed else 0)
        for first, last in chunks
        for one in prices[first : last + 1]
    )
    leaving = [prices[last].leaving_nbytes for _, last in chunks]
    messages = sum(prices[first].entering_nbytes for first, _ in chunks if first)
    messages += sum(prices[last].leaving_nbytes for _, last in chunks if last + 1 < len(prices))
    return StagePlan(
        tuple(chunks),
        forward,
        whole("backward") + again,
        whole("weights"),
        {
            "parameters": whole("parameter_nbytes"),
            "gradients": whole("gradient_nbytes"),
            "optimizer": -(-optimizer // way.replicas) if way.sharded else optimizer,
            "activations": max(sum(map(mul, one, kept)) for one in counts),
            "messages": messages,
            "working": working,
        },
        max(leaving),
    )


def stages_of(way: Way, totals: Totals, limit: int | None) -> list[StagePlan] | None:
    """The stages of which the one with most to do has least, and none more bytes than the limit;
    None where there are none.

    For a given most to do, each stage takes as many elements as it may: the later ones, which keep
    fewer micro-batches, have then the least to take.  The least such number is searched for.
    Chunks are cut as so many stages are that have as much memory as they like.
    """
    prices = totals.prices
    if way.chunks > 1:
        alone = way._replace(stages=way.stages * way.chunks, schedule=SCHEDULES[0], chunks=1)
        parts = [part for one in stages_of(alone, totals, None) or () for part in one.chunks]
        if not parts:
            return None
        made = [
            stage_plan(way, stage, totals, parts[stage :: way.stages])
            for stage in range(way.stages)
        ]
        return made if limit is None or all(one.nbytes <= limit for one in made) else None
    if way.stages > len(prices):
        return None
    each = [_seconds(one, way) for one in prices]
    low, high = max(each), fsum(each)

    @cache
    def plan(stage: int, first: int, last: int) -> StagePlan:
        return stage_plan(way, stage, totals, [(first, last)])

    best = _filled(way.stages, each, high, limit, plan)
    if best is None:
        return None
    for _ in range(40):
        middle = (low + high) / 2
        found = _filled(way.stages, each, middle, limit, plan)
        if found is None:
            low = middle
        else:
            best, high = found, max(one.seconds for one in found)
        if high - low <= 1e-6 * high:
            break
    return best


def _seconds(one: Price, way: Way) -> float:
    return one.forward * (2 if way.recomputed else 1) + one.backward + one.weights


def _filled(
    stages: int,
    each: Sequence[float],
    most: float,
    limit: int | None,
    plan: Callable[[int, int, int], StagePlan],
) -> list[StagePlan] | None:
    """Each stage with as many elements as it may have; None where the last ones are too many."""
    at = 0
    for stage in range(stages - 1):  # without memory in mind: else the last stage has no less
        at = _end(stages, stage, each, at, most) + 1
    if fsum(each[at:]) > most * (1 + 1e-6):
        return None
    found: list[StagePlan] = []
    at = 0
    for stage in range(stages):
        end = _end(stages, stage, each, at, most)
        made = plan(stage, at, end)
        while limit is not None and made.nbytes > limit and end > at and stage < stages - 1:
            end -= 1
            made = plan(stage, at, end)
        if (limit is not None and made.nbytes > limit) or made.seconds > most * (1 + 1e-6):
            return None
        found.append(made)
        at = end + 1
    return found


def _end(stages: int, stage: int, each: Sequence[float], at: int, most: float) -> int:
    """The last element of a stage that begins with an element and has no more to do than it may."""
    last = len(each) - (stages - stage)  # each later stage has an element, too
    if stage == stages - 1:
        return last
    seconds = each[at]
    while at < last and seconds + each[at + 1] <= most * (1 + 1e-9):
        at += 1
        seconds += each[at]
    return at


def seconds_of(way: Way, stages: Sequence[StagePlan], devices: Devices) -> float:
    """Seconds of a step: the pipeline by its closed form, then adding up gradients and updating.

    In 1F1B the busiest stage waits for the first micro-batch to come and for the last one to go
    through all others; zero-bubble schedules fill one or two times the gradients of parameters of
    that (Qi et al., table 1), several chunks of a stage share it out (Narayanan et al., arXiv
    2104.04473, section 2.2).
    """
    slowest = max(stages, key=lambda one: one.seconds)
    idle = fsum(one.seconds for one in stages) - slowest.seconds
    idle -= {"zb-h1": 1, "zb-h2": 2}.get(way.schedule, 0) * fsum(
        one.weights for one in stages if one is not slowest
    )
    idle /= way.chunks
    sent = 2 * fsum(_transfers(way, stages, devices))
    last = max(seconds_after(way, stages, devices))
    return way.each * slowest.seconds + max(idle, 0.0) + sent + last


def simulated(way: Way, stages: Sequence[StagePlan], devices: Devices) -> float:
    """The same, the pipeline task by task."""
    orders = tuple(map(apart, orders_of(way.stages, way.each, way.schedule, way.chunks)))
    numbers = Stages(
        way.stages,
        way.each,
        tuple(one.forward for one in stages),
        tuple(one.backward for one in stages),
        tuple(one.weights for one in stages),
        (*_transfers(way, stages, devices), 0.0)[: way.stages],
        way.chunks,
    )
    ends = (slots[-1].end for slots in timeline(numbers, orders).slots)
    after = seconds_after(way, stages, devices)
    return max(end + rest for end, rest in zip(ends, after, strict=True))


def _transfers(way: Way, stages: Sequence[StagePlan], devices: Devices) -> list[float]:
    """Seconds of a message between each stage and the next; with several chunks, also from the last
    stage to the first."""
    found = []
    for number in range(way.stages - (way.chunks == 1)):
        link = devices.link(number * way.ways, (number + 1) % way.stages * way.ways)
        found.append(link.seconds(stages[number].leaving_nbytes))
    return found


def seconds_after(way: Way, stages: Sequence[StagePlan], devices: Devices) -> list[float]:
    """Seconds in which each stage adds up its gradients and updates; nothing of it is hidden behind
    other work."""
    found = []
    for number, one in enumerate(stages):
        base = number * way.ways
        share = way.replicas if way.sharded else 1
        state = one.parts["parameters"] + one.parts["gradients"]
        moved = state // share + one.parts["optimizer"]
        seconds = UPDATES * moved / devices.group_of(base).memory_bandwidth
        if way.replicas > 1:
            link = devices.link(base, base + (way.replicas - 1) * way.stages * way.ways)
            seconds += adding_seconds(one.parts["gradients"], way.replicas, link)
        found.append(seconds)
    return found
