"""Training that was stopped and goes on ends where the uninterrupted one does, to the last bit."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import (
    EXECUTORS,
    OPTIMIZERS,
    arrays,
    data,
    dropping,
    lines,
    plain,
    trainer,
    untimed,
    weights,
)

import chainrule as cr
from chainrule.errors import DataFileError, InputError
from chainrule.train.loop.feed import Feed
from chainrule.train.loop.history import HistoryWarning

EPOCHS = 5  # of 13 steps: 65


class Crash(BaseException):
    """Nothing is saved for it, as where a process is killed."""


def crash() -> None:
    raise Crash


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """`at_step(50, act)`: act just before the step that comes after 50 others, once."""
    complete = Feed.complete

    def arrange(number: int, act: Callable[[], None]) -> None:
        left = [number]

        def and_act(self: Feed, batch: Any, step: int) -> Any:
            if left == [step]:
                left.clear()
                act()
            return complete(self, batch, step)

        monkeypatch.setattr(Feed, "complete", and_act)

    return arrange


def same(made: cr.Trainer, whole: cr.Trainer, folder: Path) -> None:
    assert made.epoch == whole.epoch and made.state.steps == whole.state.steps
    assert arrays(made.state) == arrays(whole.state)
    assert untimed(made.history) == untimed(whole.history)
    assert lines(folder) == made.history


@pytest.mark.slow
@pytest.mark.sweep(11)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("objective", [plain, dropping])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_50_steps_stop_and_the_rest_are_all_steps(
    optimizer: str, objective: Any, parts: int, executor: str, tmp_path: Path, at_step: Any
):
    """Ctrl-C before the 50th step is taken, which is then finished: in the middle of epoch 4."""
    options: dict[str, Any] = {
        "validation": data(20, seed=2),
        "accuracy": ("o", "y"),
        "log_every": 7,
        "micro_batches": parts,
        "executor": executor,
        "key": cr.random.key(3),
    }

    def made(**more: Any) -> cr.Trainer:
        return trainer(objective, OPTIMIZERS[optimizer](), **options, **more)

    whole = made()
    whole.fit(EPOCHS)
    first = made(folder=tmp_path)
    at_step(49, interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        first.fit(EPOCHS)
    assert first.state.steps == 50 and first.epoch == 3
    assert str(caught.value) == (
        "stopped before step 51 (epoch 4, batch 12); run the program again, and training goes on "
        f"from {tmp_path / 'step-000000050.safetensors'}"
    )
    second = made(folder=tmp_path)
    assert second.state.steps == 50 and second.epoch == 3
    second.fit(EPOCHS)
    same(second, whole, tmp_path)


@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    ("steps", "saved"), [(1, 0), (13, 10), (26, 20), (57, 50), (60, 60), (64, 60)]
)
def test_a_crash_loses_no_more_than_one_interval_and_no_line_twice(
    steps: int, saved: int, tmp_path: Path, at_step: Any
):
    def made(**more: Any) -> cr.Trainer:
        return trainer(dropping, cr.adam(0.01), log_every=4, accuracy=("o", "y"), **more)

    whole = made()
    whole.fit(EPOCHS)
    at_step(steps, crash)
    with pytest.raises(Crash):
        made(folder=tmp_path, save_every=10).fit(EPOCHS)
    second = made(folder=tmp_path, save_every=10)
    assert second.state.steps == saved
    second.fit(EPOCHS)
    same(second, whole, tmp_path)


def test_an_error_in_a_step_costs_nothing(tmp_path: Path):
    labels, good = data()["y"].copy(), data()["y"]

    def batches(epoch: int) -> Any:
        return cr.data.minibatches({"x": data()["x"], "y": labels}, 8, shuffle=False)

    labels[60] = 3
    with pytest.raises(cr.errors.IndexOutOfRangeError):
        trainer(data=batches, folder=tmp_path, log_every=3).fit(2)
    labels[:] = good
    second, whole = (
        trainer(data=batches, folder=tmp_path, log_every=3),
        trainer(data=batches, log_every=3),
    )
    assert second.state.steps == 7
    second.fit(2)
    whole.fit(2)
    same(second, whole, tmp_path)


@pytest.mark.slow
def test_it_goes_on_in_the_same_process_too(tmp_path: Path, at_step: Any):
    made = trainer(dropping, cr.adam(0.01), log_every=4)
    at_step(30, interrupt)
    with pytest.raises(KeyboardInterrupt, match="nothing is saved without a folder"):
        made.fit(EPOCHS)
    made.fit(EPOCHS)
    whole = trainer(dropping, cr.adam(0.01), log_every=4)
    whole.fit(EPOCHS)
    assert arrays(made.state) == arrays(whole.state)
    assert untimed(made.history) == untimed(whole.history)


@pytest.mark.parametrize("step", [12, 25])
def test_a_signal_in_the_last_step_of_an_epoch_leaves_validation_for_later(
    step: int, tmp_path: Path, at_step: Any
):
    def made(**more: Any) -> cr.Trainer:
        return trainer(optimizer=cr.adam(0.01), validation=data(20, seed=2), **more)

    whole = made()
    whole.fit(3)
    at_step(step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        made(folder=tmp_path).fit(3)
    second = made(folder=tmp_path)
    assert second.epoch == step // 13 and len(second.history) == step // 13
    second.fit(3)
    same(second, whole, tmp_path)


def test_a_signal_during_validation_leaves_it_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def validation() -> Any:
        yield data(4, seed=2)
        interrupt()
        yield data(4, seed=3)
        raise AssertionError("validation went on after the signal")

    class Batches:
        def __iter__(self) -> Any:
            return validation()

    first = trainer(folder=tmp_path, validation=Batches())
    with pytest.raises(KeyboardInterrupt, match=r"before step 14 \(epoch 1, batch 14\)"):
        first.fit(2)
    calm = [data(4, seed=2), data(4, seed=3)]
    second, whole = trainer(folder=tmp_path, validation=calm), trainer(validation=calm)
    second.fit(2)
    whole.fit(2)
    same(second, whole, tmp_path)


def test_a_folder_is_trained_on_where_the_program_runs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trainer(folder=tmp_path).fit(2)
    again = trainer(folder=tmp_path, progress=True)
    assert again.epoch == 2
    again.fit(2)
    again.fit(3)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == (
        f"going on from {tmp_path / 'step-000000026.safetensors'}: step 27 (epoch 3, batch 1)"
    )
    assert out[1] == "nothing to do: 2 epochs are done"
    assert out[2].startswith("epoch 3/3  objective ")
    whole = trainer()
    whole.fit(3)
    same(again, whole, tmp_path)


def test_what_training_goes_on_from_can_be_asked_for(tmp_path: Path):
    with pytest.raises(InputError, match=r"there is no checkpoint in .* to go on from"):
        trainer(folder=tmp_path, resume=True)
    trainer(folder=tmp_path, resume=False).fit(1)
    assert trainer(folder=tmp_path, resume=True).epoch == 1
    with pytest.raises(InputError, match=r"there is a training in .* already") as caught:
        trainer(folder=tmp_path, resume=False)
    assert 'resume="auto"' in caught.value.hint
    with pytest.raises(InputError, match="resume=True without a folder"):
        trainer(resume=True)


def test_a_checkpoint_has_the_state_from_the_first_step_on(tmp_path: Path):
    epochs = trainer(folder=tmp_path, save_every=5).epochs(1)
    next(epochs)
    names = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert names == [f"step-{step:09}.safetensors" for step in (0, 5, 10)]
    epochs.close()
    assert (tmp_path / "step-000000013.safetensors").exists()


def test_the_best_by_validation_is_kept(tmp_path: Path):
    made = trainer(
        optimizer=cr.sgd(2.0, momentum=0.9),  # too large: it gets worse again
        folder=tmp_path,
        keep_last=1,
        validation=data(30, seed=2),
    )
    losses = [epoch.validation.objective for epoch in made.epochs(8) if epoch.validation]
    best = int(np.argmin(losses))
    assert best < 7
    kept = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert kept == [f"step-{13 * (epoch + 1):09}.safetensors" for epoch in (best, 7)]
    with cr.Checkpoints(tmp_path, made.step, keep_last=1) as checkpoints:
        found = checkpoints.best()
    assert found is not None and found.score == losses[best]


def test_lines_after_the_checkpoint_and_half_a_line_are_dropped(tmp_path: Path):
    first = trainer(folder=tmp_path)
    first.fit(2)
    with (tmp_path / "history.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 39, "epoch": 3, "objective": 1.0}\n{"step": 52, "epo')
    second, whole = trainer(folder=tmp_path), trainer()
    assert len(second.history) == 2
    second.fit(4)
    whole.fit(4)
    same(second, whole, tmp_path)


def test_a_history_that_is_gone_begins_anew_with_a_warning(tmp_path: Path):
    trainer(folder=tmp_path).fit(2)
    (tmp_path / "history.jsonl").unlink()
    with pytest.warns(HistoryWarning, match=r"is gone: 2 lines"):
        second = trainer(folder=tmp_path)
    second.fit(3)
    assert [line["step"] for line in lines(tmp_path)] == [39]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"step": 1}\n{"step": 2}\n', "its first 2 lines are others"),
        (b'{"step": 1}\n', "it has 1 whole lines, and there were 2"),
        (b"\x00\xff", "it has 0 whole lines"),
    ],
)
def test_another_history_is_refused(content: bytes, why: str, tmp_path: Path):
    trainer(folder=tmp_path).fit(2)
    (tmp_path / "history.jsonl").write_bytes(content)
    with pytest.raises(DataFileError) as caught:
        trainer(folder=tmp_path)
    assert "is not the history of the checkpoint: " + why in caught.value.what
    assert "move it away" in caught.value.hint
    assert (tmp_path / "history.jsonl").read_bytes() == content


def test_a_history_without_checkpoints_is_not_written_over(tmp_path: Path):
    (tmp_path / "history.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(InputError, match="the history of another training"):
        trainer(folder=tmp_path)
    assert (tmp_path / "history.jsonl").read_text() == '{"step": 1}\n'


OTHERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another model": (
        lambda folder: trainer(optimizer=cr.adam(0.1), folder=folder),
        "is of another model: W1_m: float64[5, 7] is new here",
    ),
    "another key": (
        lambda folder: trainer(key=cr.random.key(1), folder=folder),
        "key is [0, 0] there and [0, 1] here",
    ),
    "another batch size": (
        lambda folder: trainer(batch_size=9, folder=folder),
        "batch_size is 8 there and 9 here",
    ),
    "other rows": (
        lambda folder: trainer(data=data(80), folder=folder),
        "data.x is float64[100, 5] there and float64[80, 5] here",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_training_is_refused(case: str, tmp_path: Path):
    trainer(folder=tmp_path).fit(1)
    provoke, told = OTHERS[case]
    with pytest.raises(InputError) as caught:
        provoke(tmp_path)
    assert told in caught.value.what


def test_another_learning_rate_goes_on(tmp_path: Path):
    trainer(optimizer=cr.sgd(0.1), folder=tmp_path).fit(1)
    made = trainer(optimizer=cr.sgd(0.05), folder=tmp_path)
    made.fit(2)
    assert [line["learning_rate"] for line in made.history] == [0.1, 0.05]


def test_a_checkpoint_that_no_trainer_wrote_is_refused(tmp_path: Path):
    step = cr.training_step(plain, ("W1", "W2"), cr.sgd(0.1))
    with cr.Checkpoints(tmp_path, step) as checkpoints:
        checkpoints.save(step.init(weights()))
    with pytest.raises(InputError, match="was not saved by a trainer") as caught:
        trainer(folder=tmp_path)
    assert "cr.load_weights(path)" in caught.value.hint


def test_checkpoints_that_are_all_damaged_are_not_written_over(tmp_path: Path):
    trainer(folder=tmp_path).fit(1)
    paths = list(tmp_path.glob("*.safetensors"))
    for path in paths:
        path.write_bytes(path.read_bytes()[:-5])
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(DataFileError) as caught:
        trainer(folder=tmp_path)
    assert f"none of the {len(paths)} checkpoints" in caught.value.what


def test_a_damaged_newest_checkpoint_costs_one_interval_and_nothing_else(tmp_path: Path):
    trainer(folder=tmp_path, accuracy=("o", "y")).fit(3)
    newest = tmp_path / "step-000000039.safetensors"
    newest.write_bytes(newest.read_bytes()[:-5])
    with pytest.warns(UserWarning, match="damaged"):
        second = trainer(folder=tmp_path, accuracy=("o", "y"))
    assert second.epoch == 2 and len(second.history) == 2
    whole = trainer(accuracy=("o", "y"))
    second.fit(4)
    whole.fit(4)
    same(second, whole, tmp_path)
