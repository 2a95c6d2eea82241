"""`chainrule predict`: files of images, and the weights of `chainrule train`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors import safe_open
from safetensors.numpy import save_file

import chainrule as cr
from chainrule.cli import main
from chainrule.cli.training import METRICS, WEIGHTS
from chainrule.data import digits
from chainrule.examples.digits import Settings, begin
from chainrule.examples.mlp import initial_weights

IMAGES = digits().images


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a network with a bias was trained."""
    folder = tmp_path_factory.mktemp("run")
    words = ["train", "--epochs", "3", "--bias", "--quiet", "--no-report"]
    done = CliRunner().invoke(main, [*words, "--output-folder", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="module")
def scores(run: Path) -> np.ndarray:
    """Of all images, computed here."""
    w = cr.load_weights(run / WEIGHTS)
    return np.maximum(IMAGES @ w["W1"] + w["b"], 0) @ w["W2"]


def predict(run: Path, data: Path, *arguments: object) -> Result:
    words = ["predict", "--weights", run / WEIGHTS, "--data", data, *arguments]
    return CliRunner().invoke(main, [str(word) for word in words])


def numbers(text: str) -> list[int]:
    return [int(line) for line in text.splitlines()]


def pixels() -> np.ndarray:
    return np.rint(IMAGES * 16).astype(np.uint8)


def write_csv(path: Path, array: np.ndarray, delimiter: str = ",") -> None:
    names = delimiter.join(f"pixel{i}" for i in range(array.shape[1]))
    np.savetxt(path, array, "%s", delimiter, header=names, comments="")


def write_idx(path: Path, array: np.ndarray) -> None:
    sizes = np.array(array.shape, ">u4").tobytes()
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())


def write_parquet(path: Path, array: np.ndarray) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    columns = {f"pixel{i}": array[:, i] for i in range(array.shape[1])}
    parquet.write_table(pyarrow.table(columns), path)


def npy(array: np.ndarray) -> Callable[[Path], Any]:
    return lambda path: np.save(path, array)


WRITERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "npy": ("x.npy", npy(IMAGES)),
    "npy of float64": ("x.npy", npy(IMAGES.astype(np.float64))),
    "npy of pixels": ("x.npy", npy(pixels())),
    "npy of images": ("x.npy", npy(IMAGES.reshape(-1, 8, 8))),
    "npz of one": ("x.npz", lambda path: np.savez(path, images=IMAGES)),
    "npz with labels": ("x.npz", lambda path: np.savez(path, images=IMAGES, y=digits().labels)),
    "npz with x": ("x.npz", lambda path: np.savez(path, a=np.ones((2, 3)), x=IMAGES)),
    "csv of pixels": ("x.csv", lambda path: write_csv(path, pixels())),
    "csv of floats": ("x.csv", lambda path: write_csv(path, IMAGES)),
    "idx": ("x.idx", lambda path: write_idx(path, pixels().reshape(-1, 8, 8))),
    "idx of mnist's name": ("t10k-images-idx3-ubyte", lambda path: write_idx(path, pixels())),
    "parquet": ("x.parquet", lambda path: write_parquet(path, IMAGES)),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_gives_the_classes(
    kind: str, run: Path, scores: np.ndarray, tmp_path: Path
) -> None:
    name, write = WRITERS[kind]
    write(tmp_path / name)
    done = predict(run, tmp_path / name)
    assert (done.exit_code, done.stderr) == (0, "")
    assert numbers(done.stdout) == scores.argmax(axis=1).tolist()


