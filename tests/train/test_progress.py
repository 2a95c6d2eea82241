"""Progress: a bar where somebody watches, lines elsewhere, nothing where nothing is wanted."""

from __future__ import annotations

import io
import sys
import time
from typing import Any

import pytest
from rich.console import Console
from trainings import data, trainer

import chainrule as cr
from chainrule.train.loop import progress
from chainrule.train.loop.progress import Lines, Plan, Reading, Silent, progress_of, used_nbytes
from chainrule.train.loop.progress_bar import Bar, Rate, measures_text
from chainrule.train.loop.watching import plan_of, reading_of


def test_a_line_for_each_epoch_where_nobody_watches(capsys: pytest.CaptureFixture[str]):
    made = trainer(progress=True, accuracy=("o", "y"), validation=data(20, seed=2))
    shown = []
    for epoch in made.epochs(10):
        shown.append(capsys.readouterr().out)
        assert epoch.validation is not None
        assert shown[-1] == (
            f"epoch {epoch.number:2}/10  objective {epoch.objective:.4f}  "
            f"accuracy {epoch.accuracy:.1%}  "
            f"validation objective {epoch.validation.objective:.4f}  "
            f"accuracy {epoch.validation.accuracy:.1%}  "
            f"{epoch.samples_per_second:,.0f} samples/s\n"
        )
    assert len(shown) == 10


def test_nothing_is_shown_where_nothing_is_wanted(capsys: pytest.CaptureFixture[str]):
    trainer(progress=False).fit(3)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_nobody_watches_where_there_is_no_output(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdout", None)
    trainer(progress=True).fit(1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "ci", "kind"),
    [(True, "", Bar), (True, "true", Lines), (True, "1", Lines), (False, "", Lines)],
)
def test_a_bar_is_for_terminals_and_not_for_ci(
    terminal: bool, ci: str, kind: type, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(sys, "stdout", Terminal() if terminal else io.StringIO())
    reading = Reading(1, 0, 0, None, None)
    made = progress_of(True, lambda: Plan(1, 10, None), lambda: reading)
    try:
        assert type(made) is kind
    finally:
        made.close()
    assert type(progress_of(False, lambda: Plan(1, 10, None), lambda: reading)) is Silent


def drawn(made: cr.Trainer, epochs: int) -> tuple[str, list[str]]:
    """What a bar of this trainer shows on a terminal of 80 columns, and the lines of epochs."""
    stream = Terminal()
    console = Console(file=stream, force_terminal=True, width=80, height=20, color_system=None)
    loop = made._loop
    bar = Bar(plan_of(loop, epochs), lambda: reading_of(loop), console)
    lines = []
    try:
        for epoch in made.epochs(epochs):
            bar.say(str(epoch))
            lines.append(str(epoch))
            time.sleep(0.3)  # one refresh
    finally:
        bar.close()
    return stream.getvalue(), lines


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("parts", [1, 2])
def test_the_bar_shows_where_training_is(parts: int):
    made = trainer(accuracy=("o", "y"), validation=data(20, seed=2), micro_batches=parts)
    shown, lines = drawn(made, 3)
    for line in lines:
        assert line in shown.replace("\r", "\n")
    for wanted in ("epoch 2/3", "epoch 3/3", "objective ", "accuracy ", "samples/s", "memory "):
        assert wanted in shown
    assert "planned, " in shown and " used" in shown
    assert "0:00:00" in shown  # the time that is left


def test_a_second_bar_beside_one_is_no_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CI", "")
    monkeypatch.setattr(sys, "stdout", Terminal())
    reading = Reading(1, 0, 0, None, None)
    bars = [progress_of(True, lambda: Plan(1, 10, None), lambda: reading) for _ in range(2)]
    for bar in reversed(bars):
        bar.say("a line")
        bar.close()


def test_the_line_below_the_bar_says_what_is_known():
    reading = Reading(2, 30, 4000, 0.12345, 0.9871)
    text = measures_text(reading, 12345.6, 3 << 20)
    assert text.startswith(
        "objective 0.1235  accuracy 98.7%  12,346 samples/s  memory 3 MiB planned, "
    )
    assert measures_text(Reading(1, 0, 0, None, None), None, None).startswith("memory ")


def test_the_plan_has_the_steps_that_are_left_and_the_bytes_of_a_step():
    made = trainer(optimizer=cr.adam(0.01))
    whole = made._made.whole
    found = plan_of(made._loop, 3)
    held = sum(array.nbytes for array in made.state.arrays.values())
    assert found.steps == 39
    assert found.nbytes == whole.memory(n=8).main.peak_nbytes + held  # and the snapshot
    made.fit(2)
    assert plan_of(made._loop, 3).steps == 39
    unsized = trainer(data=lambda epoch: iter([data()]))
    assert plan_of(unsized._loop, 3) == Plan(3, None, None)


def test_what_is_read_is_the_mean_so_far_or_what_the_last_line_said():
    made = trainer(accuracy=("o", "y"))
    assert reading_of(made._loop) == Reading(1, 0, 0, None, None)
    made.fit(1)
    (line,) = made.history
    assert reading_of(made._loop) == Reading(2, 13, 0, line["objective"], line["accuracy"])


def test_the_memory_of_this_process_is_known(monkeypatch: pytest.MonkeyPatch):
    found = used_nbytes()
    assert found is not None and 10 << 20 < found < 1 << 40
    monkeypatch.setattr(progress, "Path", lambda _: io.StringIO())  # no /proc
    other = used_nbytes()
    assert other is not None and 10 << 20 < other < 1 << 40


def test_a_bar_is_taken_away_whatever_ends_training(monkeypatch: pytest.MonkeyPatch):
    closed: list[bool] = []

    class Seen(Lines):
        def close(self) -> None:
            closed.append(True)

    def seen(*_: Any) -> Seen:
        return Seen()

    monkeypatch.setattr("chainrule.train.loop.session.progress_of", seen)
    bad = data()
    bad["y"][:] = 7
    with pytest.raises(cr.errors.IndexOutOfRangeError):
        trainer(data=bad).fit(1)
    assert closed == [True]
    for _ in trainer().epochs(3):
        break
    assert closed == [True, True]


def test_the_rate_counts_steps_across_epochs_and_not_what_came_before_the_first() -> None:
    plan = Plan(epochs=10, steps=100, nbytes=None)  # ten steps of 64 rows in an epoch
    rate = Rate(plan, 0)
    rate.take(Reading(1, 0, 0, None, None), 0.0)
    rate.take(Reading(1, 1, 64, 1.0, None), 5.0)  # the first step made code
    assert rate.value is None
    for number in range(1, 40):  # four epochs a second: never twice in one
        steps = 1 + 11 * number
        reading = Reading(1 + steps // 10, steps, 64 * (steps % 10), 1.0, None)
        rate.take(reading, 5.0 + number / 4)
    assert rate.value == pytest.approx(4 * 11 * 64, rel=1e-6)


def test_the_rate_without_a_known_number_of_steps() -> None:
    rate = Rate(Plan(epochs=1, steps=None, nbytes=None), 7)
    for number in range(10):
        rate.take(Reading(1, 7 + number, 32 * number, 1.0, None), number / 2)
    assert rate.value == pytest.approx(64)


def test_the_line_below_the_bar_is_cut_and_never_wraps() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=40)
    bar = Bar(Plan(3, 30, 1 << 20), lambda: Reading(1, 2, 64, 0.5, 0.25), console)
    console.print(bar._drawn())
    bar.close()
    shown = [line for line in file.getvalue().splitlines() if "objective" in line]
    assert shown and all("…" in line for line in shown)
