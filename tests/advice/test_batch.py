"""The study of batches: what it recommends, and what it says."""

from __future__ import annotations

import json
from math import inf
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

import chainrule as cr
from chainrule.advice.batch.choice import between, recommended, training_with
from chainrule.cli import main
from chainrule.explain.plot import Axis, Plot, Series
from chainrule.explain.report.data import report_data


def objective(x: cr.float64["n 5"], y: cr.float64["n"], w) -> Any:
    J = np.mean((x @ w - y) ** 2) / 2
    return J


def regression(rows: int = 600, noise: float = 1.0) -> tuple[Any, Any, dict[str, np.ndarray]]:
    """A step, a state at zero, and data y = x w* + noise of unit normal x."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(rows, 5))
    y = x @ np.ones(5) + noise * rng.normal(size=rows)
    step = cr.training_step(objective, "w", cr.sgd(0.1), executor="reference", w=cr.float64[5])
    return step, step.init(w=np.zeros(5)), {"x": x, "y": y}


@pytest.mark.parametrize("scale", [3.0, 40.0, 700.0])
def test_where_any_batch_takes_as_long_the_noise_scale_is_recommended(scale: float) -> None:
    assert recommended(scale, lambda batch: 2.0, 1, 4096) == pytest.approx(scale, rel=1e-3)


def test_a_step_that_takes_longer_for_more_rows_has_a_smaller_batch() -> None:
    def seconds(batch: float) -> float:
        return 1.0 + batch / 32

    found = recommended(100.0, seconds, 1, 4096)
    grid = np.geomspace(1, 4096, 20001)
    products = [(1 + 100 / b) * seconds(b) * (1 + b / 100) for b in grid]
    assert found == pytest.approx(float(grid[np.argmin(products)]), rel=1e-2) and found < 100
    assert recommended(inf, seconds, 1, 64) == 64


def test_seconds_between_batches_lie_between() -> None:
    at = between([1, 4, 16], [1.0, 2.0, 8.0])
    assert at(1) == 1.0 and at(4) == 2.0 and at(16) == pytest.approx(8.0)
    assert at(2) == pytest.approx(2**0.5) and at(64) > 8.0
    assert training_with(10.0, 10, 3.0).seconds == 6.0


def test_of_a_regression_the_noise_scale_is_the_closed_forms() -> None:
    """At w = 0, with unit normal x: G = -w*, Σ = (|w*|² + σ²) I + w* w*ᵀ."""
    step, state, data = regression(rows=20_000)
    found = cr.gradient_noise(step, state, data)
    w, variance = np.ones(5), 1.0
    trace = 5 * (w @ w + variance) + w @ w
    assert found.total.trace == pytest.approx(trace, rel=0.05)
    assert found.total.scale == pytest.approx(trace / (w @ w), rel=0.05)
    assert 1 / 1.3 < recommended(found.total.scale, lambda batch: 1.0, 1, 512) / 7 < 1.3
    assert found.low < trace / (w @ w) < found.high


def test_trainings_to_a_target_take_what_the_noise_scale_says() -> None:
    """Regressions y = x w* of unit normal x, whose noise scale is d + 1 all along: trained from 0
    until |w - w*|² is a thousandth, at a quarter of the scale that was measured, at it and at four
    times it, with the rate 0.1 / (1 + scale / batch).  Steps and samples, beside those of the
    training at the scale, are the predicted ones within 20 %."""
    d = 5
    rng = np.random.default_rng(5)
    step = cr.training_step(objective, "w", cr.sgd(0.1), executor="reference", w=cr.float64[d])
    x = rng.normal(size=(4000, d))
    scale = cr.gradient_noise(step, step.init(w=np.zeros(d)), {"x": x, "y": x @ np.ones(d)})
    scale = scale.total.scale
    assert scale == pytest.approx(d + 1, rel=0.1)
    taken, told = {}, {}
    for batch in (round(scale / 4), round(scale), round(4 * scale)):
        told[batch] = training_with(scale, batch, 1.0)
        rate = 0.1 / (1 + scale / batch)
        taken[batch] = np.mean([_steps_to_a_thousandth(d, batch, rate, rng) for _ in range(3)])
    middle = round(scale)
    for batch, steps in taken.items():
        predicted = told[batch].steps / told[middle].steps
        assert steps / taken[middle] == pytest.approx(predicted, rel=0.2)
        predicted = told[batch].samples / told[middle].samples
        assert steps * batch / (taken[middle] * middle) == pytest.approx(predicted, rel=0.2)


def _steps_to_a_thousandth(d: int, batch: int, rate: float, rng: np.random.Generator) -> int:
    step = cr.training_step(objective, "w", cr.sgd(rate), executor="reference", w=cr.float64[d])
    state, steps = step.init(w=np.zeros(d)), 0
    while np.sum((state["w"] - 1) ** 2) > d / 1000:
        x = rng.normal(size=(batch, d))
        step(state, x=x, y=x @ np.ones(d))
        steps += 1
    return steps


def test_a_study_is_shown_in_every_way(tmp_path: Any) -> None:
    step, state, data = regression()
    study = cr.batch_study(step, state, data, (4, 16, 64), at=(0, 3), measure=False, batch=8)
    ways = cr.ways(step, batch=64)
    page = report_data(step, sizes={"n": 64}, advice=[study, ways])
    first, second = json.loads(json.dumps(page, allow_nan=False))["advice"]
    assert first["rows"] == [list(row) for row in study.table.rows] and first["chosen"] is not None
    assert second["title"] == "ways to train objective with n = 64"
    assert [len(one["pictures"]) for one in (first, second)] == [2, 1]
    for picture in first["pictures"] + second["pictures"]:
        assert ElementTree.fromstring(picture["svg"]).tag.endswith("svg") and picture["words"]
    with pytest.raises(
        cr.errors.InputError, match=r"advice= has int, which has no table.*\n.*cr\.ways"
    ):
        report_data(step, sizes={"n": 64}, advice=3)
    assert [one.batch for one in study.batches] == [4, 16, 64]
    assert [one.steps for one in study.noise] == [0, 3]
    assert state.steps == 0  # a copy was trained
    text, page, numbers = str(study), study._repr_html_(), study.json()
    assert "is recommended" in text and "noise scale" in text
    assert page.count("<svg") == 2 and numbers["recommended"] == study.recommended
    json.dumps(numbers, allow_nan=False)
    study.time_plot.save(tmp_path / "time.svg")
    picture = ElementTree.parse(tmp_path / "time.svg").getroot()
    told = picture.find("{http://www.w3.org/2000/svg}desc")
    assert told is not None and "A sample takes" in str(told.text)
    with pytest.raises(cr.errors.InputError, match=r"cannot be written to .*time\.png"):
        study.time_plot.save(tmp_path / "time.png")


@pytest.mark.slow
def test_times_are_measured() -> None:
    step, state, data = regression()
    study = cr.batch_study(step, state, data, (8, 32))
    assert all(one.is_measured and one.seconds > 0 for one in study.batches)


def test_what_does_not_fit_is_left_out() -> None:
    step, state, data = regression()
    need = step.memory(n=16, predict=None).needed_nbytes
    study = cr.batch_study(step, state, data, (4, 16, 512), measure=False, memory=need)
    assert [one.batch for one in study.batches] == [4, 16]
    assert "n = 512 needs" in str(study)
    with pytest.raises(cr.errors.InputError, match="a batch of 0 rows"):
        cr.batch_study(step, state, data, (0,), measure=False)


def test_words_in_pictures_are_escaped() -> None:
    axis = Axis("<x>", str)
    plot = Plot("<script>", axis, axis, [Series("<s>", [(1.0, 2.0), (3.0, inf)])], "<d>")
    assert "<script" not in plot.svg() and "&lt;script&gt;" in plot.svg()
    ElementTree.fromstring(plot.svg())


MODEL = """
import numpy as np
import chainrule as cr


