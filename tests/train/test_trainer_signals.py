"""Ctrl-C and SIGTERM: the step is finished, all is saved, and the program is told or ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from trainings import arrays, data, trainer

from chainrule.train.loop.interrupt import Interrupted, Interrupts
from chainrule.train.loop.saving import Saving
from chainrule.train.step.job import ALONE

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

TRAINS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from trainings import trainer
made = trainer(folder=sys.argv[1], progress=True)
epochs = made.epochs(100_000)
next(epochs)
print("begun", flush=True)
try:
    for epoch in epochs:
        pass
finally:
    print("left at", made.state.steps, flush=True)
"""


def ended_by(number: int, folder: Path) -> tuple[int, str, str]:
    """The status, the last line and the errors of a training that got this signal."""
    with subprocess.Popen(
        [sys.executable, "-c", TRAINS, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "begun\n":
                break
        time.sleep(0.2)
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
    return process.returncode, out.splitlines()[-1], errors + out


@pytest.mark.slow
@pytest.mark.sweep(2)
@posix_only
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_the_program_after_the_state_was_saved(
    number: int, status: int, tmp_path: Path
):
    for attempt in "123":
        folder = tmp_path / attempt
        returned, last, told = ended_by(number, folder)
        if "stopped before" in told:
            break  # else it came between two epochs, where the program's own code is
    assert returned == status
    steps = int(last.removeprefix("left at "))
    path = folder / f"step-{steps:09}.safetensors"
    assert path.exists() and steps > 13
    # After the last of an epoch's 13 batches, its end is what comes next, or the next epoch.
    epochs = {steps // 13 + 1, -(-steps // 13)}
    assert any(f"stopped before step {steps + 1} (epoch {one}, batch" in told for one in epochs)
    assert f"run the program again, and training goes on from {path}" in told
    made, whole = trainer(folder=folder), trainer()
    end = made.epoch + 2
    made.fit(end)
    whole.fit(end)
    assert arrays(made.state) == arrays(whole.state)


def test_a_second_signal_stops_at_once():
    with pytest.raises(KeyboardInterrupt, match="at once"), Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.received == signal.SIGINT
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("nothing stopped")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@posix_only
def test_a_signal_is_noted_and_ends_what_asks():
    with Interrupts() as interrupts:
        interrupts.check()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Interrupted):
            interrupts.check()
        assert isinstance(interrupts.error(""), SystemExit)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


class Two:
    """A job whose ranks get a signal while they tell each other of none."""

    rank, count = 0, 2

    def __init__(self) -> None:
        self.asked: list[bool] = []

    def gather(self, what: str, numbers: Any, seconds: float = 0.0) -> Any:
        told = numbers.copy()
        if not told.any():
            signal.raise_signal(signal.SIGINT)
        return told[None]

    def asks_for_time(self, asks: bool) -> None:
        self.asked.append(asks)


def test_a_signal_that_comes_while_ranks_tell_of_signals_is_told_the_next_time():
    job: Any = Two()
    with pytest.raises(KeyboardInterrupt, match="told"), Interrupts(job) as interrupts:
        interrupts.check()
        assert interrupts.received == 0 and interrupts.noted == signal.SIGINT
        with interrupts.lifted():  # the program runs code of its own
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with pytest.raises(Interrupted):
            interrupts.check()
        assert interrupts.received == signal.SIGINT
        raise interrupts.error("told")
    assert job.asked == [True, False, True, False]


@posix_only
@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
@pytest.mark.parametrize("job", [ALONE, Two()])
def test_a_signal_of_which_nobody_asked_is_raised_at_the_end(
    job: Any, number: int, kind: type[BaseException]
) -> None:
    with pytest.raises(kind), Interrupts(job):
        signal.raise_signal(number)
    with pytest.raises(ValueError, match="of the program"), Interrupts():
        signal.raise_signal(number)
        raise ValueError("of the program")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_handler_of_the_program_is_left_in_place():
    seen: list[int] = []

    def own(number: int, frame: Any) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGINT, own)
    try:
        with Interrupts() as interrupts:
            assert signal.getsignal(signal.SIGINT) is own
            signal.raise_signal(signal.SIGINT)
        assert seen == [signal.SIGINT] and not interrupts.received
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_signals_are_pythons_own_while_the_body_of_the_loop_runs():
    made = trainer()
    with pytest.raises(KeyboardInterrupt) as caught:
        for _ in made.epochs(3):
            signal.raise_signal(signal.SIGINT)
    assert caught.value.args == ()
    assert made.epoch == 1
    made.fit(2)


@posix_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["open", "close"])
def test_a_signal_while_the_folder_is_opened_or_closed_waits_until_all_is_saved(
    when: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    of_saving = getattr(Saving, when)

    def told(self: Saving, *arguments: Any) -> None:
        monkeypatch.undo()
        signal.raise_signal(number)
        of_saving(self, *arguments)

    made, whole = trainer(folder=tmp_path), trainer()
    monkeypatch.setattr(Saving, when, told)
    with pytest.raises((KeyboardInterrupt, SystemExit)) as caught:
        made.fit(1)
    assert made.state.steps == (1 if when == "open" else 13)
    assert (tmp_path / f"step-{made.state.steps:09}.safetensors").exists()
    assert number == signal.SIGINT or caught.value.args == (143,)
    again = trainer(folder=tmp_path)
    again.fit(2)
    whole.fit(2)
    assert arrays(again.state) == arrays(whole.state)


def test_it_trains_in_another_thread_too():
    made, whole = trainer(), trainer()
    thread = threading.Thread(target=made.fit, args=(2,))
    thread.start()
    thread.join()
    whole.fit(2)
    assert arrays(made.state) == arrays(whole.state)


def test_a_stop_at_once_leaves_a_trainer_that_can_go_on(tmp_path: Path):
    """Two signals in a row while a batch is made: the second raises in the middle of the loop."""
    calls = 0

    def batches(epoch: int) -> Any:
        nonlocal calls
        for start in range(0, 100, 8):
            calls += 1
            if calls == 20:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
            yield {name: array[start : start + 8] for name, array in data().items()}

    made = trainer(data=batches, folder=tmp_path)
    with pytest.raises(KeyboardInterrupt, match="at once"):
        made.fit(4)
    assert made.state.steps == 19 and made.epoch == 1
    made.fit(4)
    whole = trainer(data=batches)
    whole.fit(4)
    assert arrays(made.state) == arrays(whole.state)
    assert [line["objective"] for line in made.history] == [
        line["objective"] for line in whole.history
    ]