def test_the_accuracy_on_held_out_images_is_the_one_that_training_told(
    run: Path, tmp_path: Path
) -> None:
    metrics = json.loads((run / METRICS).read_text())
    test = begin(Settings(**metrics["settings"])).test
    np.save(tmp_path / "x.npy", test.x)
    found = numbers(predict(run, tmp_path / "x.npy").stdout)
    assert np.mean(np.array(found) == test.y) == metrics["test_accuracy"] > 0.85


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".txt", ".NPY"])
def test_classes_and_scores_are_written_by_the_suffix(
    suffix: str, run: Path, scores: np.ndarray, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", IMAGES)
    classes, values = tmp_path / f"classes{suffix}", tmp_path / f"scores{suffix}"
    for output, more in ((classes, ()), (values, ("--scores",))):
        output.write_text("old")
        done = predict(run, tmp_path / "x.npy", "-o", output, *more)
        assert (done.exit_code, done.output) == (0, "")
    if suffix == ".csv":
        found, rows = cr.data.read_csv(classes)["class"], cr.data.read_csv(values)
        assert list(rows) == [f"score_{i}" for i in range(10)]
        table = np.stack(list(rows.values()), axis=1).astype(np.float32)
    elif suffix == ".txt":
        found, table = np.loadtxt(classes, int), np.loadtxt(values, np.float32)
    else:
        found, table = np.load(classes), np.load(values)
        assert found.dtype == np.int64 and table.dtype == np.float32
    assert np.array_equal(found, scores.argmax(axis=1))
    np.testing.assert_allclose(table, scores, rtol=1e-5, atol=1e-5)  # sums of 64 in another order
    assert len(list(tmp_path.iterdir())) == 3


def test_scores_are_printed_ten_a_line(run: Path, scores: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IMAGES[:3])
    done = predict(run, tmp_path / "x.npy", "--scores")
    found = [[float(one) for one in line.split()] for line in done.stdout.splitlines()]
    np.testing.assert_allclose(found, scores[:3], rtol=1e-5, atol=1e-5)


def with_value(value: float, at: tuple[int, int] = (1500, 17), kind: Any = np.float32) -> Any:
    array = (pixels() if np.dtype(kind).kind in "iu" else IMAGES).astype(kind)
    array[at] = value
    return array


WRONG: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "nan": (
        "x.npy",
        npy(with_value(np.nan)),
        "x.npy: row 1500, column 17, both from 0, is nan, and floats are between 0 (paper) and 1",
    ),
    "too large": (
        "x.npy",
        npy(IMAGES * 16),
        "floats are between 0 (paper) and 1 (ink)\n  try: divide by the largest pixel: 16",
    ),
    "negative": (
        "x.npy",
        npy(with_value(-1, kind=np.int16)),
        "row 1500, column 17, both from 0, is -1, and integers are pixels between 0 and 16",
    ),
    "in a table": (
        "x.csv",
        lambda path: write_csv(path, with_value(255, (3, 63), np.int64)),
        "x.csv: row 3, column 63 ('pixel63'), both from 0, is 255",
    ),
    "63 features": (
        "x.npy",
        npy(IMAGES[:, 1:]),
        "x.npy: an array of shape [1797, 63] is not rows of 64 numbers, or of 8 x 8",
    ),
    "one image": ("x.npy", npy(IMAGES[0]), "an array of shape [64] is not rows of 64 numbers"),
    "65 columns": (
        "x.csv",
        lambda path: write_csv(path, np.ones((2, 65), int)),
        "65 arrays or columns, not rows of 64 numbers",
    ),
    "two arrays": (
        "x.npz",
        lambda path: np.savez(path, a=IMAGES, b=IMAGES),
        "2 arrays or columns, not rows of 64 numbers, or of 8 x 8: a [1797, 64], b",
    ),
    "texts": (
        "x.csv",
        lambda path: path.write_text(
            ",".join(f"p{i}" for i in range(64)) + "\n" + "0," * 63 + "ink\n"
        ),
        "column 'p63' is not of numbers: row 0 has 'ink'",
    ),
    "booleans": ("x.npy", npy(IMAGES > 0.5), "the array is not of numbers: row 0 has bool"),
    "no rows": ("x.npy", npy(IMAGES[:0]), "there are no rows to predict"),
    "empty": ("x.npy", lambda path: path.write_bytes(b""), "x.npy: the header is not that"),
    "cut off": ("x.idx", lambda path: path.write_bytes(b"\0\0\x08\x02\0\0"), "ends in the header"),
    "a promise": (
        "x.idx",
        lambda path: path.write_bytes(b"\0\0\x0d\x02" + b"\x3b\x9a\xca\0\0\0\0\x40" + bytes(1000)),
        "promises float32[1000000000, 64]",
    ),
    "no file": ("x.npy", lambda path: None, "x.npy: there is no such file"),
    "another kind": ("x.png", lambda path: path.write_bytes(b"1"), "the file extension is unknown"),
}


