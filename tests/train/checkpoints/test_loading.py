"""What is loaded is what was saved, to the last bit; what is damaged or of another model is not."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpointing import begin, n, objective, same, step_of, trained
from executors import EITHER

import chainrule as cr
from chainrule import float64
from chainrule.errors import DataFileError, InputError
from chainrule.train.checkpoints import Checkpoints, file
from chainrule.train.checkpoints.folder import DamagedCheckpointWarning


@pytest.mark.sweep(5)
@EITHER
@pytest.mark.parametrize(
    "optimizer",
    [cr.sgd(0.1), cr.sgd(0.1, momentum=0.9, nesterov=True), cr.adam(0.01), cr.adamw(0.01)],
    ids=["sgd", "nesterov", "adam", "adamw"],
)
def test_a_hundred_steps_are_fifty_saved_loaded_and_fifty_more_to_the_last_bit(
    tmp_path: Path, executor: str, optimizer: cr.Optimizer
):
    step = step_of(executor, optimizer)
    whole = trained(step, begin(step), 100)
    half = trained(step, begin(step), 50)
    with Checkpoints(tmp_path, step) as checkpoints:
        checkpoints.save(half, {"epoch": 3})
    again = step_of(executor, optimizer)
    with Checkpoints(tmp_path, again) as checkpoints:
        found = checkpoints.load()
    assert found is not None and found.steps == 50 and found.notes == {"epoch": 3}
    resumed = found.restore(again)
    assert same(resumed, half) and resumed.steps == 50
    assert same(trained(again, resumed, 100), whole)


def test_an_empty_folder_has_no_checkpoint(checkpoints: Checkpoints):
    assert checkpoints.load() is None
    assert checkpoints.best() is None
    assert repr(checkpoints).endswith("run: 0>")


def test_the_last_few_and_the_best_are_kept(tmp_path: Path, step: cr.TrainingStep):
    state = begin(step)
    with Checkpoints(tmp_path, step, keep_last=2, keep_best=1) as checkpoints:
        for score in (5.0, 1.0, 4.0, float("nan"), 3.0, None, 2.0):
            trained(step, state, state.steps + 1)
            checkpoints.save(state, score=score)
        assert [int(path.stem[5:]) for path in checkpoints.paths] == [2, 6, 7]
        best = checkpoints.best()
        assert best is not None and (best.steps, best.score) == (2, 1.0)
        newest = checkpoints.load()
        assert newest is not None and newest.steps == 7


def test_a_training_that_went_on_from_an_earlier_checkpoint_is_the_one_that_is_found(
    checkpoints: Checkpoints, step: cr.TrainingStep
):
    state = begin(step)
    for score in (1.0, 2.0, 3.0):
        checkpoints.save(trained(step, state, state.steps + 10), score=score)
    best = checkpoints.best()
    assert best is not None and best.steps == 10
    again = trained(step, best.restore(step), 15)
    path = checkpoints.save(again, score=float("inf"))
    assert path.exists()
    found = checkpoints.load()
    assert found is not None and found.steps == 15 and found.score is None
    assert [int(one.stem[5:]) for one in checkpoints.paths] == [10, 15]


def damaged_files(whole: bytes) -> Iterator[tuple[str, bytes]]:
    for length in (0, 1, 7, 8, 9, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        yield f"cut to {length}", whole[:length]
    for place in range(0, len(whole), 29):
        changed = bytearray(whole)
        changed[place] ^= 1 << (place % 8)
        yield f"bit of byte {place}", bytes(changed)
    yield "longer", whole + b"\0"
    yield "header of a gigabyte", (10**9).to_bytes(8, "little") + whole[8:]
    header = json.dumps({"w": {"dtype": "F64", "shape": [10**9], "data_offsets": [0, 8 * 10**9]}})
    yield "a billion rows", len(header).to_bytes(8, "little") + header.encode() + b"\0" * 64
    deep = ("[" * 5000 + "]" * 5000).encode()
    yield "deep", len(deep).to_bytes(8, "little") + deep


def test_whatever_happened_to_the_newest_file_the_one_before_is_loaded_with_a_warning(
    checkpoints: Checkpoints, step: cr.TrainingStep
):
    state = trained(step, begin(step), 1)
    checkpoints.save(state)
    first = state.copy()
    newest = checkpoints.save(trained(step, state, 2), {"epoch": 1})
    whole = newest.read_bytes()
    count = 0
    for what, content in damaged_files(whole):
        newest.write_bytes(content)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = checkpoints.load()
        assert found is not None and found.steps == 1, what
        assert same(found.restore(step), first), what
        (warning,) = caught
        assert issubclass(warning.category, DamagedCheckpointWarning), what
        assert str(newest) in str(warning.message) and "passed over" in str(warning.message)
        count += 1
    assert count > 50


def test_a_damaged_best_checkpoint_gives_way_to_the_next(
    checkpoints: Checkpoints, step: cr.TrainingStep
):
    state = begin(step)
    paths = [
        checkpoints.save(trained(step, state, state.steps + 1), score=score) for score in (2.0, 1.0)
    ]
    content = bytearray(paths[1].read_bytes())
    content[-1] ^= 1
    paths[1].write_bytes(content)
    with pytest.warns(DamagedCheckpointWarning, match="checksum"):
        best = checkpoints.best()
    assert best is not None and best.path == paths[0]


def other_names(x: float64[n, 3], y: float64[n], w: float64[3], c: float64[()]):
    error = x @ w + c - y
    J = np.mean(error**2)
    return J


def other_shape(x: float64[n, 4], y: float64[n], w: float64[4], b: float64[()]):
    error = x @ w + b - y
    J = np.mean(error**2)
    return J


def other_formula(x: float64[n, 3], y: float64[n], w: float64[3], b: float64[()]):
    error = x @ w - b - y
    J = np.mean(error**2)
    return J


@pytest.mark.parametrize(
    ("function", "wrt", "optimizer", "told"),
    [
        (
            other_names,
            ("w", "c"),
            cr.adam(),
            "c: float64[] is new here; c_m",
        ),
        (other_shape, ("w", "b"), cr.adam(), "w is float64[3] there and float64[4] here"),
        (other_formula, ("w", "b"), cr.adam(), "error is computed differently"),
        (objective, ("w", "b"), cr.sgd(0.1), "w_m: float64[3] is not here"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused_with_the_first_differences(
    tmp_path: Path,
    step: cr.TrainingStep,
    function: Callable[..., Any],
    wrt: tuple[str, ...],
    optimizer: cr.Optimizer,
    told: str,
):
    with Checkpoints(tmp_path, step) as checkpoints:
        checkpoints.save(begin(step))
    other = cr.training_step(function, wrt=wrt, optimizer=optimizer)
    like = other.init({name: np.zeros(other.graph[name].shape) for name in wrt})
    with Checkpoints(tmp_path, other) as checkpoints, pytest.raises(InputError) as caught:
        checkpoints.load(like)
    assert told in caught.value.what
    assert "is of another model" in caught.value.what
    assert (tmp_path / "step-000000000.safetensors").exists()


def test_arrays_of_other_sizes_are_refused_beside_a_state(tmp_path: Path):
    def sized(x: float64["n d"], w: float64["d"]):
        J = np.sum((x @ w) ** 2)
        return J

    step = cr.training_step(sized, wrt="w", optimizer=cr.sgd(0.1))
    with Checkpoints(tmp_path, step) as checkpoints:
        checkpoints.save(step.init(w=np.ones(3)))
        found = checkpoints.load()
        assert found is not None and found.arrays["w"].shape == (3,)
        with pytest.raises(InputError, match=r"w is float64\[3\] there and float64\[4\] here"):
            checkpoints.load(step.init(w=np.ones(4)))


def test_what_json_does_not_have_is_refused_before_anything_is_written(
    checkpoints: Checkpoints, step: cr.TrainingStep
):
    for notes in ({"loss": float("nan")}, {"key": np.zeros(2)}, {"self": object()}):
        with pytest.raises(InputError, match="notes of a checkpoint are not what JSON has"):
            checkpoints.save(begin(step), notes)
    assert checkpoints.paths == []


def test_a_file_that_is_no_checkpoint_is_said_to_be_none(tmp_path: Path):
    from safetensors.numpy import save_file

    path = tmp_path / "weights.safetensors"
    save_file({"w": np.ones(3)}, path)
    with pytest.raises(DataFileError, match="it has no metadata of a checkpoint"):
        file.read(path)
    with pytest.raises(DataFileError, match="there is no checkpoint"):
        file.read(tmp_path / "missing.safetensors")


def test_a_later_schema_is_refused_by_name(
    checkpoints: Checkpoints, step: cr.TrainingStep, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file, "SCHEMA", "chainrule.checkpoint/2")
    path = checkpoints.save(begin(step))
    monkeypatch.undo()
    with pytest.raises(DataFileError, match="its schema is 'chainrule\\.checkpoint/2'"):
        file.read(path)
