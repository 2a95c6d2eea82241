"""With `measure=`, times of ways and of plans are those of runs on this machine."""

from __future__ import annotations

from time import thread_time
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import InputError, MemoryLimitError
from chainrule.explain.cost import measured_runs
from chainrule.explain.cost.measured_runs import Timed, error_of, levels_of, timed
from chainrule.machine_code.target import native_refusal
from chainrule.plan.speeds import speeds_of

EXECUTOR = pytest.mark.parametrize(
    "executor", ["reference"] if native_refusal() else ["reference", "native"]
)
KNOWN = speeds_of(32)
RANDOM = np.random.default_rng(0)
WS = [RANDOM.normal(size=(64, 64)).astype(np.float32) / 8 for _ in range(3)]
N = 512
WORK = 0.001  # seconds


def objective(x: cr.float32["n 64"], Ws: Any) -> Any:
    h = x
    for W in Ws:
        h = np.tanh(h @ W)
    return np.mean(h * h)


def training(executor: str) -> Any:
    return cr.training_step(objective, "Ws", cr.adam(), Ws=WS, executor=executor)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_runs, "TURN", 0.002)
    monkeypatch.setattr(measured_runs, "ROUNDS", 2)
    monkeypatch.setattr(measured_runs, "MOST_ROUNDS", 2)


def busy(seconds: float, made: list[float]) -> Any:
    def make() -> Any:
        made.append(seconds)

        def call() -> None:
            begun = thread_time()
            while thread_time() - begun < seconds:
                pass

        return call

    return make


def test_calls_take_turns() -> None:
    made: list[float] = []
    short, long = timed([busy(0.002, made), busy(0.006, made)], [1.0, 1.0])
    assert made == [0.002, 0.006, 0.002, 0.006]
    assert short.is_measured and long.is_measured
    assert 2e6 <= short.nanoseconds < 4e6 and 6e6 <= long.nanoseconds < 9e6


def test_turns_with_other_arrays_are_told_by_their_median(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_runs, "MOST_ROUNDS", 3)
    monkeypatch.setattr(measured_runs, "ROUNDS", 3)
    each = iter([0.002, 0.009, 0.004])
    (found,) = timed([lambda: busy(next(each), [])()], [1.0])
    assert 4e6 <= found.nanoseconds < 8e6


def test_a_machine_that_is_slower_for_a_while_slows_no_run_more_than_another() -> None:
    quick, slow = [2.0, 3.0], [4.0, 6.0]
    rounds = [quick, slow, quick, slow, quick]
    assert levels_of(rounds) == pytest.approx(quick)
    assert error_of(rounds) == pytest.approx(0, abs=1e-12)


def test_one_turn_that_another_process_disturbs_changes_no_level() -> None:
    rounds = [[2.0, 3.0], [2.0, 3.0], [2.0, 9.0], [2.0, 3.0], [2.0, 3.0]]
    assert levels_of(rounds) == pytest.approx([2.0, 3.0])
    assert error_of(rounds) > error_of([[2.0, 3.0]] * 5)
    assert error_of(rounds[:1]) == float("inf")


def test_there_are_rounds_until_the_times_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_runs, "MOST_ROUNDS", 5)
    for differs, rounds in ((True, 5), (False, 2)):
        monkeypatch.setattr(measured_runs, "error_of", lambda _, differs=differs: float(differs))
        made: list[float] = []
        timed([busy(0.001, made)], [1.0])
        assert len(made) == rounds
        made.clear()
        timed([busy(0.001, made)], [1.0], each=0.0)  # no time for more
        assert len(made) == 2


def test_a_turn_without_memory_takes_its_round_with_it() -> None:
    made: list[float] = []

    def second_refused() -> Any:
        if made:
            raise MemoryLimitError("no memory", hint="more")
        return busy(0.002, made)()

    found = timed([second_refused, busy(0.004, [])], [1.0, 1.0])
    assert all(one.is_measured for one in found)
    assert found[0].nanoseconds < 4e6 <= found[1].nanoseconds


def test_what_has_no_memory_is_estimated_as_the_others_turn_out() -> None:
    def refused() -> Any:
        raise MemoryLimitError("no memory", hint="more")

    found = timed([refused, busy(0.002, [])], [30.0, 10.0])
    assert found[0] == Timed(3 * found[1].nanoseconds, False)
    assert timed([refused], [30.0]) == [Timed(30.0, False)]


