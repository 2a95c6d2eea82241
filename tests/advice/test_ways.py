"""The table of ways to train: what each changes, what fits, and that its code does it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from click.testing import CliRunner

import chainrule as cr
from chainrule.advice.ways.picture import best_line
from chainrule.advice.ways.shared import Shared
from chainrule.cli import main
from chainrule.plan.speeds import SPEEDS, scaled

n = cr.size("n")


def objective(x: cr.float32[n, 16], y: cr.int64[n], W1, W2, V) -> Any:
    h1 = np.tanh(x @ W1)
    h2 = np.tanh(h1 @ W2)
    J = cr.cross_entropy(h2 @ V, y)
    return J


def made(function: Any = objective, optimizer: Any = None) -> cr.TrainingStep:
    types: Any = {"W1": cr.float32[16, 64], "W2": cr.float32[64, 64]}
    types["V"] = cr.float32[64, 4]
    wrt = ("W1", "W2", "V")
    return cr.training_step(function, wrt, optimizer or cr.adam(), executor="reference", **types)


@pytest.fixture(scope="module")
def limited() -> tuple[cr.TrainingStep, cr.Ways]:
    """A step of which nine tenths fit, on two devices."""
    step = made()
    need = step.memory(n=256, predict=None).needed_nbytes
    return step, cr.ways(step, batch=256, memory=need * 9 // 10, devices=2)


@pytest.mark.slow
def test_what_fits_comes_first_and_the_rest_says_why(limited: Any) -> None:
    ways = limited[1]
    assert [one.what for one in ways.others if one.kind == "whole"] == ["as it is"]
    assert all("more than" in one.why_not for one in ways.others if one.needed_nbytes)
    assert all(one.needed_nbytes <= ways.limit_nbytes for one in ways.fitting)
    keeping = [one for one in ways.fitting if one.trajectory != "other"]
    assert list(ways.fitting[: len(keeping)]) == keeping
    times = [one.seconds_a_sample for one in keeping]
    assert times == sorted(times) and ways.best is ways.fitting[0]


@pytest.mark.slow
def test_the_limit_is_that_of_each_device(limited: Any) -> None:
    step, found = limited
    limit = found.limit_nbytes
    own = cr.ways(step, batch=256, memory=limit, devices=cr.Devices.cpu(2, memory=limit * 2 // 3))
    apart = [one for one in own.fitting if one.devices > 1]
    assert apart and all(one.needed_nbytes <= limit * 2 // 3 for one in apart)


@pytest.mark.slow
def test_a_plan_that_is_left_out_is_called_by_what_it_splits() -> None:
    def narrow(x: cr.float32[n, 16], W1: cr.float32[16, 64]) -> Any:
        J = np.mean((x @ W1) ** 2)
        return J

    step = cr.training_step(narrow, "W1", cr.sgd(0.1), executor="reference")
    left = {one.what: one.why_not for one in cr.ways(step, batch=64, devices=4).others}
    assert left["pipeline: 4 stages"] == "no plan has work for each device"
    assert "pipeline x data parallel: 2 stages, 2 replicas" in left


def test_bytes_and_changes_are_those_of_the_reports(limited: Any) -> None:
    step, ways = limited
    kinds = {one.kind: one for one in ways}
    assert {"parts", "recomputing", "optimizer", "data parallel"} <= set(kinds)
    assert {"data parallel, sharded states", "pipeline", "split products"} <= set(kinds)
    parts = kinds["parts"]
    report = eval(parts.code, {"step": step}).memory(n=256)
    assert parts.needed_nbytes == report.needed_nbytes and parts.trajectory == "rounding"
    budget = kinds["recomputing"]
    assert budget.trajectory == "none" and budget.extra_flops >= 0
    for kind in ("data parallel", "pipeline", "split products", "data parallel, sharded states"):
        one = kinds[kind]
        split = eval(one.code, {"cr": cr, "step": step})
        most = max(rank.most_nbytes for rank in split.memory(n=256).ranks)
        assert one.needed_nbytes == most and one.devices == split.ranks == 2
        assert one.sent_nbytes > 0 and 0 <= one.idle < 1


def test_the_table_is_text_html_json_and_a_picture(limited: Any) -> None:
    ways = limited[1]
    text, page, numbers = str(ways), ways._repr_html_(), ways.json()
    assert "does not fit: as it is" in text and "trajectory" in text and "<svg" in page
    assert len(numbers["fitting"]) == len(ways.fitting)
    json.dumps(numbers, allow_nan=False)
    line = best_line(ways)
    assert all(a.needed_nbytes > b.needed_nbytes for a, b in pairwise(line))


@pytest.mark.slow
def test_saved_values_in_bfloat16_are_a_way_and_its_code_makes_it() -> None:
    def deep(x: cr.float32["n 64"], Ws: Any) -> Any:
        h = x
        for W in Ws:
            h = np.tanh(h @ W)
        J = np.sum(h * h)
        return J

    types: Any = {"Ws": [cr.float32[64, 64]] * 6}
    make = lambda **more: cr.training_step(deep, "Ws", cr.sgd(0.1), **types, **more)  # noqa: E731
    step = make(executor="reference")
    need = step.memory(n=512).needed_nbytes
    own = ("whole", "saved")
    plain = [one for one in cr.ways(step, batch=512) if one.kind in own]
    assert [one.trajectory for one in plain] == ["none", "other"]
    assert plain[1].needed_nbytes < plain[0].needed_nbytes == need
    limit = plain[1].needed_nbytes - 1
    combined = [one for one in cr.ways(step, batch=512, memory=limit) if one.kind == "saved"]
    assert [one.fits for one in combined] == [True] * (len(combined) - 1) + [False]
    assert combined[0].what.startswith("saved values in bfloat16, ")
    assert all(one.needed_nbytes <= limit for one in combined[:-1])
    for one in (plain[1], *combined):
        if one.fits and "micro" not in one.code:
            text = one.code.removeprefix("cr.training_step(..., ").removesuffix(")")
            again = eval(f"make(executor='reference', {text})", {"make": make})
            assert again.memory(n=512).needed_nbytes == one.needed_nbytes
    assert not [one for one in cr.ways(make(saved="bfloat16"), batch=512) if one.kind == "saved"]


def test_ways_that_are_about_as_quick_are_told(limited: Any) -> None:
    ways = limited[1]
    first = ways.fitting[0]
    slower = [replace(first, seconds=first.seconds * factor) for factor in (1, 1.04, 1.06)]
    other = replace(first, trajectory="other")
    found = replace(ways, fitting=(*slower, other))
    assert found.tied == tuple(slower[:2])
    assert "about as quick as each other: 1, 2 (within 5%)" in str(found)
    alone = replace(ways, fitting=(slower[0], slower[2]), others=())
    assert alone.tied == (slower[0],) and "about as quick" not in str(alone)
    assert replace(ways, fitting=()).tied == ()


def test_another_objective_is_another_training_in_parts() -> None:
    def normalised(x: cr.float32[n, 16], y: cr.int64[n], W1, W2, V) -> Any:
        z = x @ W1
        h = (z - np.mean(z, axis=0)) @ W2
        return cr.cross_entropy(h @ V, y)

    ways = cr.ways(made(normalised, cr.sgd(0.1)), batch=64)
    assert {one.trajectory for one in ways if one.kind == "parts"} == {"other"}
    assert not [one for one in ways if one.kind == "optimizer"]
    (fewer,) = [one for one in ways if one.kind == "smaller"]
    assert (fewer.rows, fewer.noise, fewer.trajectory) == (32, 2.0, "other")


@pytest.mark.slow
def test_a_budget_in_which_loops_add_up_is_said_to_round() -> None:
    def recurrent(x: cr.float32["64 n 16"], W: cr.float32["16 48"], U: cr.float32["48 48"]) -> Any:
        def cell(h: Any, xt: Any) -> Any:
            h = np.tanh(xt @ W + h @ U)
            return h, h

        _, states = cr.scan(cell, np.zeros_like(x, shape=(x.shape[1], 48)), x)
        J = np.mean(states**2)
        return J

    def trained(**budget: int) -> bytes:
        step = cr.training_step(recurrent, ("W", "U"), cr.sgd(0.1), executor="reference", **budget)
        draws = np.random.default_rng(0)
        shapes = {"W": (16, 48), "U": (48, 48), "x": (64, 16, 16)}
        given = {name: 0.3 * draws.standard_normal(shapes[name], "f4") for name in shapes}
        x = given.pop("x")
        state = step.init(**given)
        step(state, x=x)
        return b"".join(state[name].tobytes() for name in given)

    step = cr.training_step(recurrent, ("W", "U"), cr.sgd(0.1), executor="reference")
    (way,) = [one for one in cr.ways(step, batch=16) if one.kind == "recomputing"]
    budget = int(way.code.split("memory=")[1].rstrip(")"))
    assert way.trajectory == "rounding" and trained(memory=budget) != trained()


@pytest.mark.slow
def test_ctrl_c_gives_what_is_known() -> None:
    def stopped(self: Any, kind: Any) -> Any:
        raise KeyboardInterrupt

    with patch.object(Shared, "way", stopped):
        ways = cr.ways(made(), batch=64, devices=2)
    assert ways.fitting[0].what == "as it is"
    assert ways.unknown[0] == "data parallel" and "pipeline" in ways.unknown
    assert "not looked at: data parallel" in str(ways)


@pytest.mark.parametrize("chosen", [[99], [-1], ["a"], [0.5], 0])
def test_places_that_no_way_has_are_refused(limited: Any, chosen: Any) -> None:
    with pytest.raises(
        cr.errors.InputError, match=r"chosen=.*have the places \[0, 1, .*\n.*\(0, 1\)"
    ):
        limited[1].measure(chosen)


def test_where_nothing_fits_the_table_says_what_needs_least() -> None:
    ways = cr.ways(made(), batch=64, memory="100 KiB")
    assert not ways.fitting and "nothing fits: " in str(ways)


def test_large_batches_take_no_longer_to_weigh() -> None:
    step = made(optimizer=cr.sgd(0.1, momentum=0.9))
    ways = cr.ways(step, batch=10**9)
    assert "sgd without momentum" in [one.what for one in ways]


@pytest.mark.slow
def test_chosen_ways_are_measured() -> None:
    ways = cr.ways(made(), batch=64, devices=2)
    measured = ways.measure([0, 1])
    assert [one.measured_seconds is not None for one in measured.fitting[:3]] == [True, True, False]
    assert "measured" in str(measured)


@pytest.mark.slow
def test_what_is_no_step_for_it_is_refused() -> None:
    budget = cr.training_step(
        objective,
        "W1",
        cr.sgd(0.1),
        memory="1 GiB",
        W1=cr.float32[16, 64],
        W2=cr.float32[64, 64],
        V=cr.float32[64, 4],
    )
    with pytest.raises(cr.errors.InputError, match="the step has a budget"):
        cr.ways(budget, batch=64)
    with pytest.raises(cr.errors.InputError, match="takes a training step, got"):
        cr.ways(objective, batch=64)  # type: ignore[arg-type]
    with pytest.raises(cr.errors.MemoryLimitError, match="no way was found"):
        cr.ways(made(), batch=64, memory="20 KiB").best  # noqa: B018


MODEL = """
import numpy as np
import chainrule as cr


