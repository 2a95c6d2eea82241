"""`cr.Trainer` takes a step that is split: on several processes with the bits of one."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import failures
import numpy as np
import pytest
import training_program
from jobs import HOST_AND_PID, is_running, needs_mpi, run, written
from training_program import made, summary, trained

from chainrule.data import minibatches
from chainrule.devices.launcher import STOPPING
from chainrule.errors import InputError, NonFiniteError
from chainrule.train.evaluation.evaluate import measured

PROGRAM = str(Path(training_program.__file__))


def started(count: int, function: str, *arguments: Any) -> tuple[int, str, str, float]:
    return run(count, PROGRAM, function, *map(json.dumps, arguments))


def as_json(found: Any) -> Any:
    return json.loads(json.dumps(found))


def check_close(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The same training, to rounding."""
    assert found["at"] == wanted["at"]
    for name, array in wanted["numbers"].items():
        np.testing.assert_allclose(found["numbers"][name], array, rtol=1e-12, atol=1e-14)
    assert len(found["history"]) == len(wanted["history"])
    for one, other in zip(found["history"], wanted["history"], strict=True):
        for key in one.keys() & other.keys():
            assert one[key] == pytest.approx(other[key], rel=1e-12), (key, one["step"])


@cache
def trained_alone() -> dict[str, Any]:
    return trained("alone", 3)


@pytest.mark.parametrize("plan", sorted(training_program.PLANS.keys() - {"a search", "alone"}))
def test_a_split_step_trains_as_the_step_does(plan: str, tmp_path: Path) -> None:
    """On threads; history, schedule, evaluation and what is saved too."""
    found, wanted = trained(plan, 3, folder=tmp_path), trained_alone()
    check_close(found, wanted)
    assert found["objective"] == pytest.approx(wanted["objective"], rel=1e-12)
    assert found["history"][0].keys() == wanted["history"][0].keys()
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert len(lines) == len(found["history"])


@pytest.mark.slow
@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "plan", ["two shards", "two replicas", "three stages", "a sharded optimizer", "alone"]
)
def test_training_goes_on_with_another_plan(plan: str, tmp_path: Path) -> None:
    for step in (1, 2):
        trained("two stages", step, folder=tmp_path)
    shutil.copytree(tmp_path, tmp_path / "copy")
    whole = trained("two stages", 4)
    assert trained("two stages", 4, folder=tmp_path, resume=True) == whole
    options = {"accuracy": None} if plan == "alone" else {}
    found = trained(plan, 4, folder=tmp_path / "copy", resume=True, **options)
    check_close(found, whole)


@pytest.mark.slow
@needs_mpi
def test_processes_train_with_the_bits_of_threads(tmp_path: Path) -> None:
    """Stages, shards, and an optimizer in shares: each has whole arrays in its checkpoints, from
    which other plans go on.  Ranks that search for a plan choose the same one.  A second job goes
    on where the first has stopped."""
    plan, folder, out = "two stages", tmp_path / "run", tmp_path / "out"
    other, shared = "two shards", {"folder": str(tmp_path / "shared")}
    runs: list[Any] = [(plan, 2, {"folder": str(folder), "progress": True})]
    runs += [("a sharded optimizer", 2, shared), (other, 3, shared), ("a search", 2, {})]
    code, printed, errors, _ = started(2, "train", str(out), runs)
    assert code == 0, errors
    assert len(re.findall("epoch ", printed)) == 2, "printed by another rank than the first"
    found, again = written(out, 2)
    assert found == again
    first, sharded, went_on, searched = found
    for one, got in ((plan, first), ("a sharded optimizer", sharded), ("a search", searched)):
        assert got == as_json(trained(one, 2)), one
    assert searched["plan"].startswith("2 stages x 1 replica, ")
    check_close(went_on, as_json(trained_alone()))
    for copy in ("threads", "alone"):
        shutil.copytree(folder, tmp_path / copy)
    code, _, errors, _ = started(
        2, "train", str(out), [(plan, 4, {"folder": str(folder), "resume": True})]
    )
    assert code == 0, errors
    whole = trained(plan, 4)
    assert [one[0] for one in written(out, 2)] == [as_json(whole)] * 2
    assert trained(plan, 4, folder=tmp_path / "threads", resume=True) == whole
    check_close(trained("alone", 4, folder=tmp_path / "alone", resume=True), whole)
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [line["step"] for line in whole["history"]]
    threads = json.loads(json.dumps(summary(made(plan, folder=folder, resume=True))))
    assert threads["arrays"] == whole["arrays"], "what the job saved at its end"


