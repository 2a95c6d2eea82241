"""`chainrule train --data fashion-mnist`, on files that are small and of the same form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from chainrule.cli import main
from chainrule.data.fashion_mnist import FILES


def idx(array: np.ndarray) -> bytes:
    """An IDX file of bytes."""
    head = bytes([0, 0, 8, array.ndim])
    return head + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def write_files(folder: Path, train: int = 300, test: int = 60) -> Path:
    """Ten kinds of images that can be told apart: one bright stripe each."""
    generator = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    arrays = []
    for count in (train, test):
        labels = np.arange(count, dtype=np.uint8) % 10
        images = generator.integers(0, 60, (count, 28, 28), np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[2 * label : 2 * label + 3] = 250
        arrays += [images, labels]
    for source, array in zip(FILES, arrays, strict=True):
        (folder / source.name).write_bytes(gzip.compress(idx(array)))
    return folder


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["train", *map(str, arguments)])


@pytest.mark.slow
def test_it_learns_with_the_recipes_defaults(tmp_path: Path) -> None:
    files = write_files(tmp_path / "data", train=3000)
    out = tmp_path / "run"
    result = call("--data", "fashion-mnist", "--data-dir", files, "--output-folder", out)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == (
        "fashion-mnist: 3000 images to train, 60 to test; network 784 - 256 - 10 with bias, "
        "203530 parameters"
    )
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["data"] == "fashion-mnist"
    wanted = {"hidden": 256, "learning_rate": 0.1, "weight_decay": 0.0, "batch": 256, "epochs": 10}
    assert metrics["settings"].items() >= wanted.items()
    assert metrics["test_accuracy"] > 0.9
    assert (out / "report.html").is_file()


def test_options_that_are_given_count_and_it_goes_on(tmp_path: Path) -> None:
    files = write_files(tmp_path / "data")
    given = ["--data", "fashion-mnist", "--data-dir", files, "--output-folder", tmp_path / "run"]
    given += ["--hidden", 64, "--batch", 100, "--no-report", "--quiet"]
    assert call(*given, "--epochs", 1).exit_code == 0
    result = call(*given, "--epochs", 2, "--resume")
    assert result.exit_code == 0 and "of which 1 were done before" in result.stdout
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["settings"]["hidden"], metrics["steps"]) == (64, 6)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--data", "fashion-mnist", "--test-fraction", 0.2],
            "--test-fraction: fashion-mnist has its own images to test",
        ),
        (["--data-dir", "."], "--data-dir: the digits are part of the package"),
        (["--download"], "--download: the digits are part of the package"),
    ],
)
def test_options_of_other_data_are_refused(options: list[object], text: str) -> None:
    result = call(*options)
    assert result.exit_code == 2 and text in result.stderr


def test_files_that_are_not_there_are_told_with_three_ways_out(tmp_path: Path) -> None:
    result = call("--data", "fashion-mnist", "--data-dir", tmp_path)
    assert result.exit_code == 2
    assert f"Fashion-MNIST was not found: no {FILES[0].name}" in result.stderr
    assert str(tmp_path) in result.stderr
    for way in ("apt-get install dataset-fashion-mnist", "--download", "--data-dir FOLDER"):
        assert way in result.stderr


def test_predict_says_that_these_weights_are_not_for_digits(tmp_path: Path) -> None:
    files = write_files(tmp_path / "data")
    out = tmp_path / "run"
    given = ["--data", "fashion-mnist", "--data-dir", files, "--output-folder", out]
    assert call(*given, "--epochs", 1, "--no-report").exit_code == 0
    images = tmp_path / "x.npy"
    np.save(images, np.zeros((2, 784), np.float32))
    result = CliRunner().invoke(
        main, ["predict", "--weights", str(out / "weights.safetensors"), "--data", str(images)]
    )
    assert result.exit_code == 1 and "cr.load_weights and cr.predict" in result.stderr