@pytest.mark.parametrize("case", WRONG)
def test_data_that_are_no_images_are_explained(case: str, run: Path, tmp_path: Path) -> None:
    name, write, told = WRONG[case]
    write(tmp_path / name)
    done = predict(run, tmp_path / name, "-o", tmp_path / "out.npy")
    assert (done.exit_code, done.stdout) == (1, "")
    assert told in done.stderr and "\n  try: " in done.stderr
    assert not (tmp_path / "out.npy").exists()


def changed(change: Callable[[Any, Any], Any]) -> Callable[[Path, Path], None]:
    """Writes the weights of the run after a change of arrays and notes, with a new checksum."""
    from chainrule.train.checkpoints import file

    def write(run: Path, path: Path) -> None:
        with safe_open(run / WEIGHTS, framework="numpy") as opened:
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}
            notes = json.loads(json.loads(opened.metadata()["chainrule"])["rest"])
        change(arrays, notes)
        text = json.dumps(notes)
        entry = {"rest": text, "sha256": file.checksum(text, arrays)}
        save_file(arrays, path, {"chainrule": json.dumps(entry)})

    return write


def flipped(run: Path, path: Path) -> None:
    content = bytearray((run / WEIGHTS).read_bytes())
    content[-1000] ^= 1
    path.write_bytes(content)


