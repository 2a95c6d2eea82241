"""Prediction: one value of the graph for all rows, from weights that may come from a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import EXECUTORS, data, dropping, plain, trainer, weights

import chainrule as cr
from chainrule import float64
from chainrule.errors import DataFileError, InputError, NameLookupError, ShapeError

EITHER = pytest.mark.parametrize("executor", EXECUTORS)


def scores(x: np.ndarray) -> np.ndarray:
    return np.tanh(x @ weights()["W1"]) @ weights()["W2"]


@EITHER
@pytest.mark.parametrize("objective", [plain, dropping])
@pytest.mark.parametrize("batch_size", [7, 100, 1000])
def test_the_value_is_there_for_every_row_in_order(objective: Any, batch_size: int, executor: str):
    x = data()["x"]
    found = cr.predict(
        objective, weights(), {"x": x}, "o", batch_size=batch_size, executor=executor
    )
    np.testing.assert_allclose(found, scores(x), rtol=1e-13, atol=1e-15)


def test_data_may_have_more_than_is_needed_and_come_in_batches(tmp_path: Path):
    given = data()
    np.testing.assert_allclose(cr.predict(plain, weights(), given, "o"), scores(given["x"]), 1e-13)
    batches = cr.data.minibatches(given, 30, shuffle=False)
    found = cr.predict(plain, weights(), batches, "h")
    np.testing.assert_allclose(found, np.tanh(given["x"] @ weights()["W1"]), 1e-13)
    np.save(tmp_path / "x.npy", given["x"])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        cr.predict(plain, weights(), {"x": mapped}, "h", batch_size=30), found
    )


def test_a_trainer_predicts_scores_if_it_knows_them():
    made = trainer(dropping, accuracy=("o", "y"))
    x = data()["x"]
    for found in (made.predict(x=x), made.predict({"x": x}), made.predict({"x": x}, output="o")):
        np.testing.assert_allclose(found, scores(x), rtol=1e-13, atol=1e-15)
    assert made.predict(x=x, output="h").shape == (100, 7)


@pytest.mark.parametrize(
    ("provoke", "kind", "told"),
    [
        (
            lambda: cr.predict(plain, weights(), data(), "J"),
            ShapeError,
            "J has no row for each row",
        ),
        (
            lambda: cr.predict(plain, weights(), data(), "W1"),
            InputError,
            "W1 of plain needs no data",
        ),
        (lambda: cr.predict(plain, weights(), data(), "p"), NameLookupError, "p"),
        (lambda: cr.predict(plain, weights(), {"y": data()["y"]}, "o"), InputError, "lack x"),
        (lambda: cr.predict(plain, weights(), {"X": data()["x"]}, "o"), InputError, "have 'X'"),
        (lambda: cr.predict(plain, weights(), data(0), "o"), InputError, "have no batches"),
        (lambda: cr.predict(plain, {}, data(), "o"), InputError, "lack W1, W2"),
    ],
)
def test_what_cannot_be_predicted_is_explained(provoke: Any, kind: type[Exception], told: str):
    with pytest.raises(kind) as caught:
        provoke()
    error: Any = caught.value
    assert told in error.what


# Weights in files -----------------------------------------------------------------------------


def test_weights_are_loaded_in_one_line_as_they_were_saved(tmp_path: Path):
    made = trainer(optimizer=cr.adam(0.01))
    made.fit(1)
    path = made.save_weights(tmp_path / "weights.safetensors")
    loaded = cr.load_weights(path)
    assert sorted(loaded) == ["W1", "W2"]
    for name, array in loaded.items():
        assert array.tobytes() == made.state[name].tobytes() and array.flags.writeable
    found = cr.predict(plain, loaded, {"x": data()["x"]}, "o")
    np.testing.assert_allclose(found, made.predict(x=data()["x"], output="o"), 1e-13)
    again = cr.Trainer(plain, loaded, cr.adam(0.01), data(), progress=False)
    assert again.state["W1"].tobytes() == made.state["W1"].tobytes()


def test_containers_are_saved_by_the_paths_of_their_parts(tmp_path: Path):
    path = tmp_path / "weights.safetensors"
    cr.save_weights(path, {"params": {"W": np.ones((2, 3)), "b": [np.zeros(3), 2.5]}})
    loaded = cr.load_weights(path)
    assert sorted(loaded) == ["params.W", "params.b[0]", "params.b[1]"]
    assert loaded["params.b[1]"] == 2.5


def test_the_parameters_of_a_trainers_checkpoint_are_loaded_alone(tmp_path: Path):
    made = trainer(optimizer=cr.adam(0.01), folder=tmp_path, accuracy=("o", "y"))
    made.fit(1)
    loaded = cr.load_weights(max(tmp_path.glob("*.safetensors")))
    assert sorted(loaded) == ["W1", "W2"]
    assert loaded["W1"].tobytes() == made.state["W1"].tobytes()


def test_all_arrays_of_another_checkpoint_are_loaded(tmp_path: Path):
    step = cr.training_step(plain, ("W1", "W2"), cr.adam(0.01))
    with cr.Checkpoints(tmp_path, step) as checkpoints:
        path = checkpoints.save(step.init(weights()))
    assert sorted(cr.load_weights(path)) == sorted(step.init(weights()))


def test_a_safetensors_file_of_somebody_else_is_loaded(tmp_path: Path):
    from safetensors.numpy import save_file

    path = tmp_path / "weights.safetensors"
    for metadata in (None, {"format": "pt"}, {"chainrule": json.dumps({"epochs": 3})}):
        save_file({"w": np.arange(3.0)}, path, metadata)
        assert cr.load_weights(path)["w"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("damage", ["cut", "flipped", "text", "header", "empty"])
def test_a_damaged_file_is_told(tmp_path: Path, damage: str):
    path = cr.save_weights(tmp_path / "weights.safetensors", weights())
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[-3] ^= 4
    changed = {
        "cut": bytes(content[:-7]),
        "flipped": bytes(content),
        "text": b"these are no weights",
        "header": (10**9).to_bytes(8, "little") + b"{}",
        "empty": b"",
    }[damage]
    path.write_bytes(changed)
    with pytest.raises(DataFileError) as caught:
        cr.load_weights(path)
    assert str(path) in caught.value.what
    assert ("checksum" in caught.value.what) == (damage == "flipped")


def test_what_is_no_file_or_no_array_is_told(tmp_path: Path):
    with pytest.raises(DataFileError, match="there is no file of weights"):
        cr.load_weights(tmp_path / "missing.safetensors")
    with pytest.raises(DataFileError, match="is a folder, and no file of weights"):
        cr.load_weights(tmp_path)
    with pytest.raises(InputError, match="W is no array of numbers"):
        cr.save_weights(tmp_path / "w.safetensors", {"W": "text"})
    with pytest.raises(InputError, match="weights are arrays by name, got ndarray"):
        cr.save_weights(tmp_path / "w.safetensors", np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(DataFileError, match="cannot be written"):
        cr.save_weights(tmp_path / "no" / "w.safetensors", weights())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="pipes with names")
def test_weights_go_where_a_link_leads_and_replace_no_pipe(tmp_path: Path):
    link = tmp_path / "link.safetensors"
    link.symlink_to("w.safetensors")
    cr.save_weights(link, weights())
    assert link.is_symlink() and cr.load_weights(tmp_path / "w.safetensors").keys() == {"W1", "W2"}
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataFileError, match="cannot be written: it is a pipe or a device, not a"):
        cr.save_weights(tmp_path / "pipe", weights())
    assert (tmp_path / "pipe").is_fifo()


def test_big_endian_arrays_are_saved_with_the_same_numbers(tmp_path: Path):
    given = {"W": np.arange(3, dtype=">f4"), "v": np.arange(2, dtype=">i8")}
    found = cr.load_weights(cr.save_weights(tmp_path / "w.safetensors", given))
    for name, array in given.items():
        assert found[name].dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"a": {"b": np.ones(2)}, "a.b": np.zeros(2)}, "two arrays are called 'a.b'"),
        ({"__metadata__": np.ones(2)}, "safetensors keeps that name for its own"),
        ({3: np.ones(2)}, "a name is a string, got int"),
        ({"W\ud800": np.ones(2)}, "half of a surrogate pair"),
    ],
)
def test_names_that_a_file_cannot_have_are_refused(given: Any, told: str, tmp_path: Path):
    with pytest.raises(InputError) as caught:
        cr.save_weights(tmp_path / "w.safetensors", given)
    assert told in caught.value.what
    assert list(tmp_path.iterdir()) == []


@EITHER
def test_a_value_that_only_happens_to_be_as_long_as_a_batch_is_refused(executor: str):
    def objective(x: float64["n 5"], y: float64["n"], w: float64[5]):
        g = x.T @ x
        s = g @ w
        o = x @ w
        J = np.mean((o - y) ** 2) + np.sum(s)
        return J

    x = data()["x"]
    for output, length in (("g", "5, 5"), ("s", "5")):
        with pytest.raises(ShapeError, match=rf"{output} has no row .* float64\[{length}\]"):
            cr.predict(
                objective, {"w": np.ones(5)}, {"x": x}, output, batch_size=5, executor=executor
            )
    found = cr.predict(objective, {"w": np.ones(5)}, {"x": x}, "o", batch_size=5, executor=executor)
    np.testing.assert_allclose(found, x.sum(1), rtol=1e-13, atol=1e-13)
