"""This machine is measured by the first processes, and that is kept; plans do not depend on it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule.disk import cache
from chainrule.errors import InputError, MemoryLimitError
from chainrule.explain.cost import caches, calibration, measured_speeds
from chainrule.machine_code.target import host_target, native_refusal
from chainrule.plan.speeds import Level, Speeds, speeds_of

pytestmark = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))
WIDTH = host_target().vector_nbytes
KNOWN = speeds_of(WIDTH)
MADE = replace(
    KNOWN,
    operation=0.5,
    instruction=17.25,
    crowding=1.5,
    numpy=replace(KNOWN.numpy, call=1234.5),
    memory=(Level(2.0**19, 150.0), Level(2.0**24, 90.0, 20.0), Level(2.0**62, 35.0, 300.0)),
)


def flat(record):
    for one in record:
        if isinstance(one, tuple):
            yield from flat(one)
        else:
            yield one


@pytest.fixture
def calibrated(monkeypatch, tmp_path):
    """Measuring gives MADE, and is counted; nothing is known yet."""
    measured = []

    def measure(effort, threads):
        measured.append(threads)
        return MADE

    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv(cache.FOLDER, str(folder))
    monkeypatch.setenv(calibration.VARIABLE, "1")
    monkeypatch.setattr(calibration, "_known", {})
    monkeypatch.setattr(measured_speeds, "measured", measure)
    return measured


def step_of():
    def objective(x: cr.float32["n 32"], W):
        h = np.tanh(x @ W)
        J = np.mean(np.tanh(h @ W) ** 2)
        return J

    W = np.ones((32, 32), np.float32)
    return cr.training_step(objective, "W", cr.sgd(0.1), executor="native", W=W)


@pytest.fixture
def once(monkeypatch):
    monkeypatch.setattr(calibration, "TIMES", 1)


def test_a_machine_is_measured_once_for_each_number_of_threads(calibrated, once, monkeypatch):
    first = calibration.speeds_here(WIDTH, 1)
    assert first == calibration.speeds_here(WIDTH, 1) and calibrated == [1]
    assert list(flat(astuple(first))) == pytest.approx(list(flat(astuple(MADE))), abs=1e-6)
    calibration.speeds_here(WIDTH, 2)
    assert calibrated == [1, 2]
    monkeypatch.setattr(calibration, "_known", {})  # as in a later process
    assert calibration.speeds_here(WIDTH, 1) == first and calibrated == [1, 2]
    monkeypatch.setattr(calibration, "_processor", lambda: "another one")
    calibration.speeds_here(WIDTH, 1)
    assert calibrated == [1, 2, 1]


def test_the_first_processes_measure_and_the_least_counts(calibrated, monkeypatch):
    """One was disturbed while it went through memory, one while BLAS multiplied, one by others."""

    def level(speed):
        return (*MADE.memory[:-1], replace(MADE.memory[-1], nbytes_each_nanosecond=speed))

    times = iter(
        [
            replace(MADE, memory=level(20.0), others=1.0, multiply_add=0.25, blas=1.5),
            replace(MADE, memory=level(40.0), others=3.0, multiply_add=0.25, blas=3.0),
            replace(MADE, memory=level(30.0), others=2.0, multiply_add=0.5, blas=1.0),
            replace(MADE, memory=level(90.0)),
        ]
    )
    monkeypatch.setattr(measured_speeds, "measured", lambda effort, threads: next(times))
    found = []
    for _ in range(5):  # processes
        monkeypatch.setattr(calibration, "_known", {})
        found.append(calibration.speeds_here(WIDTH, 1))
    assert [one.memory[-1].nbytes_each_nanosecond for one in found] == [20, 40, 40, 40, 40]
    assert [one.others for one in found] == [1.0] * 5
    assert [one.multiply_add * one.blas for one in found] == pytest.approx([0.375] * 5)
    assert len(list(times)) == 1 and calibration.TIMES == 3


def test_times_are_those_of_the_calibration_and_plans_are_not(calibrated, monkeypatch):
    step = step_of()
    here = step.tradeoff(n=512)
    assert here.points[0].nanoseconds == step.tradeoff(n=512, speeds=MADE).points[0].nanoseconds
    plan = step.plan(n=512)
    monkeypatch.setenv(calibration.VARIABLE, "0")
    known = step.tradeoff(n=512)
    assert known.points[0].nanoseconds == step.tradeoff(n=512, speeds=KNOWN).points[0].nanoseconds
    assert known.points[0].nanoseconds != here.points[0].nanoseconds
    assert [one.needed_nbytes for one in known][-1] == [one.needed_nbytes for one in here][-1]
    assert str(plan) == str(step.plan(n=512))


def test_nothing_is_measured_before_a_time_is_asked_for(calibrated):
    step = step_of()
    state = step.init(W=np.ones((32, 32), np.float32))
    step(state, x=np.ones((4, 32), np.float32))
    report = step.memory(n=64)
    assert str(report) and str(step.plan(n=64)) and not calibrated
    assert report.nanoseconds() > 0 and len(calibrated) == 1


def test_what_cannot_be_measured_has_the_times_of_a_known_processor(calibrated, monkeypatch):
    other = 32 if KNOWN.vector_nbytes == 64 else 64
    assert calibration.speeds_here(other, 1) == speeds_of(other)
    monkeypatch.setattr(calibration, "native_refusal", lambda: "no LLVM")
    assert calibration.speeds_here(WIDTH, 1) == KNOWN
    assert not calibrated


def test_without_memory_the_record_serves_and_is_not_kept(calibrated, monkeypatch):
    def refuse(effort, threads):
        raise MemoryLimitError("no room")

    monkeypatch.setattr(measured_speeds, "measured", refuse)
    assert calibration.speeds_here(WIDTH, 1) == KNOWN
    assert not list(cache.folder_path().iterdir())


def test_threads_without_cores_of_their_own_are_measured_by_a_later_process(
    calibrated, monkeypatch
):
    crowded = replace(MADE, crowding=measured_speeds.UNKNOWN)
    monkeypatch.setattr(measured_speeds, "measured", lambda effort, threads: crowded)
    assert calibration.speeds_here(WIDTH, 2) == replace(MADE, crowding=KNOWN.crowding)
    assert not list(cache.folder_path().iterdir())


@pytest.mark.parametrize(("ratio", "crowding"), [(1.0, 1.0), (1.5, 1.5), (3.0, 0.0)])
def test_what_threads_take_together_is_told_from_two_loops(monkeypatch, ratio, crowding):
    """Loops take so many times as long as shared evenly, and 500 ns to meet; it is measured again
    whether they do."""
    taken = []

    def turns(probes, effort):
        taken.append(len(probes))
        for one in probes:
            alone = one.by(replace(KNOWN, sharing=0.0)) - KNOWN.instruction
            one.nanoseconds = KNOWN.instruction + ratio * alone + 500.0

    monkeypatch.setattr(measured_speeds, "_take_turns", turns)
    found = measured_speeds._with_meeting(KNOWN, 2, measured_speeds.QUICK)
    assert found.crowding == pytest.approx(crowding)
    assert len(taken) == (1 if ratio == 1 else 1 + measured_speeds.AGAIN)
    if crowding:
        assert found.sharing == pytest.approx(500.0 - (ratio - 1) * KNOWN.instruction, abs=1.0)


def test_the_variable_is_0_or_1(monkeypatch):
    monkeypatch.setenv(calibration.VARIABLE, "off")
    with pytest.raises(InputError, match="CHAINRULE_CALIBRATION is 'off'") as caught:
        calibration.speeds_here(WIDTH, 1)
    assert "known processor" in str(caught.value)


@pytest.mark.parametrize(
    "made",
    [
        replace(MADE, operation=-1.0),
        replace(MADE, operation=1e9),
        replace(MADE, memory=MADE.memory[:1]),
        replace(MADE, memory=MADE.memory[:2] + MADE.memory[1:]),
        replace(MADE, memory=(Level(2.0**19, 1.0), *MADE.memory[1:])),
    ],
)
def test_nonsense_is_neither_kept_nor_believed(calibrated, monkeypatch, made: Speeds):
    monkeypatch.setattr(measured_speeds, "measured", lambda effort, threads: made)
    assert calibration.speeds_here(WIDTH, 1) == KNOWN
    assert not list(cache.folder_path().iterdir())
    cache.store(calibration._key(host_target(), 1), calibration._record(made))
    monkeypatch.setattr(calibration, "_known", {})
    assert calibration.speeds_here(WIDTH, 1) == KNOWN


def test_a_folder_that_cannot_be_written_is_no_obstacle(calibrated, monkeypatch):
    monkeypatch.setenv(cache.SWITCH, "0")
    first = calibration.speeds_here(WIDTH, 1)
    assert first == calibration.speeds_here(WIDTH, 1) and calibrated == [1]


def test_caches_are_read_from_linux_or_are_those_of_many_processors(tmp_path, monkeypatch):
    def told(*rows):
        for number, texts in enumerate(rows):
            folder = tmp_path / f"index{number}"
            folder.mkdir(exist_ok=True)
            for name, text in zip(("level", "type", "size"), texts, strict=True):
                (folder / name).write_text(f"{text}\n")
        caches.cache_nbytes.cache_clear()
        return caches.cache_nbytes()

    monkeypatch.setattr(caches, "FOLDER", tmp_path)
    assert told() == caches.MANY
    rows = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M")]
    assert told(*rows, ("3", "Unified", "266240K")) == (48 << 10, 2 << 20, 260 << 20)
    assert told(*rows, ("3", "Unified", "much")) == caches.MANY
    caches.cache_nbytes.cache_clear()


@pytest.mark.slow
def test_a_fresh_process_measures_this_machine_and_the_next_one_reads_it(tmp_path: Path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    code = """
from chainrule.explain.cost import calibration, measured_speeds
made = []
true = measured_speeds.measured
measured_speeds.measured = lambda *given: made.append(1) or true(*given)
calibration.TIMES = 1
from chainrule.machine_code.target import host_target
found = calibration.speeds_here(host_target().vector_nbytes, 1)
print(len(made), found)
"""
    given = {**os.environ, cache.FOLDER: str(folder), calibration.VARIABLE: "1"}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env=given, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert runs[0].startswith("1 Speeds") and runs[1].startswith("0 Speeds")
    assert runs[0][1:] == runs[1][1:]