def objective(
    x: cr.float32["n 16"], y: cr.int64["n"], W: cr.float32["16 64"], V: cr.float32["64 4"]
):
    J = cr.cross_entropy(np.tanh(x @ W) @ V, y)
    return J
"""


@pytest.mark.slow
def test_the_command_prints_the_table(tmp_path: Any) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    place = f"{tmp_path / 'model.py'}:objective"
    with patch.dict("os.environ", {"CHAINRULE_EXECUTOR": "reference"}):
        done = CliRunner().invoke(main, ["ways", place, "--dim", "n=64", "--devices", "2"])
        assert done.exit_code == 0, done.output
        assert "ways to train objective with n = 64" in done.output
        assert "data parallel: 2 replicas" in done.output
        done = CliRunner().invoke(main, ["ways", place])
    assert done.exit_code == 2 and "try: --dim n=512" in done.output


def test_the_command_takes_an_executor(tmp_path: Any) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    options = ["ways", f"{tmp_path / 'model.py'}:objective", "--dim", "n=64", "--json"]
    with patch.dict("os.environ", {"CHAINRULE_EXECUTOR": "unknown"}):
        done = CliRunner().invoke(main, [*options, "--executor", "reference"])
        refused = CliRunner().invoke(main, [*options, "--executor", "unknown"])
    assert done.exit_code == 0, done.output
    found = {one["what"]: one for one in json.loads(done.output)["fitting"]}
    assert found["as it is"]["code"] == "step"
    assert found["as it is"]["needed_nbytes"] > 2**20  # what NumPy takes for itself
    assert refused.exit_code == 2 and "'unknown' is not one of 'native'" in refused.output


@pytest.mark.peers
def test_ways_of_xla_have_predicted_times() -> None:
    """None recomputes: each plan would have to be compiled."""
    pytest.importorskip("jax")
    step = replace(made(), executor="xla")
    found = {one.kind: one for one in cr.ways(step, batch=256)}
    assert "recomputing" not in found
    assert 0 < found["whole"].seconds < found["parts"].seconds
    assert found["smaller"].seconds < found["whole"].seconds < 2e-3
    slower = scaled(SPEEDS[64], products=2.0, loops=2.0, memory=2.0)
    (again,) = (one for one in cr.ways(step, batch=256, speeds=slower) if one.kind == "whole")
    np.testing.assert_allclose(again.seconds, 2 * found["whole"].seconds, rtol=0.1)
