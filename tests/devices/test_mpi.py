"""A step on several processes has the bits of a step on threads; where a rank fails, all end."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jobs
import mpi_program
import numpy as np
import pytest
from jobs import HOST_AND_PID, command, is_running, needs_mpi
from parallel_models import case

import chainrule as cr
from chainrule.devices import launcher
from chainrule.devices.instructions import Key, Program, Send
from chainrule.devices.job import deadline_seconds
from chainrule.devices.messages import messages
from chainrule.errors import InputError
from chainrule.graph.types import array_type

PROGRAM = str(Path(mpi_program.__file__))
CASES: dict[int, list[tuple[Any, ...]]] = {
    2: [
        ("network", "clipped", "reference", ["h1"], 1),
        ("network", "adamw", "native", 1, 2),  # threads add while they update
        ("layers", "clipped", "reference", 1, 1, {"ways": 2, "split": {"W1": 0, "W2": 1}}),
        ("tied", "adamw", "native", 2, 1, {"schedule": "interleaved", "chunks": 3}),
        ("centred", "adamw", "reference", ["h"], 1),
        ("running", "adamw", "reference", 1, 2, {"shard_optimizer": True}),
    ],
    4: [
        ("network", "momentum", "reference", ["h1", "h2", "o"], 2, {"schedule": "interleaved"}),
        ("layers", "clipped", "reference", 1, 2, {"ways": 2, "shard_optimizer": True}),
    ],
}
FURTHER: dict[int, list[tuple[Any, ...]]] = {
    2: [
        ("network", "adamw", "reference", ["h1"], 1),
        ("network", "scheduled", "native", ["h1"], 1),
        ("tied", "momentum", "reference", 2, 1),
        ("dropping", "sgd", "reference", ["h1"], 1),
        ("convolutional", "sgd", "reference", ["h1"], 1),
        ("network", "adamw", "reference", 1, 2),
        ("keyed", "momentum", "reference", 1, 2),
        ("running", "adamw", "native", 1, 2, {"shard_optimizer": True}),
        ("attention", "momentum", "native", 1, 1, {"ways": 2}),
        ("layers", "adamw", "reference", 1, 1, {"ways": 2}),
        ("dropout", "sgd", "reference", 1, 1, {"ways": 2}),
        ("convolutional", "adamw", "reference", 1, 1, {"ways": 2}),
        ("layers", "adamw", "reference", 1, 2, {"shard_optimizer": True}),
        ("layers", "clipped", "native", 1, 2, {"shard_optimizer": True}),
        ("skipping", "clipped", "reference", ["a", "b", "c"], 1, {"schedule": "interleaved"}),
    ],
    3: [
        ("skipping", "sgd", "reference", ["a", "b"], 1),
        ("recurrent", "clipped", "reference", 1, 3),
        ("layers", "adamw", "native", 1, 3),  # each of them reads what all have
    ],
    4: [
        ("network", "clipped", "reference", ["h1"], 2),
        ("running", "adamw", "reference", ["h1"], 2),
        ("skipping", "adamw", "reference", ["a"], 2),
        ("averaged", "sgd", "reference", 2, 1, {"ways": 2, "split": {"W1": 0}}),
        ("layers", "adamw", "reference", ["h1"], 1, {"ways": 2}),
        ("layers", "adamw", "native", 1, 2, {"ways": 2}),  # helpers add up meanwhile
        ("shared", "momentum", "reference", 2, 1, {"ways": 2, "split": {"W": 1, "V": 0}}),
        ("attention", "adamw", "reference", 1, 1, {"ways": 4}),
        ("network", "adamw", "native", ["h1"], 2),
    ],
    6: [("layers", "adamw", "native", 1, 6)],  # too many to read what all have
}


def run(count: int, *arguments: str, deadline: float = 20) -> tuple[int, str, str, float]:
    return jobs.run(count, PROGRAM, *arguments, deadline=deadline)


@needs_mpi
@pytest.mark.parametrize("count", CASES)
def test_processes_have_the_bits_of_threads(count: int, tmp_path: Path) -> None:
    check_bits(count, CASES[count], tmp_path)


@needs_mpi
@pytest.mark.exhaustive
@pytest.mark.parametrize("count", FURTHER)
def test_processes_of_further_steps_have_the_bits_of_threads(count: int, tmp_path: Path) -> None:
    check_bits(count, FURTHER[count], tmp_path)


@needs_mpi
@pytest.mark.slow
def test_processes_that_send_all_by_messages_have_the_bits_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAINRULE_TRANSPORT", "mpi")
    native = [one for one in (*CASES[2], *FURTHER[2]) if one[2] == "native"]
    assert len(native) >= 2
    check_bits(2, native, tmp_path)


def check_bits(count: int, cases: list[tuple[Any, ...]], tmp_path: Path) -> None:
    arguments = "equal", str(tmp_path / "found"), json.dumps(cases)
    if count == 2:
        code, _, errors, _ = run(count, *arguments)
    else:  # a job of mpiexec needs no launcher
        start = [launcher.mpiexec(), "-n", str(count), sys.executable, PROGRAM, *arguments]
        done = subprocess.run(start, capture_output=True, text=True, timeout=120)
        code, errors = done.returncode, done.stderr
    assert code == 0, errors
    found = [json.loads((tmp_path / f"found-{rank}").read_text()) for rank in range(count)]
    for number, one in enumerate(cases):
        objectives, whole, again, steps, everything = mpi_program.trained(*one)
        held = set()
        for rank in range(count):
            assert found[rank][number][:4] == [objectives, whole, again, steps], (one, rank)
            own = set(found[rank][number][4])
            held |= own
            if one[3] != 1 and one[0] in ("network", "dropping"):
                assert own < set(everything), "a rank has all arrays"
        if len(one) == 5 or one[5].keys() <= {"schedule", "chunks"}:
            assert held == set(everything)
        else:  # some are nowhere whole
            assert held < set(everything)


FAILURES = {
    "raise": r"ValueError: one rank alone\n\(on rank 1 of 2\)",
    "raise in thread": r"ZeroDivisionError: [^\n]*\n\(on rank 1 of 2\)",
    "before": "ValueError: one rank alone, before the first step",
    "index": "IndexOutOfRangeError: .*index 7 .*is out of range",
    "kill": f"rank 1 {HOST_AND_PID} of 2 was killed, .*\n.* it has done its part of step 2",
    "os._exit": f"rank 1 {HOST_AND_PID} of 2 was killed, or left by os._exit",
    "sys.exit": f"rank 0 {HOST_AND_PID} waits for all other ranks, but rank 1 {HOST_AND_PID} has "
    "ended",
}


# Of these, another one has failed in the same way.
ALIKE = ("before", "os._exit", "sleep", signal.SIGTERM, signal.SIGINT)


def one_of_each(*ways: Any) -> list[Any]:
    """Ways to fail, or signals; those that are like others are exhaustive."""
    return [pytest.param(one, marks=[pytest.mark.exhaustive] * (one in ALIKE)) for one in ways]


@needs_mpi
@pytest.mark.parametrize("how", one_of_each(*FAILURES))
def test_where_a_rank_fails_all_end(how: str) -> None:
    code, _, errors, seconds = run(2, "fail", how)
    assert code == 70
    assert len(re.findall(FAILURES[how], errors)) == 1, errors
    assert errors.count("Traceback") == (
        "rror" in FAILURES[how] or how in ("sys.exit", "index")
    ) + (how == "index"), errors
    if how != "before":
        assert seconds < 2 + ("sys.exit" in how)  # which is given a second for its last messages


@needs_mpi
@pytest.mark.parametrize("how", one_of_each("stop", "sleep"))
def test_a_rank_that_hangs_ends_the_job_at_the_deadline(how: str) -> None:
    code, _, errors, seconds = run(2, "fail", how, deadline=1.5)
    assert code == 70
    assert re.search(f"rank 0 {HOST_AND_PID} waits for .* nothing within 1.5 s", errors), errors
    assert "CHAINRULE_DEADLINE=15 in the environment waits longer" in errors
    assert 1.4 < seconds < 1.5 + 5


OTHER = rf"InputError: rank 1 {HOST_AND_PID} "
NETWORK = r"  network in {} parts with n={}, 2 stages, 1 replicas, 1f1b, chainrule \S+\n"
REFUSALS = {
    "other parameters": OTHER + f"begins with other parameters than rank 0 {HOST_AND_PID}, in step"
    " 1\n.*seed generators alike",
    "other batch": OTHER + "was given another batch than rank 0 .*, in step 1\n.*the whole batch",
    "other batch later": OTHER + "was given another batch than rank 0 .*, in step 2\n.*the whole",
    "other batch of replicas": OTHER + "was given another batch than rank 0 .*, in step 2\n",
    "other number": OTHER + r"was given learning_rate=0\.2, rank 0 .* learning_rate=0\.1, in step 1"
    "\n.*the same numbers",
    "other size": OTHER + "takes another step than rank 0 .*:\n"
    f"{NETWORK.format(6, 12)}{NETWORK.format(6, 24)}.*the same file",
    "other graph": OTHER + "takes another step than rank 0 .*:\n"
    f"{NETWORK.format(12, 24)}{NETWORK.format(6, 24)}.*the same file",
    "other version": OTHER + "takes another step than rank 0 .*:\n"
    r"  network .*, chainrule 0\.0\.7\n  network .*, chainrule (?!0\.0\.7).*\n.*the same file",
    "other steps": OTHER + "has a state after 1 steps, rank 0 .* after 5\n.*the same checkpoint",
}


@needs_mpi
def test_ranks_that_do_not_do_the_same_are_refused(tmp_path: Path) -> None:
    """On all of them, with the same words, before anything runs: they can go on, and the code that
    they leave with at the end is that of the job."""
    code, _, errors, _ = run(2, "refuse", str(tmp_path / "said"))
    assert code == 3 and "Traceback" not in errors, errors
    zero, one = (json.loads((tmp_path / f"said-{rank}").read_text()) for rank in range(2))
    for what, text in REFUSALS.items():
        assert zero[what] == one[what]
        assert re.match(text, zero[what]), zero[what]
    assert zero["objective"] == one["objective"]
    missing = "StateError: this rank of the job has not all of"
    assert zero["elsewhere"].startswith(f"{missing} W2, W3, W2_m")
    assert one["elsewhere"].startswith(f"{missing} W1, b1, W1_m")
    assert one["parameters"].startswith(f"{missing} W1, b1: other ranks have")
    assert zero["trace"] == one["trace"] and len(zero["trace"][1]) == 2
    assert one["one array"].endswith("try: on every rank: whole = split.collect(state)")


@needs_mpi
def test_another_number_of_ranks_is_refused_on_all_of_them() -> None:
    code, printed, errors, _ = run(3, "fail", "none")
    assert code == 70 and "pid" not in printed
    assert errors.count("split over 2 ranks (2 stages), and this job has 3") == 1
    assert "chainrule run -n 2" in errors and "CHAINRULE_TRANSPORT=threads" in errors


@needs_mpi
def test_a_rank_that_fails_in_a_job_of_mpiexec_says_so_itself() -> None:
    start = [launcher.mpiexec(), "-n", "2", sys.executable, PROGRAM, "fail", "raise"]
    done = subprocess.run(start, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "ValueError: one rank alone\n(on rank 1 of 2)" in done.stderr


@needs_mpi
@pytest.mark.parametrize("number", one_of_each(signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
def test_no_process_outlives_the_launcher(number: int) -> None:
    process = subprocess.Popen(
        command(2, PROGRAM, "fail", "wait"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    printed = ""
    while printed.count("waiting") < 2:
        line = process.stdout.readline()
        assert line, printed
        printed += line
    pids = [int(one) for one in re.findall(r"pid (\d+)", printed)]
    assert all(map(is_running, pids))
    process.send_signal(number)
    end = time.monotonic() + 8
    while any(map(is_running, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, pids))
    _, errors = process.communicate(timeout=20)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), errors


def test_without_mpi_a_job_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(InputError, match=r"there is no mpiexec") as caught:
        launcher.mpiexec()
    assert "pip install 'chainrule[mpi]'" in str(caught.value)


def test_a_process_of_its_own_runs_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    step, weights, batch = case("network", "sgd", "reference")
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "3")
    with pytest.raises(InputError, match=r"split over 2 ranks .* this job has 3"):
        cr.parallel(step, micro_batches=4, stages=2)
    with pytest.raises(InputError, match="the step has one rank, and this job has 3"):
        cr.parallel(step, micro_batches=4)
    monkeypatch.setenv("CHAINRULE_TRANSPORT", "threads")
    split = cr.parallel(step, micro_batches=4, stages=2)
    state = split.init(weights)
    split(state, batch)
    whole = split.collect(state)
    assert whole is not state and whole.steps == 1
    for name in state:
        np.testing.assert_array_equal(whole[name], state[name])


@needs_mpi
@pytest.mark.slow
def test_a_job_of_processes_of_their_own_ends_well(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("CHAINRULE_TRANSPORT", "threads")
    (tmp_path / "own.py").write_text("import os\nos.write(1, b'done\\n')  # at once\n")
    called = [sys.executable, "-m", "chainrule", "run", "-n", "2", str(tmp_path / "own.py")]
    done = subprocess.run(called, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\ndone\n", "")


def test_more_messages_than_mpi_has_tags_are_refused() -> None:
    def sending(count: int) -> Program:
        return Program(0, (), tuple(Send(Key(1, part), 1) for part in range(count)), ())

    kind = array_type(np.dtype(np.float64), (2,))
    found = messages([sending(32_768)], {1: kind})
    assert found.tags[0, 1, Key(1, 32_767)] == 32_767
    with pytest.raises(InputError, match="rank 0 sends 32769 messages a step to rank 1") as caught:
        messages([sending(32_769)], {1: kind})
    assert caught.value.hint == "fewer micro_batches"


@pytest.mark.parametrize("asked", ["soon", "0", "-1", "inf", "nan"])
def test_a_deadline_is_a_number_of_seconds(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHAINRULE_DEADLINE", raising=False)
    assert deadline_seconds() == 60
    monkeypatch.setenv("CHAINRULE_DEADLINE", "2.5")
    assert deadline_seconds() == 2.5
    monkeypatch.setenv("CHAINRULE_DEADLINE", asked)
    with pytest.raises(InputError, match=f"CHAINRULE_DEADLINE is '{asked}'"):
        deadline_seconds()