def objective(x: cr.float64["n 5"], y: cr.float64["n"], w: cr.float64["5"]):
    J = np.mean((x @ w - y) ** 2)
    return J
"""


def test_the_command_prints_the_study(tmp_path: Any) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    np.savez(tmp_path / "data.npz", **regression()[2])
    place = f"{tmp_path / 'model.py'}:objective"
    options = ["--data", str(tmp_path / "data.npz"), "--sizes", "2,8", "--predict"]
    done = CliRunner().invoke(
        main, ["batch", place, *options, "--picture", str(tmp_path / "p.svg")]
    )
    assert done.exit_code == 0, done.output
    assert "batches of objective: 600 samples an epoch" in done.output
    assert (tmp_path / "p.svg").read_text().startswith("<svg")
    done = CliRunner().invoke(main, ["batch", place])
    assert done.exit_code == 2 and "there are no examples for x, y" in done.output


@pytest.mark.peers
def test_a_study_of_xla_has_predicted_times(tmp_path: Any) -> None:
    pytest.importorskip("jax")
    (tmp_path / "model.py").write_text(MODEL)
    np.savez(tmp_path / "data.npz", **regression()[2])
    options = ["--data", str(tmp_path / "data.npz"), "--sizes", "2,8,32", "--predict", "--json"]
    place = f"{tmp_path / 'model.py'}:objective"
    done = CliRunner().invoke(main, ["batch", place, *options, "--executor", "xla"])
    assert done.exit_code == 0, done.output
    seconds = [one["seconds"] for one in json.loads(done.output)["batches"]]
    assert 0 < seconds[0] < seconds[1] < seconds[2]
