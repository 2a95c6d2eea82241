"""What the caller of a search has fixed, and the plans that this leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from chainrule.dataclass import dataclass
from chainrule.devices.grid import Grid
from chainrule.devices.planning.devices import count_of
from chainrule.devices.stages import TIME
from chainrule.errors import InputError, SizeError
from chainrule.plan.pipelines.pipeline import INTERLEAVED
from chainrule.train.step.step import TrainingStep

SCHEDULES = ("1f1b", "gpipe", "zb-h1", "zb-h2", INTERLEAVED)
CHUNKS = 2  # of each stage of an interleaved pipeline, where nobody says how many
EVERY = 8  # up to here all numbers of stages and replicas are tried
MOST_EACH = 64  # micro-batches of a replica: with more, a pipeline is hardly better


class Way(NamedTuple):
    """How a step may be split; `balance` says what is shared out evenly to stages, `recompute`
    whether they compute their forward pass again, `shard` whether replicas share the optimizer,
    `chunks` how many parts of the model a stage has."""

    stages: int
    replicas: int
    micro_batches: int
    schedule: str
    balance: str
    recompute: bool
    ways: int = 1
    shard: bool = False
    chunks: int = 1

    @property
    def ranks(self) -> int:
        """How many ranks it has."""
        return self.stages * self.replicas * self.ways

    @property
    def each(self) -> int:
        """The micro-batches of a replica."""
        return self.micro_batches // self.replicas

    @property
    def kind(self) -> tuple[bool, ...]:
        """What plans have in common of which a model is about as far off."""
        return self.stages > 1, self.ways > 1, self.shard, self.recompute

    @property
    def grid(self) -> Grid:
        """How its ranks are numbered."""
        return Grid(self.stages, self.replicas, self.ways, self.chunks)


@dataclass(frozen=True)
class Pins:
    """What is fixed; None is free.  `ends` are the values that stages end with, `split` says along
    which axes parameters are split; of `ways` and `sharding`, each is tried.  `chunks` are those of
    a stage where the schedule is interleaved."""

    micro_batches: int | None
    stages: int | None
    ends: tuple[str, ...] | None
    replicas: int | None
    schedule: str | None
    balances: tuple[str, ...] = (TIME,)
    recomputing: tuple[bool, ...] = (False,)
    split: Mapping[str, int | None] | None = None
    ways: tuple[int, ...] = (1,)
    sharding: tuple[bool, ...] = (False,)
    chunks: int = CHUNKS

    def plans(self, ranks: Sequence[int], rows: int) -> Iterator[Way]:
        """The plans for a batch of so many rows, on as many ranks as one of `ranks` says."""
        allowed, most = set(ranks), max(ranks)
        for stages in [self.stages] if self.stages else numbers(most):
            for ways in self.ways:
                left = most // (stages * ways)
                for replicas in [self.replicas] if self.replicas else numbers(left):
                    if stages * replicas * ways not in allowed or rows % replicas:
                        continue
                    for each in self._parts(replicas, rows // replicas):
                        for last in self._variants(stages, replicas, each):
                            chunks = self.chunks if last[0] == INTERLEAVED and stages > 1 else 1
                            parts = each * replicas
                            yield Way(stages, replicas, parts, *last[:3], ways, last[3], chunks)

    def _variants(
        self, stages: int, replicas: int, each: int
    ) -> Iterator[tuple[str, str, bool, bool]]:
        """Schedules, what is shared out evenly, recomputing or not, and sharding or not."""
        yield from product(
            self._schedules(stages, each),
            self.balances if stages > 1 else (TIME,),
            self._recomputing(stages, each),
            [one for one in self.sharding if replicas > 1 or not one],
        )

    def _parts(self, replicas: int, rows: int) -> list[int]:
        """How many micro-batches a replica may have."""
        if self.micro_batches is not None:
            each, left = divmod(self.micro_batches, replicas)
            return [] if left or rows % max(each, 1) or not each else [each]
        divisors = [one for one in range(1, min(rows, MOST_EACH) + 1) if rows % one == 0]
        powers = [2**power for power in range(MOST_EACH.bit_length())]
        near = {next((one for one in divisors if one >= power), 1) for power in powers}
        return sorted(near)

    def _recomputing(self, stages: int, each: int) -> Sequence[bool]:
        """A stage alone, or with one micro-batch, has nothing to keep meanwhile."""
        return self.recomputing if stages > 1 and each > 1 else self.recomputing[:1]

    def _schedules(self, stages: int, each: int) -> Sequence[str]:
        if self.schedule is not None:
            return [self.schedule]
        if stages == 1 or each == 1:
            return SCHEDULES[:1]
        return SCHEDULES if self.ends is None else SCHEDULES[:-1]  # each stage ends once


def chunks_of(schedule: str | None, asked: int | None) -> int:
    """How many chunks a stage has; InputError where only another schedule has several."""
    if asked is not None and asked != 1 and schedule != INTERLEAVED:
        raise InputError(
            f"chunks is {asked}, and the schedule is not {INTERLEAVED}",
            hint=f"schedule={INTERLEAVED!r}, of which alone a stage has several chunks",
        )
    if asked is None:
        return CHUNKS if schedule == INTERLEAVED else 1
    return count_of(asked, "chunks")


def refuse_no_switch(**switches: Any) -> None:
    """InputError for what is neither True, False nor None."""
    for name, value in switches.items():
        if not isinstance(value, bool | None):
            raise InputError(f"{name} is {value!r}", hint=f"{name}=True, or {name}=False")


def stages_said(stages: Any, chunks: int) -> tuple[int | None, tuple[str, ...] | None]:
    """How many stages there are, and what they end with, as `stages=` says; InputError where it
    says neither."""
    if stages is None:
        return None, None
    if isinstance(stages, (list, tuple)) and all(isinstance(one, str) for one in stages):
        ends = tuple(stages)
        return count_of_ends(ends, chunks), ends
    if hasattr(stages, "__index__"):
        return count_of(stages, "stages"), None
    raise InputError(
        f"stages is {stages!r:.60}",
        hint='stages=2, or stages=("h1", "h2"), the values that all stages but the last end with',
    )


def count_of_ends(ends: Sequence[str], chunks: int) -> int:
    """The number of stages whose chunks end with these values, but for the last one; InputError
    where there is no such number."""
    parts = len(ends) + 1
    if parts % chunks:
        names = parts + chunks - parts % chunks - 1
        raise InputError(
            f"{len(ends)} names cut the model into {parts} parts, which are no {chunks} chunks for "
            "each stage",
            hint=f"{names} names: each chunk but the last ends with one",
        )
    return parts // chunks


def numbers(most: int) -> list[int]:
    """Numbers to try: small ones, powers of two, and those that divide the largest."""
    powers = {2**power for power in range(most.bit_length())}
    return [one for one in range(1, most + 1) if one <= EVERY or one in powers or most % one == 0]


def sizes_of(step: TrainingStep, size: str, batch: Any) -> dict[str, int]:
    """The named sizes of a batch: a number of rows, or each size by its name.

    SizeError where one is missing or unknown, InputError for what is no size.
    """
    names = step.graph.sizes
    if isinstance(batch, Mapping):
        found = {str(name): count_of(one, f"batch: {name}") for name, one in batch.items()}
    elif batch is None:
        raise InputError(
            "a plan depends on the batch, which was not given", hint=f"batch=256, which is {size}"
        )
    else:
        found = {size: count_of(batch, "batch")}
    missing = [name for name in names if name not in found]
    unknown = [name for name in found if name not in names]
    if missing or unknown:
        example = ", ".join(f"{name!r}: 256" for name in names)
        what = (
            f"the batch has no {missing[0]}, on which the plan depends"
            if missing
            else f"the batch has the size {unknown[0]!r}, and the step has none"
        )
        raise SizeError(what, hint=f"batch={{{example}}}")
    return found
