"""Every public function, method and command, called with what it refuses: the traceback has at most
one line of this library's above the user's, and a command says it in words."""

from __future__ import annotations

import inspect
import os
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import chainrule as cr
import chainrule.data
from chainrule import testing
from chainrule.cli import main
from chainrule.errors import ChainruleError

ROOT = os.path.dirname(cr.__file__)
X = np.ones((4, 3))


class Nothing:
    """Of no use to any function."""

    def __repr__(self) -> str:
        return "Nothing()"


MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
WRONG: tuple[Any, ...] = (Nothing(), np.ones((2, 3, 5)), "nope", -3, None, MASKED, [[1.0], 2j], int)


def objective(x: cr.float64["n 3"], W: cr.float64["3"]) -> Any:  # type: ignore
    return np.sum((x @ W) ** 2)


def functions() -> dict[str, Callable[..., Any]]:
    """The public functions, by the names under which users call them."""
    modules = {
        "cr": cr,
        "cr.data": chainrule.data,
        "cr.random": cr.random,
        "cr.schedules": cr.schedules,
        "cr.testing": testing,
        "cr.transforms": cr.transforms,
    }
    found = {}
    for module, of in modules.items():
        for name in getattr(of, "__all__", [name for name in vars(of) if name[0] != "_"]):
            one = getattr(of, name)
            is_ours = str(getattr(one, "__module__", "")).partition(".")[0] == "chainrule"
            if callable(one) and is_ours and not isinstance(one, types.ModuleType):
                found[f"{module}.{name}"] = one
    return found


FUNCTIONS = functions()
MEASURING = {"cr.measured_speeds"}  # takes seconds, and has no argument to refuse
OPERATORS = ("__getitem__", "__call__", "__contains__")


@cache
def objects() -> dict[str, Any]:
    """An object of each public class that has methods."""
    graph = cr.trace(objective)
    step = cr.training_step(graph, wrt="W", optimizer=cr.sgd(0.1), executor="reference")
    state = step.init(W=np.ones(3))
    data = {"x": X}
    trainer = cr.Trainer(step, {"W": np.ones(3)}, data=data, batch_size=2, progress=False)
    return {
        "graph": graph,
        "compiled": graph.compile(executor="reference"),
        "run": graph.run(x=X, W=np.ones(3)),
        "step": step,
        "parts": step.micro_batched(2),
        "state": state,
        "trainer": trainer,
        "memory": graph.memory(n=4),
        "cost": graph.cost(n=4),
        "equations": graph.equations(),
        "drawing": graph.draw(),
        "report": cr.report(graph),
        "optimizer": cr.adam(0.1),
        "plan": step.plan(n=4),
        "batches": chainrule.data.minibatches(data, 2, shuffle=False),
        "type": cr.float64["n 3"],  # type: ignore
        "size": cr.size("n"),
        "measures": cr.evaluate(objective, {"W": np.ones(3)}, data),
    }


def methods() -> list[str]:
    return [
        f"{named}.{name}"
        for named, one in objects().items()
        for name in dir(type(one))
        if (not name.startswith("_") or name in OPERATORS)
        and callable(inspect.getattr_static(type(one), name))
    ]


