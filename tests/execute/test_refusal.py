"""A run that needs more memory than is free is refused before it starts, with advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executors import EITHER, needs_native
from small_machine import having

import chainrule as cr
from chainrule import float32
from chainrule.errors import MemoryLimitError
from chainrule.execute import free_memory as module
from chainrule.execute.free_memory import FreeMemory, refuse_beyond_free

W = np.linspace(-1, 1, 3 * 50, dtype=np.float32).reshape(3, 50)
X = np.linspace(0, 1, 40 * 3, dtype=np.float32).reshape(40, 3)


def objective(x: float32["n 3"], W: float32["3 50"]):
    h = np.tanh(x @ W)
    J = np.mean(h**2)
    return J


def graph() -> cr.Graph:
    return cr.backward(cr.trace(objective), wrt="W")


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 6,000 bytes free."""
    having(monkeypatch, 6000)


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever computes anything fails."""

    def too_late(*args: Any) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr("chainrule.execute.reference.apply", too_late)
    monkeypatch.setattr("chainrule.execute.native.runtime.machine.Machine.call", too_late)
    monkeypatch.setattr("chainrule.execute.native.runtime.recycled.Kind.empty", too_late)


def ways(executor: str) -> dict[str, Any]:
    return {
        "run": lambda: graph().run(x=X, W=W, executor=executor),
        "compile": lambda: graph().compile(executor=executor)(x=X, W=W),
        "function": lambda: cr.compile(cr.grad(objective, wrt="W"), executor=executor)(X, W),
    }


@EITHER
@pytest.mark.parametrize("way", ["run", "compile", "function"])
@pytest.mark.usefixtures("small_machine", "nothing_runs")
def test_a_run_that_is_too_large_is_refused(executor: str, way: str) -> None:
    before = X.tobytes(), W.tobytes()
    with pytest.raises(MemoryLimitError) as caught:
        ways(executor)[way]()
    assert (X.tobytes(), W.tobytes()) == before
    error = caught.value
    assert isinstance(error, MemoryError)
    assert error.needed_nbytes > error.free_nbytes == 6000
    assert f"needs {error.needed_nbytes:,} bytes" in str(error)
    assert "6,000 (5.86 KiB) are free (pretended)" in str(error)
    assert "CHAINRULE_MEMORY_CHECK=0 in the environment runs it all the same" in str(error)


@EITHER
@pytest.mark.usefixtures("small_machine")
def test_a_step_that_is_too_large_changes_nothing(
    executor: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    step = cr.training_step(objective, wrt="W", optimizer=cr.adam(0.1), executor=executor)
    state = step.init(W=W)
    request.getfixturevalue("nothing_runs")
    before = {name: array.tobytes() for name, array in state.arrays.items()}
    with pytest.raises(MemoryLimitError) as caught:
        step(state, x=X)
    assert {name: array.tobytes() for name, array in state.arrays.items()} == before
    assert state.steps == 0 and not state.bound
    text = str(caught.value)
    assert "a run of objective at n = 40 needs" in text
    assert "optimizer state" in text and "parameters" in text


@EITHER
@pytest.mark.usefixtures("small_machine")
def test_a_size_that_is_said_to_fit_does(executor: str) -> None:
    step = cr.training_step(objective, wrt="W", optimizer=cr.sgd(0.1), executor=executor)
    state = step.init(W=W)
    with pytest.raises(MemoryLimitError, match="is the largest that fits") as caught:
        step(state, x=X)
    size = int(str(caught.value).partition("n = ")[2].partition(" ")[0].replace(",", ""))
    assert size == 40  # the first that is named is the one refused
    advice = str(caught.value).partition("try: n = ")[2]
    fits = int(advice.partition(" ")[0].replace(",", ""))
    assert 1 <= fits < 40
    step(state, x=X[:fits])
    assert state.steps == 1


@EITHER
@pytest.mark.usefixtures("small_machine")
def test_the_switch_runs_it_all_the_same(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINRULE_MEMORY_CHECK", "0")
    step = cr.training_step(objective, wrt="W", optimizer=cr.sgd(0.1), executor=executor)
    state = step.init(W=W)
    assert step(state, x=X) > 0 and state.steps == 1
    for way in ways(executor).values():
        way()


@EITHER
def test_small_runs_read_nothing(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> None:
        raise AssertionError("read for a small run")

    monkeypatch.setattr(module, "free_memory", read)
    for way in ways(executor).values():
        way()
    step = cr.training_step(objective, wrt="W", optimizer=cr.sgd(0.1), executor=executor)
    state = step.init(W=W)
    step(state, x=X)


@needs_native
@pytest.mark.usefixtures("small_machine")
def test_memory_of_an_earlier_run_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def free() -> FreeMemory:
        asked.append(1)
        return FreeMemory(1 << 40, "pretended")

    monkeypatch.setattr(module, "free_memory", free)
    step = cr.training_step(objective, wrt="W", optimizer=cr.sgd(0.1), executor="native")
    state = step.init(W=W)
    asked.clear()
    for _ in range(10):
        step(state, x=X)
    assert len(asked) == 1


@needs_native
def test_the_text_of_a_refusal_shows_the_largest_parts(
    small_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MemoryLimitError) as caught:
        graph().run(x=X, W=W, executor="native", keep="named")
    lines = str(caught.value).splitlines()
    report = graph().memory(n=40, keep="named", executor="native")
    assert lines[1] == (
        f"  at the peak, arguments included, there are {report.main.peak_nbytes:,} bytes:"
    )
    largest = sorted(filter(None, report.main.parts.values()), reverse=True)[:5]
    shown = [int(line.split()[-1].replace(",", "")) for line in lines[2 : 2 + len(largest)] if line]
    assert shown == [nbytes for nbytes in largest if nbytes][: len(shown)] and len(shown) >= 2


def test_nothing_is_known_elsewhere_than_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert module.free_memory() is None
    refuse_beyond_free(1 << 60)


def test_this_machine_has_some_memory() -> None:
    free = module.free_memory()
    if free is not None:
        assert 0 < free.nbytes < 1 << 50 and free.source


def test_the_kernels_estimate_is_read() -> None:
    text = "MemTotal:       32000000 kB\nMemFree: 5 kB\nMemAvailable:    1234 kB\n"
    assert module._of_machine(text) == FreeMemory(1234 * 1024, "MemAvailable in /proc/meminfo")
    assert module._of_machine("MemTotal: 3 kB\n") is None
    assert module._of_machine("") is None


def version_2(folder: str, limit: str, used: int, stat: str = "") -> dict[str, str]:
    return {
        f"{folder}memory.max": limit,
        f"{folder}memory.current": str(used),
        f"{folder}memory.stat": stat,
    }


def version_1(folder: str, limit: int, used: int, stat: str = "") -> dict[str, str]:
    return {
        f"memory/{folder}memory.limit_in_bytes": str(limit),
        f"memory/{folder}memory.usage_in_bytes": str(used),
        f"memory/{folder}memory.stat": stat,
    }


CACHE = "anon 5\nfile 400\ninactive_file 200\nactive_file 100\n"
OLD_CACHE = "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 100\n"


@pytest.mark.parametrize(
    ("files", "membership", "want"),
    [
        ({}, "0::/a/b\n", []),
        (version_2("a/", "max", 10), "0::/a\n", []),
        (version_2("a/", "1000", 600), "0::/a\n", [400]),
        (version_2("a/", "1000", 600, CACHE), "0::/a\n", [700]),
        (version_2("", "1000", 990) | version_2("a/", "800", 100), "0::/a/b\n", [700, 10]),
        (version_2("", "1000", 2000), "0::/x\n", [0]),
        (version_1("x/", 1000, 600, OLD_CACHE), "4:memory:/x\n0::/\n", [700]),
        (version_1("", 1 << 63, 600), "4:memory:/x\n", []),
        (version_1("", 1000, 600), "4:cpu,cpuacct:/x\n", []),
    ],
)
def test_what_control_groups_leave_is_read(
    tmp_path: Path, files: dict[str, str], membership: str, want: list[int]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [one.nbytes for one in module._of_groups(membership, tmp_path)] == want


def test_the_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(module, "_of_machine", lambda text: FreeMemory(50, "machine"))
    monkeypatch.setattr(module, "_of_groups", lambda *args: [FreeMemory(40, "group")])
    assert module.free_memory() == FreeMemory(40, "group")
    monkeypatch.setattr(module, "_of_groups", lambda *args: [])
    assert module.free_memory() == FreeMemory(50, "machine")


@needs_native
@pytest.mark.usefixtures("small_machine")
def test_a_function_is_checked_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    plenty = FreeMemory(1 << 40, "pretended")
    monkeypatch.setattr(module, "free_memory", lambda: plenty)

    def layer(x: np.ndarray, W: np.ndarray) -> np.ndarray:
        return np.tanh(x @ W)

    function = cr.compile(layer, executor="native")
    for _ in range(3):
        function(X, W)
    monkeypatch.setattr(module, "free_memory", lambda: FreeMemory(6000, "pretended"))
    with pytest.raises(MemoryLimitError, match="at the peak, arguments included"):
        function(X, W)


@EITHER
def test_a_node_for_which_there_is_no_memory_is_told_once(executor: str) -> None:
    def greedy(x: Any) -> Any:
        raise MemoryError("unable to allocate 9 GiB")

    operation = cr.primitive(greedy, name="greedy")
    traced = cr.trace(lambda x: operation(x) + 1, x=np.ones(3))
    with pytest.raises(MemoryLimitError) as caught:
        traced.run(x=np.ones(3), executor=executor)
    assert caught.value.what == "no memory for greedy(x), float64[3]: unable to allocate 9 GiB"
