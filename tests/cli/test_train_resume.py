"""`chainrule train` in a folder that has a training: what goes on, and what is refused."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chainrule.cli import main
from chainrule.cli.training import GRAPH, METRICS, REPORT, WEIGHTS
from chainrule.execute.xla import xla_executor
from chainrule.train.loop.feed import Feed

SMALL = ("--hidden", "8", "--epochs", "3", "--no-report")


def train(folder: Path, *arguments: object) -> Result:
    words = ["train", *SMALL, "--output-folder", folder, *arguments]
    return CliRunner().invoke(main, [str(word) for word in words], prog_name="chainrule")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lines(folder: Path) -> list[dict[str, Any]]:
    """The history, without the times."""
    found = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [{k: v for k, v in one.items() if k not in TIMES} for one in found]


TIMES = ("seconds", "samples_per_second")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a training that is done; nobody changes it."""
    folder = tmp_path_factory.mktemp("whole")
    assert train(folder).exit_code == 0
    return folder


@pytest.fixture
def done(tmp_path: Path, whole: Path) -> None:
    """The test's folder has such a training."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`at_step(50, act)`: act just before the step that comes after 50 others, once."""
    complete = Feed.complete

    def arrange(number: int, act: Any) -> None:
        left = [number]

        def and_act(self: Feed, batch: Any, step: int) -> Any:
            if left == [step]:
                left.clear()
                act()
            return complete(self, batch, step)

        monkeypatch.setattr(Feed, "complete", and_act)

    return arrange


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_stopped_in_the_middle_of_an_epoch_it_goes_on_by_the_command_it_says(
    number: int, status: int, tmp_path: Path, whole: Path, at_step: Any
) -> None:
    folder = tmp_path / "a run"
    at_step(59, lambda: signal.raise_signal(number))
    stopped = train(folder, "--seed", 0)
    assert stopped.exit_code == status
    said = re.fullmatch(r"\nstopped after step 60 \(epoch 2\); to go on:\n  (.*)\n", stopped.stderr)
    assert said, stopped.stderr
    command = shlex.split(said[1])
    given = {*SMALL, "--output-folder", str(folder), "--seed", "0"}
    assert command[:2] == ["chainrule", "train"] and command[-1] == "--resume"
    assert set(command[2:-1]) == given and len(command) == 12
    assert not (folder / WEIGHTS).exists()
    went_on = CliRunner().invoke(main, command[1:], prog_name="chainrule")
    assert (went_on.exit_code, went_on.stderr) == (0, "")
    assert f"going on from {folder / 'step-000000060.safetensors'}: step 61" in went_on.stdout
    assert "3 epochs of 45 steps, of which 1 were done before" in went_on.stdout
    for name in (WEIGHTS, GRAPH):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert lines(folder) == lines(whole) and len(lines(folder)) == 3


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_a_second_ctrl_c_stops_at_once_and_says_the_same(tmp_path: Path, at_step: Any) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    at_step(50, twice)
    stopped = train(tmp_path)
    assert stopped.exit_code == 130
    assert "to go on:\n  chainrule train" in stopped.stderr
    assert train(tmp_path, "--resume").exit_code == 0


@pytest.mark.slow
def test_more_epochs_go_on_from_the_end(tmp_path: Path, whole: Path) -> None:
    assert train(tmp_path / "whole", "--epochs", 4).exit_code == 0
    shutil.copytree(whole, tmp_path / "run")
    assert train(tmp_path / "run", "--epochs", 4, "--resume").exit_code == 0
    assert contents(tmp_path / "run")[WEIGHTS] == contents(tmp_path / "whole")[WEIGHTS]


@pytest.mark.usefixtures("done")
def test_a_training_that_is_done_is_told_again(tmp_path: Path) -> None:
    weights = (tmp_path / WEIGHTS).read_bytes()
    again = train(tmp_path, "--epochs", 2, "--resume")
    assert again.exit_code == 0 and "nothing to do: 3 epochs are done" in again.stdout
    assert (tmp_path / WEIGHTS).read_bytes() == weights
    assert json.loads((tmp_path / METRICS).read_text())["settings"]["epochs"] == 3


@pytest.mark.usefixtures("done")
def test_a_folder_that_has_a_training_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    before = contents(tmp_path)
    refused = train(tmp_path)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"there is a training in {tmp_path} already: step-000000135.safeten" in refused.stderr
    assert "try: --resume, which goes on with it; or another folder" in refused.stderr
    assert contents(tmp_path) == before