def test_what_takes_too_long_is_estimated_as_the_others_turn_out() -> None:
    made: list[float] = []
    short, long = timed([busy(0.002, made), busy(0.006, made)], [1e6, 40e9], seconds=1.0)
    assert made == [0.002, 0.002] and short.is_measured
    assert not long.is_measured and long.nanoseconds == pytest.approx(40e3 * short.nanoseconds)


def _worked(x: Any) -> Any:
    begun = thread_time()
    while thread_time() - begun < WORK:
        pass
    return x.copy()


worked = cr.primitive(_worked, result_type=lambda x: x, vjp=lambda dout, out, x: dout)


@pytest.mark.slow
@pytest.mark.sweep(2)
@EXECUTOR
def test_ways_take_what_steps_take(executor: str) -> None:
    def slow(x: cr.float32["n 64"], W: Any) -> Any:
        return np.mean(np.tanh(worked(x @ W) @ W) ** 2)

    step = cr.training_step(slow, "W", cr.adam(), W=WS[0], executor=executor)
    needed = step.memory(n=N).needed_nbytes
    fit = step.fits(needed - N * 64, n=N, measure=True)
    calls = {"2 parts": 2, "4 parts": 4, "8 parts": 8, "another batch": 1}
    for what, count in calls.items():
        way = next(one for one in fit.ways if what in one.what)
        assert way.is_measured and way.nanoseconds >= count * WORK * 1e9
    assert [way.nanoseconds for way in fit.ways] == sorted(way.nanoseconds for way in fit.ways)
    assert not {"about", "±", "estimated"} & set(str(fit).split())


@EXECUTOR
def test_ways_are_measured_by_default(executor: str) -> None:
    step = training(executor)
    fit = step.fits("1 GiB", n=N)
    assert fit.ways and all(way.is_measured and way.margin == 0 for way in fit.ways)
    assert not {"about", "±", "estimated"} & set(str(fit).split())
    for keywords in ({"measure": False}, {"speeds": KNOWN}):
        assert not any(way.is_measured for way in step.fits("1 GiB", n=N, **keywords).ways)


given: list[Any] = []


def _refused(x: Any) -> Any:
    given.append(x)
    return x


refused = cr.primitive(_refused, result_type=lambda x: x)


def never_ends(x: Any) -> Any:
    """Of made-up numbers, which are not 0."""
    return cr.while_loop(lambda x: np.any(x != 0), lambda x: x * 1, x)


@EXECUTOR
@pytest.mark.parametrize("function", [never_ends, refused, np.linalg.cholesky])
def test_ways_are_estimated_where_made_up_arrays_do_not_do(function: Any, executor: str) -> None:
    def objective(x: cr.float64["3 3"], w: cr.float64[""]) -> Any:
        return w * np.sum(function(x))

    step = cr.training_step(objective, "w", cr.sgd(0.1), executor=executor)
    fit = step.fits("1 GiB")
    assert fit.ways and not any(way.is_measured for way in fit.ways) and not given


@EXECUTOR
def test_a_tradeoff_is_of_runs(executor: str) -> None:
    graph = cr.backward(cr.trace(objective, Ws=WS), wrt="Ws")
    report = graph.memory(n=64, executor=executor)
    plain, found = report.tradeoff(), report.tradeoff(measure={"x": np.ones((1, 64))})
    needs = [one.needed_nbytes for one in found]
    assert {*needs} <= {one.needed_nbytes for one in plain}
    assert needs[0] == plain.points[0].needed_nbytes and needs[-1] == plain.points[-1].needed_nbytes
    assert all(one.is_measured and one.nanoseconds > 0 for one in found)
    assert found.points[0].extra == 0
    times = [one.nanoseconds for one in found.points[1:]]
    assert times == sorted(times)
    assert str(found).startswith("memory against measured time of")
    assert "more measured time" in found.svg() and "±" not in str(found)
    assert not any(one.is_measured for one in plain)


def test_wrong_arrays_are_refused() -> None:
    step = training("reference")
    with pytest.raises(InputError, match="measure is True, or arrays by name, got int"):
        step.tradeoff(n=8, measure=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'z'"):
        step.tradeoff(n=8, measure={"z": 1.0})