@pytest.mark.slow
@needs_mpi
def test_processes_find_where_training_diverged(tmp_path: Path) -> None:
    """The state before the bad step is saved, and all ranks have the words of the first."""
    of_ranks, alone = tmp_path / "of ranks", tmp_path / "alone"
    runs = [("two stages", "every step"), ("two shards", "auto")]
    code, _, errors, _ = started(2, "diverge", str(tmp_path / "out"), str(of_ranks), runs)
    assert code == 0, errors
    training_program.diverge(str(tmp_path / "own"), str(alone), runs)
    found, own = written(tmp_path / "out", 2), written(tmp_path / "own", 1)[0]
    where = r"step 3 left a state .*\n  x\[\d+, 2\] is inf before the step"
    for number, (plan, nonfinite) in enumerate(runs):
        assert found[0][number] == found[1][number] == own[number], (plan, nonfinite)
        assert nonfinite != "auto" or re.search(where, own[number][0]), plan
        names = [
            {path.name for path in (one / plan / nonfinite).iterdir()} for one in (of_ranks, alone)
        ]
        assert names[0] == names[1] and "step-000000002.safetensors" in names[0], plan


@pytest.mark.sweep(2)
@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize(
    ("number", "rank", "code"), [(signal.SIGTERM, 1, 143), (signal.SIGINT, 0, 130)]
)
def test_a_signal_to_one_rank_ends_all_after_they_saved(
    number: int, rank: int, code: int, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    found, printed, errors, _ = started(
        2, "told", str(tmp_path / "out"), str(folder), int(number), rank
    )
    assert found == code, errors
    assert written(tmp_path / "out", 2) == [10, 10]
    text = "stopped before step 11 (epoch 3, batch 3); run the program again, and training goes on "
    assert (printed + errors).count(f"{text}from {folder}") == 1
    assert errors.count("Traceback") == (number == signal.SIGINT)
    random = training_program.cr.random.key(1)

    def batches(epoch: int) -> Any:
        rows = training_program.data(training_program.ROWS, 1)
        return minibatches(rows, training_program.BATCH, random, epoch=epoch)

    done, whole = made("two stages", folder=folder, data=batches), made("two stages", data=batches)
    assert done.state.steps == 10
    done.fit(3)
    whole.fit(3)
    assert summary(done) == summary(whole)


@pytest.mark.slow
@needs_mpi
def test_ranks_that_were_told_to_end_have_the_time_to_save(tmp_path: Path) -> None:
    """Longer than a rank that does not train: the step that they are in takes a second."""
    folder, out = tmp_path / "run", tmp_path / "out"
    own = [sys.executable, str(Path(__file__).with_name("slow_launcher.py")), PROGRAM, "told"]
    process = subprocess.Popen(
        [*own, *map(json.dumps, [str(out), str(folder), 0, 0])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    while sum("begun" in line for line in lines) < 2:
        lines.append(process.stdout.readline())
        assert lines[-1], process.communicate()[1]
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert 0.8 < time.monotonic() - began < STOPPING
    assert "stopped before step 11" in printed
    pids = re.findall(r"begun (\d+)", "".join(lines))
    assert len(pids) == 2 and not any(is_running(int(pid)) for pid in pids)
    assert (folder / "step-000000010.safetensors").exists()


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_full_disk_of_one_rank_leaves_the_checkpoints_that_were_there(
    rank: int, tmp_path: Path
) -> None:
    """The first rank alone writes: what disk another one has is all the same."""
    code, printed, errors, _ = started(2, "full", str(tmp_path), rank)
    names = {path.name for path in tmp_path.iterdir()}
    assert not [name for name in names if "partial" in name or "tmp" in name]
    if rank == 1:
        assert code == 0 and printed.count("done 4") == 2, errors
        assert "step-000000016.safetensors" in names
        return
    assert code == 70 and "done" not in printed
    assert (
        len(re.findall(r"DataFileError: the \w+ .* cannot be written: .*File too large", errors))
        == 1
    )
    # Told by the first rank itself, whose reason does not fit on the disk, or by the other for it.
    assert len(re.findall(r"on rank [01] of 2", errors)) == 1 and "was killed" not in errors, errors
    assert "step-000000004.safetensors" in names and "step-000000008.safetensors" not in names
    found = trained("two stages", 2, folder=tmp_path, resume=True, log_every=None)
    assert found == trained("two stages", 2, log_every=None)


APART = {
    "break": f"StateError: rank 0 {HOST_AND_PID} waits for all other ranks, but rank 1 "
    f"{HOST_AND_PID} has ended",
    "collect": f"StateError: rank 1 {HOST_AND_PID} collects a state, and rank 0 {HOST_AND_PID} "
    "looks whether its state is finite: ranks wait for each other to do the same",
}


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("how", ["collect", pytest.param("break", marks=pytest.mark.exhaustive)])
def test_what_one_rank_does_alone_is_told(how: str) -> None:
    code, _, errors, _ = started(2, "apart", how)
    assert code == 70
    assert len(re.findall(APART[how], errors)) == 1, errors


@pytest.mark.slow
@needs_mpi
def test_a_rank_that_is_killed_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    assert failures.check("kill", 2, 1, 0.1, tmp_path / "run") == ""


@pytest.mark.slow
@pytest.mark.peers
@needs_mpi
def test_a_rank_of_one_program_that_is_killed_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    wrong = failures.check("kill", 2, 1, 0.1, tmp_path / "run", "a sharded optimizer", "xla")
    assert wrong == ""


@pytest.mark.exhaustive
@needs_mpi
def test_whatever_fails_at_whatever_moment_ends_as_promised(record_property: Any) -> None:
    assert failures.main(4, seed=1) == 0
    record_property("ran", "4 failures")


@pytest.mark.exhaustive
@pytest.mark.peers
@needs_mpi
def test_whatever_fails_in_one_program_ends_as_promised(record_property: Any) -> None:
    """Ranks whose devices run one program together."""
    pytest.importorskip("jax")
    assert failures.main(6, seed=1, executor="xla") == 0
    record_property("ran", "6 failures")


def test_a_trainer_of_a_split_step_says_what_it_does_not_take() -> None:
    trainer = made("two stages")
    assert trainer.rank == 0 and trainer.step.parameters == ("W1", "b1", "W2", "W3")
    assert len(trainer.memory().ranks) == 2
    with pytest.raises(InputError, match=r"executor= and layout= are of a step of one process"):
        trainer.memory(executor="reference")
    with pytest.raises(InputError, match="micro_batches=3 with a step that is taken in 6 parts"):
        made("two stages", micro_batches=3)
    with pytest.raises(InputError, match="executor= was given beside a training step"):
        made("two stages", executor="reference")
    with pytest.raises(InputError, match=r"n = 20 does not split into 6 equal parts"):
        made("two stages", batch_size=20)


@pytest.mark.slow
def test_training_goes_on_with_and_without_a_count_of_what_is_right(tmp_path: Path) -> None:
    """A step on whole batches counts it in an array of its state, other steps do not."""
    whole = trained("alone", 4)
    trainer = made("alone", folder=tmp_path, accuracy=("o", "y"))
    trainer.fit(1)
    assert "correct" in trainer.state
    split = made("two stages", folder=tmp_path, resume=True)
    assert "correct" not in split.state and split.epoch == 1
    split.fit(2)
    again = made("alone", folder=tmp_path, resume=True, accuracy=("o", "y"), save_every=1)
    counts = [(epoch.accuracy or 0) * training_program.ROWS for epoch in again.epochs(3)]
    assert counts == [pytest.approx(again.state["correct"])] and counts[0] > 0
    shutil.copytree(tmp_path, tmp_path / "copy")
    last = made("three stages", folder=tmp_path, resume=True)
    last.fit(4)
    check_close(summary(last), whole)
    for epoch in made("two stages", folder=tmp_path / "copy", save_every=1, keep_last=9).epochs(4):
        assert epoch.number == 4
    newest = max((tmp_path / "copy").glob("step-*"))
    newest.unlink()  # now the newest is in the middle of an epoch
    with pytest.raises(InputError, match="has counted no accuracy so far in its epoch") as caught:
        made("alone", folder=tmp_path / "copy", resume=True, accuracy=("o", "y"))
    assert caught.value.hint == "accuracy=None, which goes on without"
    made("alone", folder=tmp_path / "copy", resume=True).fit(4)
    with pytest.raises(InputError, match="is of another model"):
        made("two stages", "sgd", folder=tmp_path, resume=True)


@pytest.mark.slow
def test_a_trainer_searches_for_the_split_of_its_step(tmp_path: Path) -> None:
    trainer = made("alone", devices=training_program.cr.Devices.cpu(2), folder=tmp_path)
    assert trainer.split is not None and trainer.split.candidates is not None
    assert trainer.split.ranks <= 2 and trainer.state.shares is None
    trainer.fit(2)
    check_close(summary(trainer), trained("alone", 2))
    again = made("alone", folder=tmp_path, resume=True)  # without a split
    assert again.split is None and again.epoch == 2
    pinned = made("alone", devices=training_program.cr.Devices.cpu(2), micro_batches=4)
    assert pinned.split is not None and pinned.split.parts.count == 4
    counted = made("alone", devices=2, micro_batches=4)
    assert counted.split is not None and counted.split.candidates == pinned.split.candidates
    with pytest.raises(InputError, match="devices='2' are no devices"):
        made("alone", devices="2")
    with pytest.raises(InputError, match="the number of devices is 0"):
        made("alone", devices=0)
    with pytest.raises(InputError, match="beside a step that is taken in parts or split already"):
        step = training_program.cr.parallel(again.step, micro_batches=6)
        training_program.cr.Trainer(
            step,
            again.state.parameters,
            data=training_program.data(84, 1),
            batch_size=24,
            devices=training_program.cr.Devices.cpu(2),
        )


def test_the_last_batch_of_an_epoch_has_equal_parts_too() -> None:
    with pytest.raises(InputError, match="n = 4 does not split into 6 equal parts") as caught:
        made("two stages", data=training_program.data(100, 1))
    assert "drop_last=True" in caught.value.hint and "divisor of 4" in caught.value.hint


def test_threads_find_where_training_diverged() -> None:
    bad = training_program.data(training_program.ROWS, 1)
    bad["x"][50, 2] = np.nan
    trainer = made("two stages", data=bad, key=training_program.cr.random.key(3))
    with pytest.raises(NonFiniteError) as caught:
        trainer.fit(2)
    assert caught.value.diagnosis is not None and caught.value.diagnosis.value == "x"
    assert np.isfinite(trainer.state["W1"]).all()


def test_batches_that_ranks_share_are_added_in_their_order() -> None:
    """So the measures have the bits of one process; all ranks look for signals equally often."""
    trainer, rows = made("alone", accuracy=("o", "y")), training_program.data(70, 2)
    forward, told, checks = trainer._present(trainer._measured), {}, []

    class Rank:
        """One of three; what the others tell is known beforehand."""

        def __init__(self, rank: int) -> None:
            self.rank, self.count = rank, 3

        def exchange(self, what: str, own: Any, seconds: float = 0.0) -> list[Any]:
            told[self.rank] = as_json(own)
            return [told.get(one, [[], None]) for one in range(3)]

    for rank in range(3):
        job: Any = Rank(rank)
        found = measured(forward, rows, 8, lambda: checks.append(1), job)
        assert len(checks) == 3 * (rank + 1)  # in 9 batches
    whole = measured(forward, rows, 8)
    assert found.objective == whole.objective and found.count == whole.count == 70
    np.testing.assert_array_equal(found.confusion, whole.confusion)
