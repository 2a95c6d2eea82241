"""The statistics of the benchmark are right, and its table drops nothing."""

from __future__ import annotations

import importlib
import math
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
measure, report, run = map(importlib.import_module, ("measure", "report", "run"))


# Ranks of the 95 % interval of a median, from the printed tables of the sign test.
@pytest.mark.parametrize(
    ("count", "low", "high"), [(6, 1, 6), (10, 2, 9), (15, 4, 12), (20, 6, 15), (60, 22, 39)]
)
def test_the_interval_has_the_ranks_of_the_sign_test(count: int, low: int, high: int) -> None:
    values = [float(value) for value in range(1, count + 1)]
    random.Random(0).shuffle(values)
    estimate = measure.median_estimate(values)
    assert (estimate.low, estimate.high) == (low, high)
    assert estimate.median == (count + 1) / 2


@pytest.mark.parametrize("count", [1, 2, 5])
def test_too_few_samples_have_a_median_and_no_interval(count: int) -> None:
    estimate = measure.median_estimate([1.0] * count)
    assert (estimate.median, estimate.low, estimate.high) == (1.0, None, None)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    source, held = random.Random(0), 0
    for _ in range(2000):
        estimate = measure.median_estimate([source.expovariate(1) for _ in range(15)])
        held += estimate.low <= math.log(2) <= estimate.high
    assert 0.95 < held / 2000 < 0.98  # 0.965 in theory; its deviation here is 0.004


def test_a_drift_of_the_machine_cancels_in_a_paired_ratio() -> None:
    drift = [1.0 + round_ / 4 for round_ in range(8)]
    estimate = measure.paired_ratio([3 * value for value in drift], [2 * value for value in drift])
    assert (estimate.low, estimate.median, estimate.high) == (1.5, 1.5, 1.5)


def test_rounds_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError):
        measure.paired_ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError):
        measure.median_estimate([])


@pytest.mark.slow
def test_implementations_take_turns_and_the_first_calls_of_a_turn_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, calls = 0.0, []

    def cost(name: str) -> float:
        fresh = len(calls) < 2 or calls[-2] != name or calls[-1] != name
        return 100.0 if fresh else {"A": 1.0, "B": 2.0}[name]  # two dear calls begin a turn

    def call(name: str) -> None:
        nonlocal now
        now += cost(name)
        calls.append(name)

    monkeypatch.setattr(measure.time, "perf_counter", lambda: now)
    monkeypatch.setattr(measure.time, "sleep", lambda seconds: None)
    timing = measure.Timing(pause=0, warm=0, burst=3, fewest=2)
    samples = measure.alternate({n: lambda n=n: call(n) for n in "AB"}, 3, timing)
    assert samples == {"A": [1.0] * 3, "B": [2.0] * 3}
    turns = "".join(calls)
    assert turns == "AAAAABBBB" * 3


