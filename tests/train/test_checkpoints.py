"""Checkpoints: what is loaded is what was saved, whatever happened to the process or the disk."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import DataFileError, InputError, StateError
from chainrule.run.native.target import native_refusal
from chainrule.train.checkpoints import Checkpoints, durable, file
from chainrule.train.checkpoints.folder import DamagedCheckpointWarning

needs_native = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))
EITHER = pytest.mark.parametrize(
    "executor", ["reference", pytest.param("native", marks=needs_native)]
)
posix_only = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")
n = cr.size("n")


def objective(x: float64[n, 3], y: float64[n], w: float64[3], b: float64[()]):
    error = x @ w + b - y
    J = np.mean(error**2)
    return J


def step_of(executor: str = "reference", optimizer: cr.Optimizer | None = None) -> cr.TrainingStep:
    return cr.training_step(
        objective, wrt=("w", "b"), optimizer=optimizer or cr.adam(0.01), executor=executor
    )


def batch(number: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(number)
    return {"x": random.standard_normal((5, 3)), "y": random.standard_normal(5)}


def begin(step: cr.TrainingStep) -> cr.State:
    return step.init(w=np.array([1.0, -2.0, 0.5]), b=0.25)


@pytest.fixture
def step() -> cr.TrainingStep:
    return step_of()


@pytest.fixture
def checkpoints(tmp_path: Path, step: cr.TrainingStep) -> Iterator[Checkpoints]:
    with Checkpoints(tmp_path / "run", step) as found:
        yield found


def trained(step: cr.TrainingStep, state: cr.State, until: int) -> cr.State:
    while state.steps < until:
        step(state, batch(state.steps))
    return state


def same(one: cr.State, other: cr.State) -> bool:
    return list(one) == list(other) and all(
        one[k].tobytes() == other[k].tobytes() and one[k].dtype == other[k].dtype for k in one
    )


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


@posix_only
def test_a_second_process_is_refused_and_one_that_is_killed_frees_the_folder(
    tmp_path: Path, step: cr.TrainingStep
):
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from chainrule.train.checkpoints.lock import FolderLock\n"
        "lock = FolderLock(Path(sys.argv[1]))\nprint('held', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(StateError) as caught:
            Checkpoints(tmp_path, step)
        assert f"in use by another training: process {other.pid}" in caught.value.what
        other.send_signal(signal.SIGKILL)
        other.wait()
    Checkpoints(tmp_path, step).close()


def test_the_same_process_cannot_hold_a_folder_twice(tmp_path: Path, step: cr.TrainingStep):
    with Checkpoints(tmp_path, step), pytest.raises(StateError, match=f"process {os.getpid()}"):
        Checkpoints(tmp_path, step)
    Checkpoints(tmp_path, step).close()


def test_nothing_is_saved_after_the_folder_was_given_free(tmp_path: Path, step: cr.TrainingStep):
    with Checkpoints(tmp_path, step) as checkpoints:
        pass
    with pytest.raises(StateError, match="not held by this process"):
        checkpoints.save(begin(step))


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_checkpoints_that_were_there(
    checkpoints: Checkpoints,
    step: cr.TrainingStep,
    monkeypatch: pytest.MonkeyPatch,
    fails: str,
):
    state = trained(step, begin(step), 1)
    checkpoints.save(state)
    before = {path.name: path.read_bytes() for path in checkpoints.folder.iterdir()}

    def refuse(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(durable.os, fails, refuse)
    with pytest.raises(DataFileError) as caught:
        checkpoints.save(trained(step, state, 2))
    assert "cannot be written: No space left on device" in caught.value.what
    assert "earlier checkpoints are as they were" in caught.value.hint
    assert {path.name: path.read_bytes() for path in checkpoints.folder.iterdir()} == before


@posix_only
def test_a_file_that_may_not_grow_is_told_and_leaves_nothing(tmp_path: Path):
    program = f"""
import resource, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_checkpoints import begin, step_of, trained
from chainrule.train.checkpoints import Checkpoints
from chainrule.errors import DataFileError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
step = step_of()
with Checkpoints({str(tmp_path)!r}, step) as checkpoints:
    state = begin(step)
    checkpoints.save(state)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        checkpoints.save(trained(step, state, 1))
    except DataFileError as error:
        print(error.what)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100
    )
    assert "cannot be written" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "step-000000000.safetensors",
    ]


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


ENDLESS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_checkpoints import batch, begin, step_of
from chainrule.train.checkpoints import Checkpoints
step = step_of()
with Checkpoints(sys.argv[1], step) as checkpoints:
    found = checkpoints.load()
    state = begin(step) if found is None else found.restore(step)
    print("begun", state.steps, flush=True)
    while state.steps < 100_000:
        step(state, batch(state.steps))
        checkpoints.save(state, {{"step": state.steps}}, score=-state.steps)
        print(state.steps, flush=True)
"""


def killed_at(folder: Path, seconds: float) -> int:
    """Train until killed; the last step whose checkpoint was said to be written."""
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, folder], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        last = int(process.stdout.readline().split()[1])
        time.sleep(seconds)
        process.kill()
        for line in process.stdout:
            if line.endswith("\n"):
                last = int(line)
    return last


@posix_only
@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.slow, id="many")])
def test_killed_at_any_moment_the_newest_checkpoint_loads_and_no_step_is_lost(
    tmp_path: Path, step: cr.TrainingStep, rounds: int
):
    delays = np.random.default_rng(0).uniform(0.0, 0.4, rounds)
    for delay in delays:
        said = killed_at(tmp_path, float(delay))
        with warnings.catch_warnings(), Checkpoints(tmp_path, step) as checkpoints:
            warnings.simplefilter("error")
            found = checkpoints.load()
            if said:
                assert found is not None and found.steps >= said
            left = {path.name for path in tmp_path.iterdir()}
            assert not [name for name in left if name.endswith(".partial")]
            assert len(left) <= 5
    with Checkpoints(tmp_path, step) as checkpoints:
        found = checkpoints.load()
    assert found is not None and found.steps > 0
    assert same(found.restore(step), trained(step, begin(step), found.steps))