def calls(function: Callable[..., Any]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Wrong arguments for a function: too few, too many, and of the wrong kind."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = sum(one.kind in by_place and one.default is one.empty for one in parameters)
    for wrong in WRONG:
        for more in range(3):
            if needed + more or wrong is WRONG[0]:  # without arguments once
                yield [wrong] * (needed + more), {}
    yield [X] * needed, {"unknown": 1}
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY:
            yield [X] * needed, {one.name: WRONG[0]}


def refusals(function: Callable[..., Any]) -> Iterator[ChainruleError]:
    """What a function says to wrong arguments; errors of Python's keep all lines, as faults do."""
    for args, options in calls(function):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = function(*args, **options)
                if isinstance(found, types.GeneratorType):
                    found.close()
            except ChainruleError as error:
                yield error
            except Exception:
                pass


def ours(error: BaseException) -> list[str]:
    """The lines of this library's in a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{one.filename}:{one.lineno}" for one in frames if one.filename.startswith(ROOT)]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.slow) if one in MEASURING else one for one in FUNCTIONS],
)
def test_a_function_that_refuses_shows_the_users_line(name: str) -> None:
    for error in refusals(FUNCTIONS[name]):
        assert len(ours(error)) <= 1, f"{name}: {error}"


@pytest.mark.parametrize("named", objects())
def test_a_method_that_refuses_shows_the_users_line(named: str) -> None:
    one = objects()[named]
    for path in methods():
        if path.startswith(f"{named}."):
            for error in refusals(getattr(one, path.partition(".")[2])):
                assert len(ours(error)) <= 1, f"{path}: {error}"


@pytest.mark.slow
def test_most_functions_and_methods_refuse_something() -> None:
    """So that the tests above are about something: 82 of 152 functions when this was written."""
    tried = {name: one for name, one in FUNCTIONS.items() if name not in MEASURING}
    refusing = [name for name, one in tried.items() if next(refusals(one), None) is not None]
    assert len(refusing) >= 80


def test_all_lines_are_shown_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINRULE_TRACEBACK", "full")
    for name in ("cr.report", "cr.random.normal", "cr.conv1d", "cr.adam", "cr.one_hot"):
        assert len(ours(next(refusals(FUNCTIONS[name])))) > 1, name


# What only wrong arguments of the right kind make refuse.
def damaged(path: Path) -> Path:
    path.write_bytes(b"no such format")
    return path


CHOSEN: dict[str, Callable[[Path], Any]] = {
    "step.memory": lambda _: objects()["step"].memory(q=3),
    "step.fits": lambda _: objects()["step"].fits("1 GiB", q=3, nbytes="2 GiB"),
    "graph.fits": lambda _: objects()["graph"].fits("1 GiB", q=3),
    "memory.largest": lambda _: objects()["memory"].largest("q", "1 GiB"),
    "trainer.memory": lambda _: objects()["trainer"].memory(executor="nope"),
    "report of a run": lambda _: cr.report(objects()["graph"], inputs={"q": X}),
    "read_npy": lambda path: chainrule.data.read_npy(damaged(path / "a.npy")),
    "read_npz": lambda path: chainrule.data.read_npz(damaged(path / "a.npz")),
    "read_csv": lambda path: chainrule.data.read_csv(path / "a.csv"),
    "read_idx": lambda path: chainrule.data.read_idx(damaged(path / "a.idx")),
    "load_weights": lambda path: cr.load_weights(damaged(path / "a.safetensors")),
    "pull": lambda _: cr.vjp(np.tanh, X)[1](np.ones(7)),
    "fold_in": lambda _: cr.random.fold_in(cr.random.key(0), 1.5),
    "choice": lambda _: cr.random.choice(cr.random.key(0), 3, (5,), replace=False),
    "a batch": lambda _: objects()["batches"][7],
}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_refusal_of_the_right_kind_shows_the_users_line(name: str, tmp_path: Path) -> None:
    with pytest.raises((ChainruleError, IndexError)) as caught:
        CHOSEN[name](tmp_path)
    assert len(ours(caught.value)) <= 1


# What each command refuses, and words of what it says.
MODEL = """
import numpy as np
from chainrule import float64

def objective(x: float64["n 3"], W: float64["3"]):
    return np.sum((x @ W) ** 2)

def vector(x: float64["n 3"]):
    return x * 2

def unfitting(x: float64["n 3"], y: float64["4"]):
    return np.sum(x @ y)

number = 3
"""
OF_FUNCTIONS: list[tuple[list[str], str]] = [
    ([], "Missing argument 'FILE.py:FUNCTION'"),
    (["missing.py:objective"], "there is no file missing.py"),
    (["folder:objective"], "folder is a folder"),
    (["binary.py:objective"], "source code string cannot contain null bytes"),
    (["empty.py:objective"], "empty.py has no function 'objective'"),
    (["model.py"], "'model.py' does not say which function of which file"),
    (["model.py:nope"], "its functions are: objective, vector"),
    (["model.py:number"], "number in model.py is of type int, and no function"),
    (["model.py:unfitting"], "the inner sizes differ, 3 and 4"),
    (["model.py:objective", "--wrt", "nope"], "has no value called 'nope'"),
    (["model.py:vector", "--wrt", "x"], "not a scalar: its gradient needs a seed"),
    (["model.py:objective", "--of", "out"], "--of out --wrt x"),
    (["model.py:objective", "--dim", "n"], "--dim n is not a size: write --dim n=256"),
    (["model.py:objective", "--dim", "q=3"], "has no size called 'q'"),
    (["model.py:objective", "--dim", "n=0"], "the size n must be an integer of at least 1"),
    (["model.py:objective", "--optimizer", "nope"], "'nope' is not one of 'sgd'"),
    (["model.py:objective", "--nope"], "No such option '--nope'"),
]
WRITTEN = [
    (["model.py:objective", "-o", "missing/a{}"], "a folder that exists"),
    (["model.py:objective", "-o", "a.xyz"], "a.xyz"),
]
OF_COMMANDS: dict[str, list[tuple[list[str], str]]] = {
    "batch": [
        (["missing.py:f"], "missing.py"),
        (["model.py:objective"], "there are no examples for"),
        (["model.py:objective", "--data", "missing.npz"], "missing.npz"),
        (["model.py:objective", "--picture", "a.png"], "the plot is an SVG picture"),
    ],
    "cost": OF_FUNCTIONS,
    "devices": [
        (["missing.toml"], "File 'missing.toml' does not exist"),
        (["binary.py"], "binary.py is no text in UTF-8"),
        (["empty.py"], "no groups"),
        (["-o", "missing/a.toml"], "a folder that exists"),
    ],
    "draw": [*OF_FUNCTIONS, *WRITTEN, (["model.py:objective", "--fold", "nope"], "'nope'")],
    "equations": [*OF_FUNCTIONS, *WRITTEN],
    "explain": [
        *OF_FUNCTIONS,
        *WRITTEN,
        (["model.py:objective", "--inputs", "missing.npz"], "there is no such file"),
        (["model.py:objective", "--inputs", "binary.py"], "the archive is damaged"),
        (["model.py:objective", "--history", "folder"], "cannot read the history folder"),
    ],
    "memory": [
        *OF_FUNCTIONS,
        (["model.py:objective", "--keep", "nope"], "has no value called 'nope'"),
        (["model.py:objective", "--timeline", "a.png"], "a file whose name ends in .svg: a.svg"),
    ],
    "predict": [
        ([], "Missing option '--weights'"),
        (["--weights", "missing", "--data", "a.npy"], "there is no file of weights missing"),
        (["--weights", "folder", "--data", "a.npy"], "folder is a folder"),
        (["--weights", "binary.py", "--data", "a.npy"], "cannot be read"),
    ],
    "python": [*OF_FUNCTIONS, (["model.py:objective", "-o", "folder"], "a folder that exists")],
    "run": [
        ([], "Missing argument 'FILE'"),
        (["-n", "0", "model.py"], "0 is not in the range x>=1"),
        (["-n", "2", "missing.py"], "File 'missing.py' does not exist"),
        (["-n", "2", "--deadline", "0", "binary.py"], "0.0 is not in the range x>0"),
    ],
    "train": [
        (["--epochs", "-1"], "epochs is an integer of at least 1, got -1"),
        (["--learning-rate", "nan"], "a finite number above 0, got nan"),
        (["--output-folder", "binary.py"], "cannot write to the folder binary.py"),
        (["--output-folder", "folder", "--resume"], "there is no training in folder"),
        (["--data", "nope"], "'nope' is not one of"),
    ],
    "ways": [
        (["missing.py:f"], "missing.py"),
        (["model.py:objective"], "nothing says what n is"),
        (["model.py:objective", "--dim", "n=8", "--memory", "much"], "much"),
        (["model.py:objective", "--picture", "missing/a.svg"], "a folder that exists"),
    ],
}
ENDINGS = {"draw": ".svg", "equations": ".tex", "explain": ".html"}


def test_every_command_is_here() -> None:
    assert set(OF_COMMANDS) == set(main.list_commands(None))


@pytest.mark.parametrize("command", OF_COMMANDS)
def test_a_command_refuses_in_words(command: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "empty.py").touch()
    (tmp_path / "binary.py").write_bytes(bytes(range(256)) * 10)
    for arguments, words in OF_COMMANDS[command]:
        given = [one.format(ENDINGS.get(command, "")) for one in arguments]
        result = CliRunner().invoke(main, [command, *given])
        assert result.exit_code in (1, 2), (given, result.output)
        assert isinstance(result.exception, SystemExit), (given, result.exception)
        assert words in result.output, (given, result.output)
        assert "Traceback" not in result.output and "chainrule/" not in result.output, given