@pytest.mark.parametrize(("busy", "pauses"), [(0, 1), (3, 4), (99, 10)])
def test_a_turn_waits_for_threads_that_spin(
    busy: int, pauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    used = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        used[0] += seconds if len(slept) <= busy else 0.01 * seconds

    monkeypatch.setattr(measure.time, "sleep", sleep)
    monkeypatch.setattr(measure.time, "process_time", lambda: used[0])
    measure.wait_for_quiet(0.04)
    assert slept == [0.04] * pauses


def test_a_geometric_mean_is_the_root_of_the_product() -> None:
    assert measure.geometric_mean([1.0, 2.0, 4.0]) == pytest.approx(2.0)


def found() -> dict[str, Any]:
    """Two cases: one with all but JAX, one where nothing of chainrule ran."""
    rounds = {"chainrule": [1e-3] * 3, "PyTorch": [3e-3] * 3, "NumPy": [2e-3] * 3}
    common = {"versions": {"numpy": "2"}, "tried": [{}, {}], "cpus_busy_elsewhere": [0.0, None]}
    first = {
        **common,
        "name": "first",
        "title": "the first case",
        "yardsticks": ["a yardstick"],
        "processes": [{**rounds, "a yardstick": [0.5e-3] * 3}] * 2,
        "variants": [{}, {}],
        "absent": {"JAX": "jax is not installed", "torch.compile": "left out by --quick"},
    }
    second = {
        **common,
        "name": "second",
        "title": "the second case",
        "yardsticks": [],
        "processes": [{"NumPy": [2e-3] * 3}] * 2,
        "variants": [{}, {}],
        "absent": {
            "chainrule: way": "no executor",
            "PyTorch": "why",
            "JAX": "jax is not installed",
        },
    }
    calls = {
        "name": "first-call-first",
        "title": "first call: the first case",
        "seconds": {"chainrule": [0.25] * 6},
        "import_seconds": {"chainrule": [0.1] * 6},
        "absent": {"JAX": "jax is not installed"},
    }
    return {
        "cases": [first, second],
        "first_calls": [calls],
        "machine": {"cpu": "a processor", "cpus": 2},
        "plan": {"processes": 2, "rounds": 3},
        "threads": 2,
        "level": "avx2",
        "beside": ["mkl"],
        "executor": "native",
    }


def test_the_heading_says_the_processor_its_instructions_and_what_is_beside() -> None:
    first = report.heading(found()).splitlines()[0]
    assert first == (
        "a processor, 2 CPUs, 2 threads, AVX2 without AVX-512, mkl installed; "
        "2 processes of 3 rounds; chainrule runs by 'native'."
    )


def test_each_level_has_a_sentence_and_holds_every_library_to_it() -> None:
    assert report.INSTRUCTIONS.keys() == run.LEVELS.keys()
    held = run.environment(2, "avx2")
    for name in ("CHAINRULE_WITHOUT", "ATEN_CPU_CAPABILITY", "XLA_FLAGS", "OPENBLAS_CORETYPE"):
        assert name in held
    assert not run.LEVELS["all"]


def row(text: str, title: str) -> list[str]:
    """The cells of the first row with this title."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {title}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_times_ratios_and_the_fastest_peer() -> None:
    text = report.table(found())
    cells = row(text, "the first case")
    assert cells[1:3] == ["1.00 ms", "3.00 ms (3.00×)"]
    assert cells[5:] == ["2.00 ms (2.00×)", "NumPy", "2.00 [2.00, 2.00]"]
    assert "geometric mean of 1: 2.00" in text


def test_what_was_not_measured_stays_in_the_table_with_its_reason() -> None:
    text = report.table(found())
    notes = dict(line[1:].split("] ", 1) for line in text.splitlines() if line.startswith("["))
    cells = row(text, "the first case")
    assert cells[3].startswith("none [") and cells[4].startswith("none [")
    assert notes[cells[4][6:-1]] == "jax is not installed"
    absent = row(text, "the second case")
    assert notes[absent[1][6:-1]] == "no executor"
    assert absent[6:] == ["NumPy", "none"]


def test_times_are_given_in_multiples_of_the_yardstick() -> None:
    line = next(line for line in report.table(found()).splitlines() if "| a yardstick" in line)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:4] == ["a yardstick", "500 µs", "2.00 [2.00, 2.00]"]


def test_a_busy_machine_is_told() -> None:
    measured = found()
    assert "WARNING" not in report.table(measured)
    measured["cases"][1]["cpus_busy_elsewhere"] = [0.0, 0.75]
    assert "busy (CPUs on average) during: second (0.75)\n" in report.table(measured)


@pytest.mark.exhaustive
def test_the_work_of_others_is_counted_and_ones_own_is_not() -> None:
    before = measure.cpu_seconds_elsewhere()
    if before is None:
        pytest.skip("the system does not tell")
    begin = time.process_time()
    while time.process_time() - begin < 0.3:
        pass
    command = "import time\nwhile time.process_time() < 1: pass"
    subprocess.run([sys.executable, "-c", command], check=True)
    assert measure.cpu_seconds_elsewhere() - before > 0.9


def test_first_calls_are_listed_with_their_imports() -> None:
    cells = row(report.table(found()), "first call: the first case")
    assert cells[1] == "0.25 [0.25, 0.25] s (+ 0.10)"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.234e-6, "1.23 µs"), (99.96e-6, "100 µs"), (0.9996e-3, "1.00 ms"), (12.34, "12.3 s")],
)
def test_durations_have_three_digits(seconds: float, text: str) -> None:
    assert report.duration(seconds) == text
