import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors import safe_open

import chainrule as cr
from chainrule.cli import files, main
from chainrule.cli.training import GRAPH, METRICS, REPORT, WEIGHTS
from chainrule.examples.digits import Settings, begin, evaluate

HISTORY, LAST = "history.jsonl", "step-000001350.safetensors"


def call(*arguments: object, folder: Path | None = None) -> Result:
    where = [] if folder is None else ["--output-folder", folder]
    return CliRunner().invoke(main, [str(argument) for argument in (*arguments, *where)])


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.slow
def test_the_defaults_reach_95_percent_and_the_files_say_so(tmp_path: Path):
    folder = tmp_path / "new" / "run"
    result = call("train", folder=folder)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "digits: 1438 images to train, 359 to test; network 64 - 64 - 10, 4736 parameters"
    )
    epochs = [line for line in lines if line.startswith("epoch")]
    assert len(epochs) == Settings.epochs and "" not in lines  # a bar would leave one
    measured = r"objective \d\.\d{4}  accuracy \d\d\.\d%"
    first = rf"epoch  1/30  {measured}  validation {measured}  [\d,]+ samples/s"
    assert re.fullmatch(first, epochs[0])
    metrics = json.loads((folder / METRICS).read_text())
    assert metrics["test_accuracy"] >= 0.95
    assert f"test {metrics['test_accuracy']:.2%}" in result.stdout
    assert f"objective   {metrics['objective']:.4f}" in result.stdout
    files = {WEIGHTS, GRAPH, METRICS, REPORT, HISTORY}
    for name in files:
        assert f"{folder / name}" in result.stdout
    assert "  update    W1_next W2_next" in lines
    written = {path.name for path in folder.iterdir()}
    checkpoints = {name for name in written if name.startswith("step-")}
    assert written - checkpoints == {*files, ".lock"} and max(checkpoints) == LAST
    history = [json.loads(line) for line in (folder / HISTORY).read_text().splitlines()]
    assert [line["epoch"] for line in history] == list(range(1, 31))
    assert history[-1]["validation_accuracy"] == metrics["test_accuracy"]
    assert metrics["seconds"] == sum(line["seconds"] for line in history)


def test_the_weights_reproduce_the_printed_accuracy(tmp_path: Path):
    assert call("train", "--epochs", 2, "--bias", folder=tmp_path).exit_code == 0
    metrics = json.loads((tmp_path / METRICS).read_text())
    file_of = tmp_path / WEIGHTS
    with safe_open(file_of, framework="numpy") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}
        metadata = json.loads(json.loads(file.metadata()["chainrule"])["rest"])
    assert all(np.array_equal(weights[name], w) for name, w in cr.load_weights(file_of).items())
    assert set(weights) == {"W1", "W2", "b"}
    del metrics["seconds"]
    assert metadata == metrics
    assert metrics["parameters"] == sum(array.size for array in weights.values())
    training = begin(Settings(**metadata["settings"]))
    assert evaluate(training.forward, weights, training.test)[1] == metrics["test_accuracy"]
    objective, accuracy = evaluate(training.forward, weights, training.train)
    assert (objective, accuracy) == (metrics["objective"], metrics["train_accuracy"])


def test_the_graph_that_is_written_is_that_of_the_step(tmp_path: Path):
    call("train", "--epochs", 1, "--learning-rate", 0.25, folder=tmp_path)
    text = (tmp_path / GRAPH).read_text()
    assert "learning_rate: weak float64[] = 0.25" in text
    for line in (
        r"  h: float32\[n, hidden\] = maximum\(",
        r"  dJ/dh: .* backward",
        "W1_next.*update",
    ):
        assert re.search(line, text)
    assert text.endswith("return J, W1_next, W2_next, correct_next\n")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path):
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, seed in zip(folders, (7, 7, 8), strict=True):
        assert call("train", "--epochs", 1, "--seed", seed, folder=folder).exit_code == 0
    a, b, c = (digest(folder / WEIGHTS) for folder in folders)
    assert a == b != c
    assert digest(folders[0] / GRAPH) == digest(folders[1] / GRAPH)


def test_quiet_prints_only_what_came_out(tmp_path: Path):
    result = call("train", "--epochs", 1, "--quiet", folder=tmp_path)
    assert result.exit_code == 0
    assert result.stdout.startswith("objective")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--hidden", 0), "hidden is an integer of at least 1, got 0"),
        (("--hidden", "wide"), "'wide' is not a valid integer"),
        (("--hidden", 10**12), "not enough memory"),
        (("--batch", 1439), "a batch of 1439 is larger than the training data: 1438 rows"),
        (("--epochs", 0), "epochs is an integer of at least 1, got 0"),
        (("--learning-rate", -0.5), "learning rate is a finite number above 0, got -0.5"),
        (("--learning-rate", "nan"), "learning rate is a finite number above 0, got nan"),
        (("--weight-decay", -1), "weight decay is a finite number of at least 0, got -1"),
        (("--seed", -1), "seed is an integer of at least 0, got -1"),
        (("--test-fraction", 0.0001), "0.0001 of 1797 rows is 0 for testing"),
        (("--speed", 3), "No such option"),
    ],
)
def test_bad_values_are_refused_before_anything_is_written(tmp_path: Path, arguments, message):
    result = call("train", *arguments, folder=tmp_path / "run")
    assert result.exit_code == 2
    assert message in result.stderr and result.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("folder", ["file", "file/inside"])
