"""Schedules of pipelines have the published times, keep what they may, and are never too good."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from published_rates import PUBLISHED

from chainrule.errors import InputError, InvariantError, MemoryLimitError
from chainrule.plan import Pipeline, pipeline
from chainrule.plan.pipelines.exact import is_installed
from chainrule.plan.pipelines.stages import Kind, Task, stages_of
from chainrule.plan.pipelines.timeline import timeline

ROWS = pytest.mark.parametrize("row", PUBLISHED, ids=str)
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "search")


@ROWS
@pytest.mark.sweep(5)
@pytest.mark.parametrize(("column", "schedule"), [(0, "1f1b"), (2, "zb-h1"), (3, "zb-h2")])
def test_rates_are_those_that_were_published(row: Any, column: int, schedule: str) -> None:
    found = pipeline(*row.numbers, schedule=schedule)
    assert round(found.bubble, 4) == row.rates[column]


@ROWS
def test_interleaving_waits_less_than_was_published(row: Any) -> None:
    found = pipeline(*row.numbers, schedule="interleaved", chunks=row.chunks)
    assert round(found.bubble, 4) <= row.rates[1]


@ROWS
def test_interleaving_in_the_published_memory_is_near(row: Any) -> None:
    """In groups of as many micro-batches as stages the first message of each round is waited for:
    one message a stage more than in the published rates."""
    p, message = row.numbers[0], row.numbers[5]
    units = p * (1 + (p - 1) / (p * row.chunks))
    found = pipeline(*row.numbers, schedule="interleaved", memory_units=units, chunks=row.chunks)
    assert max(found.peak_units) <= units + 1e-9
    assert found.bubble == pytest.approx(row.rates[1], abs=p * message / found.cost)


@pytest.mark.slow
@pytest.mark.sweep(18)
@ROWS
@pytest.mark.parametrize("times", [1, 2])
def test_what_is_searched_waits_no_longer_than_was_published(row: Any, times: int) -> None:
    units = times * row.numbers[0]
    found = pipeline(
        *row.numbers,
        schedule="search",
        memory_units=units,
        kept_units=row.kept_units,
        effort=110,
        seconds=600,
    )
    assert max(found.peak_units) <= units + 1e-6
    if row is PUBLISHED[0] and times == 2 and not is_installed():
        # The published rate is the least that is possible; without CP-SAT we are just above it.
        assert round(found.lower_bound_bubble, 4) == row.rates[5] < found.bubble < 0.0437
    else:
        assert round(found.bubble, 4) <= row.rates[3 + times]


# Closed forms ------------------------------------------------------------------------------------

TIMES = [(1.0, 1.0, 1.0), (1.0, 1.25, 0.75), (2.0, 2.5, 1.0)]


@pytest.mark.parametrize(("f", "b", "w"), TIMES)
@pytest.mark.parametrize(("p", "m"), [(2, 4), (3, 6), (4, 8), (5, 20)])
def test_idle_time_and_memory_are_those_of_the_formulas(
    p: int, m: int, f: float, b: float, w: float
) -> None:
    formulas = {
        "gpipe": ((p - 1) * (f + b + w), m),
        "1f1b": ((p - 1) * (f + b + w), p),
        "zb-h1": ((p - 1) * (f + b - w), p),
        "zb-h2": ((p - 1) * (f + b - 2 * w), 2 * p - 1),
    }
    for name, (idle, units) in formulas.items():
        found = pipeline(p, m, f, b, w, 0.0, name)
        # Enough micro-batches: the formulas hold once the pipeline is full.
        if m >= 2 * p:
            assert found.cost - m * (f + b + w) == pytest.approx(idle)
        assert max(found.peak_units) == min(units, m)
        assert found.bubble == pytest.approx(1 - m * (f + b + w) / found.cost)


@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (3, 9)])
def test_chunks_divide_the_idle_time(p: int, m: int, chunks: int) -> None:
    found = pipeline(p, m, 1.0, 1.5, 0.5, 0.0, "interleaved", chunks=chunks)
    assert found.cost - 3 * m == pytest.approx((p - 1) * 3 / chunks)
    assert max(found.peak_units) == pytest.approx(
        p * (1 + (p - 1) / (p * chunks)) if chunks > 1 else p
    )


# Any numbers -------------------------------------------------------------------------------------


def cases() -> list[tuple[Any, ...]]:
    """Stages and messages that differ, few and many micro-batches."""
    random = np.random.default_rng(0)
    return [
        (p, m, *(random.uniform(0, 3, p) for _ in range(3)), random.uniform(0, 1, p))
        for p, m in itertools.product((1, 2, 3, 5), (1, 2, 4, 7))
    ]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case[0]}-{case[1]}")
def test_every_task_runs_once_after_what_it_needs(case: Any, schedule: str) -> None:
    _, m, *times, transfer = case
    found = pipeline(*case, schedule=schedule, effort=30)
    assert_valid(found, times, transfer)
    assert found.cost >= found.lower_bound * (1 - 1e-12)
    assert found.cost >= max(m * (f + b + w) for f, b, w in zip(*times, strict=True)) - 1e-9
    assert found.duration >= found.cost - 1e-9


def assert_valid(found: Pipeline, times: Any, transfer: Any) -> None:
    """Checked from the definition, not by the code that made it."""
    p, chunks = found.stages, found.chunks
    lasts = dict(zip("FBW", times, strict=True), G=times[1] + times[2])
    ends: dict[tuple[str, int, int], float] = {}
    for stage, slots in enumerate(found.timeline):
        for before, after in itertools.pairwise(slots):
            assert after.start >= before.end - 1e-9
        for slot in slots:
            letter = slot.task.kind.value
            assert slot.end - slot.start == pytest.approx(lasts[letter][stage] / chunks)
            key = (letter, slot.task.micro_batch, slot.task.chunk * p + stage)
            assert key not in ends
            ends[key] = slot.end
    letters = {letter for letter, _, _ in ends}
    parts = range(p * chunks)
    assert letters in ({"F", "G"}, {"F", "B", "W"})
    assert len(ends) == len(letters) * found.micro_batches * p * chunks
    for stage, slots in enumerate(found.timeline):
        for slot in slots:
            i, part = slot.task.micro_batch, slot.task.chunk * p + stage
            match slot.task.kind.value:
                case "F" if part > 0:
                    assert slot.start >= ends["F", i, part - 1] + transfer[(part - 1) % p] - 1e-9
                case "B" | "G" as letter:
                    assert slot.start >= ends["F", i, part] - 1e-9
                    if part + 1 in parts:
                        assert slot.start >= ends[letter, i, part + 1] + transfer[part % p] - 1e-9
                case "W":
                    assert slot.start >= ends["B", i, part] - 1e-9


@pytest.mark.sweep(5)
@pytest.mark.parametrize("units", [1, 2, 3, 4.5])
@pytest.mark.parametrize("kept", [0.0, 0.4, 1.0])
def test_a_search_keeps_to_the_memory(units: float, kept: float) -> None:
    found = pipeline(4, 6, 1.0, 1.2, 0.8, 0.1, "search", units, kept_units=kept, effort=40)
    for slots in found.timeline:
        events = []
        for slot in slots:
            match slot.task.kind:
                case Kind.FORWARD:
                    events.append((slot.start, 1, 1.0))
                case Kind.BACKWARD:
                    events.append((slot.end, 0, kept - 1))
                case Kind.WEIGHTS:
                    events.append((slot.end, 0, -kept))
                case Kind.WHOLE_BACKWARD:
                    events.append((slot.end, 0, -1.0))
        assert max(itertools.accumulate(change for *_, change in sorted(events))) <= units + 1e-6


@pytest.mark.slow
def test_more_memory_never_costs_more() -> None:
    costs = [
        pipeline(4, 8, 1, 1, 1, 0.05, "search", units, kept_units=0.5, effort=60).cost
        for units in (1, 2, 3, 4, 6, 8)
    ]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.slow
def test_no_schedule_is_below_the_bound() -> None:
    """All orders of the smallest pipelines are tried."""
    for kept, units in itertools.product((0.5, 1.0), (1.0, 1.5, 2.0)):
        for times in ((1.0, 1.0, 1.0), (2.0, 1.0, 3.0), (1.0, 3.0, 0.5)):
            best = best_of_all(2, 2, times, 0.25, units, kept)
            found = pipeline(
                2, 2, *times, 0.25, schedule="search", memory_units=units, kept_units=kept
            )
            assert found.lower_bound <= best + 1e-9 <= found.cost + 2e-9
            assert found.cost <= 1.1 * best


def best_of_all(p: int, m: int, times: Any, transfer: float, units: float, kept: float) -> float:
    forward, backward, weights = times
    stages = stages_of(p, m, forward, backward, weights, transfer, 1, kept)
    tasks = [
        Task(kind, i) for kind in (Kind.FORWARD, Kind.BACKWARD, Kind.WEIGHTS) for i in range(m)
    ]
    amounts = {Kind.FORWARD: 1.0, Kind.BACKWARD: kept - 1, Kind.WEIGHTS: -kept}
    allowed = []
    for order in itertools.permutations(tasks):
        sums = itertools.accumulate(amounts[task.kind] for task in order)
        if max(sums) <= units + 1e-9 and is_in_order(order):
            allowed.append(order)
    best = math.inf
    for orders in itertools.product(allowed, repeat=p):
        try:
            best = min(best, timeline(stages, orders).longest_span)
        except InvariantError:
            continue
    return best


def is_in_order(order: tuple[Task, ...]) -> bool:
    at = {task: place for place, task in enumerate(order)}
    return all(
        at[Task(Kind.FORWARD, i)] < at[Task(Kind.BACKWARD, i)] < at[Task(Kind.WEIGHTS, i)]
        for i in {task.micro_batch for task in order}
    )


def test_the_same_numbers_give_the_same_schedule() -> None:
    one, other = (pipeline(4, 8, 1, 1.1, 0.9, 0.1, "search", 6, seed=3, effort=150) for _ in "ab")
    assert one == other


# What is printed, and what is refused ------------------------------------------------------------


def test_the_texts() -> None:
    found = pipeline(3, 4, 1.0, 1.0, 1.0, 0.0, "1f1b")
    assert str(found) == (
        "1f1b: 3 stages, 4 micro-batches, 18 s, 33.33 % of it waiting (at least 7.69 %), "
        "at most 3 units of memory"
    )
    assert found.text(18).splitlines() == [
        "  0 FFF....GGFGG.GG.GG",
        "  1 .FF..GGFGGFGG.GG..",
        "  2 ..FGGFGGFGGFGG....",
    ]


@pytest.mark.parametrize(
    ("arguments", "options", "what", "hint"),
    [
        ((0, 4, 1, 1, 1), {}, "stages is 0", "an integer, 1 or more"),
        ((2, 1.5, 1, 1, 1), {}, "micro_batches is 1.5", "an integer, 1 or more"),
        ((2, 4, -1, 1, 1), {}, "forward has -1.0", "finite and 0 or more"),
        ((2, 4, 1, math.nan, 1), {}, "backward has nan", "finite and 0 or more"),
        ((2, 4, 1, 1, [1, 2, 3]), {}, "weights has 3 numbers, and there are 2 stages", "for all"),
        ((2, 4, 1, 1, "x"), {}, "weights is 'x'", "one number, or one for each stage"),
        ((2, 4, 1, 1, 1, 0, "1f2b"), {}, "schedule is '1f2b'", "gpipe, 1f1b, interleaved"),
        ((2, 4, 1, 1, 1), {"chunks": 2}, "chunks is 2", "only the schedule 'interleaved'"),
        ((2, 4, 1, 1, 1), {"kept_units": 2}, "kept_units is 2", "from 0 to 1"),
        ((2, 4, 1, 1, 1), {"memory_units": 0}, "memory_units is 0", "more than 0"),
        ((1000, 1000, 1, 1, 1), {}, "are 3,000,000 tasks", "at most 1,000,000"),
    ],
)
def test_numbers_that_are_no_pipeline_are_refused(
    arguments: Any, options: Any, what: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        pipeline(*arguments, **options)
    assert what in caught.value.what
    assert hint in str(caught.value.hint)


def test_the_advice_about_memory_is_right() -> None:
    with pytest.raises(MemoryLimitError) as caught:
        pipeline(4, 8, 1, 1, 1, schedule="1f1b", memory_units=2)
    assert caught.value.what == "the schedule '1f1b' keeps up to 4 units, and memory_units is 2"
    assert str(caught.value.hint).startswith("memory_units=4; or schedule='search'")
    assert pipeline(4, 8, 1, 1, 1, schedule="1f1b", memory_units=4).peak_units[0] == 4
    assert (
        max(pipeline(4, 8, 1, 1, 1, schedule="search", memory_units=2, effort=40).peak_units) <= 2
    )
    with pytest.raises(MemoryLimitError, match=r"memory_units=1$"):
        pipeline(4, 8, 1, 1, 1, schedule="search", memory_units=0.5)