@pytest.mark.parametrize("exists", [False, True])
def test_where_there_is_nothing_to_go_on_with_that_is_said(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "run"
    if exists:
        folder.mkdir()
    refused = train(folder, "--resume")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"there is no training in {folder} to go on with" in refused.stderr
    assert "try: without --resume it begins one; or --output-folder FOLDER" in refused.stderr
    assert folder.exists() == exists and (not exists or not contents(folder))


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--hidden", 9), "is of another model"),
        (("--bias",), "is of another model"),
        (("--seed", 1), "the training in"),
        (("--batch", 16), "batch_size is 32 there and 16 here"),
        (("--test-fraction", 0.3), "data.x is float32[1438, 64] there and float32[1258, 64] here"),
    ],
)
def test_other_options_are_refused(tmp_path: Path, arguments: Any, told: str) -> None:
    before = contents(tmp_path)
    refused = train(tmp_path, *arguments, "--resume")
    assert (refused.exit_code, refused.stdout) == (2, "") and told in refused.stderr
    assert "try: the options with which it began; or another folder" in refused.stderr
    after = contents(tmp_path)
    assert {**after, ".lock": b""} == {**before, ".lock": b""}


def test_a_training_that_diverged_goes_on_with_a_smaller_rate(tmp_path: Path) -> None:
    diverged = train(tmp_path, "--learning-rate", 1e30)
    assert diverged.exit_code == 1
    assert "training diverged: the objective is nan in step 2 (epoch 1, batch 2)" in diverged.stderr
    assert re.search("o = h @ W2 became -?inf in the forward pass", diverged.stderr)
    assert "try: a learning rate smaller than 1e+30" in diverged.stderr
    assert "with --resume it goes on before the bad step" in diverged.stderr
    saved = sorted(path.name for path in tmp_path.glob("step-*"))
    assert saved == ["step-000000000.safetensors", "step-000000001.safetensors"]


@pytest.mark.usefixtures("done")
@pytest.mark.filterwarnings("default")
def test_a_damaged_checkpoint_is_passed_over_with_a_warning_of_one_line(tmp_path: Path) -> None:
    weights = (tmp_path / WEIGHTS).read_bytes()
    newest = tmp_path / "step-000000135.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    again = train(tmp_path, "--resume")
    assert again.exit_code == 0
    (line,) = again.stderr.splitlines()
    assert line.startswith("warning: ") and newest.name in line
    assert (tmp_path / WEIGHTS).read_bytes() == weights


@pytest.mark.usefixtures("done")
@pytest.mark.filterwarnings("default")
def test_checkpoints_that_are_all_damaged_end_with_1(tmp_path: Path) -> None:
    for path in tmp_path.glob("step-*"):
        path.write_bytes(b"")
    refused = train(tmp_path, "--resume")
    assert refused.exit_code == 1
    assert re.search(r"none of the \d checkpoints in .* can be read", refused.stderr)


@pytest.mark.usefixtures("done")
def test_a_folder_in_which_another_process_trains_is_refused(tmp_path: Path) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from chainrule.train.checkpoints.lock import FolderLock\n"
        "lock = FolderLock(Path(sys.argv[1]))\nprint('held', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        refused = train(tmp_path, "--resume")
        other.kill()
    assert refused.exit_code == 1
    assert f"in use by another training: process {other.pid}" in refused.stderr


def test_the_report_is_a_page_with_the_curves_and_can_be_left_out(tmp_path: Path) -> None:
    assert not (tmp_path / REPORT).exists()
    result = train(tmp_path, "--report")
    assert result.exit_code == 0
    assert f"report      {tmp_path / REPORT}: one more step, for a browser" in result.stdout
    page = (tmp_path / REPORT).read_text("utf-8")
    packed = re.search(r'id="data">([^<]+)<', page)
    assert packed
    curves = json.loads(gzip.decompress(base64.b64decode(packed[1])))["curves"]
    shown = {one["label"]: one["values"] for one in curves["series"]}
    assert shown["validation_accuracy"] == [one["validation_accuracy"] for one in lines(tmp_path)]
    without = train(tmp_path / "without")
    assert REPORT not in without.stdout and not (tmp_path / "without" / REPORT).exists()


def test_a_report_that_cannot_be_written_costs_no_weights(tmp_path: Path) -> None:
    (tmp_path / REPORT).mkdir()
    result = train(tmp_path, "--report")
    assert result.exit_code == 1 and f"cannot write to {tmp_path / REPORT}" in result.stderr
    assert (tmp_path / WEIGHTS).exists() and (tmp_path / METRICS).exists()


def test_an_executor_that_cannot_run_here_is_refused_before_there_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xla_executor, "refusal", lambda: "xla needs JAX")
    done = train(tmp_path / "run", "--executor", "xla")
    assert done.exit_code == 2 and not (tmp_path / "run").exists()
    assert "xla needs JAX\n  try: --executor reference, which runs everywhere" in done.output