def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path: Path, folder: str):
    (tmp_path / "file").write_text("kept")
    result = call("train", folder=tmp_path / folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"cannot write to the folder {tmp_path / folder}" in result.stderr
    assert "try: another one, --output-folder FOLDER" in result.stderr
    assert (tmp_path / "file").read_text() == "kept"


def test_training_that_diverges_ends_with_1_and_writes_no_weights(tmp_path: Path):
    result = call("train", "--learning-rate", 1e30, "--quiet", folder=tmp_path / "run")
    assert result.exit_code == 1
    assert re.search(r"training diverged: the objective is \w+ in step \d+", result.stderr)
    assert "try: a learning rate smaller than 1e+30" in result.stderr
    assert not (tmp_path / "run" / WEIGHTS).exists()


def test_results_that_cannot_be_renamed_leave_no_pieces(tmp_path: Path):
    (tmp_path / GRAPH).mkdir()
    result = call("train", "--epochs", 1, folder=tmp_path)
    assert result.exit_code == 1
    assert "cannot write to the folder" in result.stderr
    assert not [path for path in tmp_path.iterdir() if "partial" in path.name]


def test_older_results_are_replaced_and_other_files_stay(tmp_path: Path):
    (tmp_path / WEIGHTS).write_text("old")
    (tmp_path / "other").write_text("kept")
    assert call("train", "--epochs", 1, folder=tmp_path).exit_code == 0
    assert (tmp_path / WEIGHTS).stat().st_size > 4736 * 4
    assert (tmp_path / "other").read_text() == "kept"


def test_an_interrupted_command_ends_with_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("chainrule.cli.training.trainer_of", interrupt)
    result = call("train", folder=tmp_path / "a" / "run")
    assert result.exit_code == 130
    assert "stopped by Ctrl-C; files are written only at the end" in result.stderr
    assert not list(tmp_path.iterdir())


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1"}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_ends_the_real_command_with_130(tmp_path: Path):
    # a shell that starts jobs in the background has them ignore the signal, and so their children
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    start = f"{heed}; from chainrule.cli import main; main()"
    command = [sys.executable, "-c", start, "train", "--epochs", "1000000"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("epoch"):
                break
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    place = r"\nstopped after step (\d+) \(epoch \d+\); to go on:\n"
    said = re.fullmatch(place + r"  .* train --epochs 1000000 --resume\n", errors)
    assert said, errors
    checkpoint = tmp_path / "chainrule-run" / f"step-{int(said[1]):09}.safetensors"
    assert checkpoint.exists() and not (tmp_path / "chainrule-run" / WEIGHTS).exists()


@pytest.mark.slow
def test_the_command_is_also_a_module():
    command = [sys.executable, "-m", "chainrule", "--version"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert f"chainrule {cr.__version__}" in done.stdout


@pytest.mark.slow
def test_help_imports_nothing_that_only_training_needs():
    program = (
        "import sys; from chainrule.cli import main; main(['--help'], standalone_mode=False); "
        "print([m for m in ('rich', 'safetensors', 'json.tool', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_command_imports_no_other():
    program = (
        "import sys; from chainrule.cli import main; "
        "main(['run', '--help'], standalone_mode=False); "
        "print(sorted(m for m in sys.modules if m.startswith('chainrule.cli.')), "
        "'chainrule.train' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "['chainrule.cli.ending', 'chainrule.cli.run'] False"


def test_help_explains_every_option_with_its_default():
    text = " ".join(call("train", "--help").stdout.split())
    for option in main.get_command(None, "train").params:
        assert option.help, option.name
        assert option.opts[0] in text
    for name in ("hidden", "learning_rate", "weight_decay", "batch", "epochs", "seed"):
        assert f"[default: {getattr(Settings, name)}]" in text
    assert "[default: chainrule- run]" in text or "[default: chainrule-run]" in text


def test_files_appear_whole_or_not_at_all(tmp_path: Path):
    with files.usable_folder(tmp_path / "run"):
        files.write_files(tmp_path / "run", {"a": b"1", "b": b"2"})
    assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()} == {"a": b"1", "b": b"2"}


@pytest.mark.slow
def test_a_bar_is_drawn_only_where_someone_watches(tmp_path: Path, monkeypatch):
    pty = pytest.importorskip("pty")
    outputs = {}
    for ci in ("true", "false"):
        lead, follow = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "chainrule", "train", "--epochs", "1", "--no-report"],
            cwd=tmp_path,
            env={**environment(), "CI": ci, "TERM": "xterm"},
            stdout=follow,
        ) as process:
            os.close(follow)
            shown = b""
            try:
                while part := os.read(lead, 65536):
                    shown += part
            except OSError:  # Linux's way to say that the other end is closed
                pass
        os.close(lead)
        assert process.returncode == 0
        outputs[ci] = shown.decode()
        shutil.rmtree(tmp_path / "chainrule-run")
    assert "\x1b[" in outputs["false"] and "\x1b[" not in outputs["true"]
    for text in outputs.values():
        assert "epoch 1/1  objective" in text and "samples/s" in text