BAD: dict[str, tuple[Callable[[Path, Path], Any], str]] = {
    "a flipped bit": (flipped, "are damaged: the checksum differs"),
    "cut off": (
        lambda run, path: path.write_bytes((run / WEIGHTS).read_bytes()[:-1]),
        "cannot be read: ",
    ),
    "not safetensors": (
        lambda run, path: path.write_bytes(b"\x93NUMPY" + bytes(200)),
        "cannot be read: ",
    ),
    "empty": (lambda run, path: path.write_bytes(b""), "cannot be read: "),
    "a header of 10^18 bytes": (
        lambda run, path: path.write_bytes((10**18).to_bytes(8, "little") + b"{}"),
        "cannot be read: ",
    ),
    "missing": (lambda run, path: None, "there is no file of weights"),
    "without notes": (
        lambda run, path: save_file(initial_weights((64, 8, 10), 0), path),
        "are not those of a network of `chainrule train`: they have W1, W2, and do not say so",
    ),
    "of save_weights": (
        lambda run, path: cr.save_weights(path, {"W": np.ones(3)}),
        "are not those of a network of `chainrule train`: they have W",
    ),
    "other notes": (
        changed(lambda arrays, notes: notes.update(data="faces")),
        "are not those of a network of `chainrule train`",
    ),
    "another width": (
        changed(lambda arrays, notes: notes["settings"].update(hidden=65)),
        "do not fit the network that they say they are of, {",
    ),
    "no settings": (
        changed(lambda arrays, notes: notes.pop("settings")),
        "do not fit the network that they say they are of, None",
    ),
    "without bias": (
        changed(lambda arrays, notes: arrays.pop("b")),
        "W1 float32[64, 64], W2 float32[64, 10]",
    ),
    "another type": (
        changed(lambda arrays, notes: arrays.update(b=np.zeros(64))),
        "b float64[64]",
    ),
    "nan": (
        changed(lambda arrays, notes: arrays["W2"].__setitem__((3, 4), np.nan)),
        "are not finite: W2[3, 4] is nan",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_weights_of_something_else_are_refused(case: str, run: Path, tmp_path: Path) -> None:
    write, told = BAD[case]
    (tmp_path / "run").mkdir()
    write(run, tmp_path / "run" / WEIGHTS)
    np.save(tmp_path / "x.npy", IMAGES)
    done = predict(tmp_path / "run", tmp_path / "x.npy")
    assert (done.exit_code, done.stdout) == (1, "")
    assert told in done.stderr and "\n  try: " in done.stderr


def test_flipping_any_byte_of_the_weights_is_an_error_or_changes_nothing(
    run: Path, scores: np.ndarray, tmp_path: Path
) -> None:
    """Bytes of the header may be spaces, or names that are not used."""
    content = (run / WEIGHTS).read_bytes()
    np.save(tmp_path / "x.npy", IMAGES[:5])
    random = np.random.default_rng(0)
    refused = 0
    for place in [*range(0, 1600, 40), *random.integers(0, len(content), 40)]:
        changed = bytearray(content)
        changed[place] ^= 1 << int(random.integers(8))
        (tmp_path / WEIGHTS).write_bytes(changed)
        done = predict(tmp_path, tmp_path / "x.npy")
        if done.exit_code:
            assert done.exit_code == 1 and done.stderr.startswith("Error: the weights ")
            refused += 1
        else:
            assert numbers(done.stdout) == scores[:5].argmax(axis=1).tolist()
    assert refused > 60


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("out.png", "predictions cannot be written as .png, asked for by"),
        ("out", "predictions cannot be written as a file without an ending"),
        ("no/out.csv", "there is no folder"),
        ("x.npy", "is also an input file"),
    ],
)
def test_an_output_that_makes_no_sense_is_a_usage_error(
    output: str, told: str, run: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", IMAGES)
    done = predict(run, tmp_path / "x.npy", "-o", tmp_path / output)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_an_output_that_cannot_be_written_ends_with_1(run: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IMAGES)
    (tmp_path / "out.npy").mkdir()
    done = predict(run, tmp_path / "x.npy", "-o", tmp_path / "out.npy")
    assert done.exit_code == 1 and "cannot write to" in done.stderr
    assert len(list(tmp_path.iterdir())) == 2


def test_options_that_are_missing_end_with_2() -> None:
    done = CliRunner().invoke(main, ["predict", "--data", "x.npy"])
    assert done.exit_code == 2 and "Missing option '--weights'" in done.stderr


def test_help_explains_every_option_and_the_data() -> None:
    text = " ".join(CliRunner().invoke(main, ["predict", "--help"]).stdout.split())
    for option in main.get_command(None, "predict").params:
        assert option.opts[0] in text
    assert "floats between 0 (paper) and 1 (ink), or integers between 0 and 16" in text


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_memory_is_that_of_the_data_and_some_rows(run: Path, tmp_path: Path) -> None:
    """28 MB of images; their hidden values would be as much again."""
    np.save(tmp_path / "few.npy", IMAGES)
    np.save(tmp_path / "x.npy", np.tile(IMAGES, (60, 1)))
    program = """
import sys
from pathlib import Path
from chainrule.cli import main

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

def predict(name):
    words = ["--weights", "weights.safetensors", "--data", name, "-o", f"{name}.txt"]
    main(["predict", *words], standalone_mode=False)

predict("few.npy")
before = most()
predict("x.npy")
print(most() - before)
"""
    (tmp_path / WEIGHTS).write_bytes((run / WEIGHTS).read_bytes())
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    nbytes = (tmp_path / "x.npy").stat().st_size
    # the images, their scores float32[n, 10], whose parts are put together, and the lines
    assert 0.9 * nbytes < int(done.stdout) < 1.6 * nbytes, int(done.stdout) / nbytes
    assert len(np.loadtxt(tmp_path / "x.npy.txt")) == 60 * 1797
