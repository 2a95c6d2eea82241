"""Gradients of single examples, and the noise of gradients, against brute force."""

from __future__ import annotations

from math import inf, isnan
from typing import Any

import numpy as np
import pytest
from noisy_programs import Program, programs

import chainrule as cr
from chainrule.advice.noise.estimates import interval, noise_of, two_batch_noise

PROGRAMS = programs()


def each_by_itself(program: Program) -> dict[str, np.ndarray]:
    """The gradient of every example by every parameter, from batches of one."""
    step = program.step()
    graph = step.differentiated
    rows = len(program.batch["y"])
    found: dict[str, list[np.ndarray]] = {name: [] for name in step.parameters}
    for row in range(rows):
        one = {name: array[row : row + 1] for name, array in program.batch.items()}
        run = graph.run({**one, **program.parameters})
        for name in step.parameters:
            found[name].append(run.gradient(name))
    return {name: np.array(one) for name, one in found.items()}


def flat(gradients: dict[str, np.ndarray]) -> np.ndarray:
    rows = len(next(iter(gradients.values())))
    return np.concatenate([one.reshape(rows, -1) for one in gradients.values()], axis=1)


NATIVE = ("mlp",)  # in continuous integration


@pytest.mark.parametrize(
    ("name", "executor"),
    [
        *((name, "reference") for name in PROGRAMS),
        *(
            pytest.param(
                name,
                "native",
                marks=pytest.mark.slow if name in NATIVE else pytest.mark.exhaustive,
            )
            for name in PROGRAMS
        ),
    ],
)
def test_noise_is_that_of_explicit_gradients(name: str, executor: str) -> None:
    program = PROGRAMS[name]
    step = program.step(executor)
    each = each_by_itself(program)
    found = cr.gradient_noise(step, step.init(**program.parameters), program.batch, chunk=3)
    for parameter, gradients in [*each.items(), ("", flat(each))]:
        rows = gradients.reshape(len(gradients), -1)
        trace = float(np.sum(np.var(rows, axis=0, ddof=1)))
        square = float(np.sum(rows.mean(0) ** 2)) - trace / len(rows)
        noise = found.parameters[parameter].noise if parameter else found.total
        assert noise.trace == pytest.approx(trace, rel=1e-10)
        assert noise.square == pytest.approx(square, rel=1e-10, abs=1e-10 * trace)
    chunks = [flat(each)[first : first + 3].mean(0) for first in range(0, len(rows) - 2, 3)]
    small = float(np.mean([np.sum(one**2) for one in chunks]))
    whole = float(np.sum(flat(each).mean(0) ** 2))
    assert found.two_batches.trace == pytest.approx(
        two_batch_noise(3, len(rows), small, whole).trace, rel=1e-9
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_interval_is_that_of_leaving_examples_out(name: str) -> None:
    """Leave-one-out estimates are computed from norms and slopes; here from gradients."""
    program = PROGRAMS[name]
    step = program.step()
    rows = flat(each_by_itself(program))
    found = cr.gradient_noise(step, step.init(**program.parameters), program.batch, confidence=0.5)
    mean = rows.mean(0)
    low, high = interval(
        np.sum(rows**2, axis=1), rows @ mean, 0 * rows[:, 0], mean @ mean, mean @ mean, 0.0, 0.5
    )
    assert found.low == pytest.approx(low, rel=1e-6)
    assert (found.high == high == inf) or found.high == pytest.approx(high, rel=1e-6)


def test_leaving_examples_out_is_the_jackknife() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9, 5)) + 1
    shift = rng.normal(size=5)
    mean = rows.mean(0)
    whole = mean + shift
    said = interval(
        np.sum(rows**2, axis=1),
        rows @ mean,
        rows @ shift,
        mean @ mean,
        whole @ whole,
        shift @ shift,
        0.9,
    )
    moved = rows + shift
    other = interval(
        np.sum(moved**2, axis=1),
        moved @ whole,
        0 * rows[:, 0],
        whole @ whole,
        whole @ whole,
        0,
        0.9,
    )
    assert said == pytest.approx(other)


def test_dropout_has_a_mask_for_each_example() -> None:
    def objective(x: cr.float64["n 4"], y: cr.int64["n"], W, V, key=None):
        J = cr.cross_entropy(cr.dropout(np.tanh(x @ W), 0.5, key=key) @ V, y)
        return J

    def losses(x: Any, y: Any, W: Any, V: Any, key: Any) -> Any:
        h = cr.dropout(np.tanh(x @ W), 0.5, key=key)
        return cr.cross_entropy(h @ V, y, reduction="none")

    rng = np.random.default_rng(1)
    W, V, key = rng.normal(size=(4, 6)), rng.normal(size=(6, 3)), cr.random.key(3)
    x, y = rng.normal(size=(5, 4)), rng.integers(0, 3, 5)
    types: Any = {"W": cr.float64[4, 6], "V": cr.float64[6, 3], "key": key}
    step = cr.training_step(objective, ("W", "V"), cr.sgd(0.1), executor="reference", **types)
    state = step.init(W=W, V=V)
    found = cr.gradient_noise(step, state, x=x, y=y, key=key, chunk=5)
    explicit = cr.jacobian(losses, wrt="W")(x, y, W, V, key)
    assert found.squares["W"] == pytest.approx(np.sum(np.asarray(explicit) ** 2, axis=(1, 2)))


def refused(function: Any, **types: Any) -> str:
    given: Any = {"x": cr.float64["n 4"], "y": cr.int64["n"], "W": cr.float64[4, 3], **types}
    step = cr.training_step(function, "W", cr.sgd(0.1), executor="reference", **given)
    rng = np.random.default_rng(0)
    state = step.init(W=rng.normal(size=(4, 3)))
    with pytest.raises(cr.errors.InputError) as caught:
        cr.gradient_noise(step, state, x=rng.normal(size=(6, 4)), y=rng.integers(0, 3, 6))
    return str(caught.value)


def normalised(x, y, W):
    z = x @ W
    z = (z - np.mean(z, axis=0)) / np.std(z, axis=0)
    return cr.cross_entropy(z, y)


def test_where_examples_are_mixed_the_line_is_named() -> None:
    text = refused(normalised)
    assert "subtract(z) depends on several examples at once" in text
    assert "z = (z - np.mean(z, axis=0)) / np.std(z, axis=0)" in text
    assert "no batch normalisation" in text


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x, y, W: cr.cross_entropy(x @ W, y, reduction="sum"), "grows with n"),
        (lambda x, y, W: np.exp(cr.cross_entropy(x @ W, y)), "no linear function of a sum"),
        (lambda x, y, W: cr.cross_entropy(x @ W, y, ignore_index=2), "no linear function"),
        (lambda x, y, W: np.max(x @ W), "several examples at once"),
        (lambda x, y, W: np.mean((x @ W) @ (x @ W).T), "several examples at once"),
        (lambda x, y, W: np.sum((x @ W) ** 2) + np.sum(W**2), "adds what grows with the batch"),
        (lambda x, y, W: np.mean(np.cumsum(x @ W, axis=0)), "several examples at once"),
        (lambda x, y, W: np.mean((x @ W) - np.roll(x @ W, 1, axis=0)), "several examples"),
        (lambda x, y, W: np.sum(W**2), "does not depend on the batch"),
        (
            lambda x, y, W: np.sum(
                cr.scan(lambda h, row: (np.tanh(h + row @ W), None), np.zeros(3), x)[0]
            ),
            "goes from example to example",
        ),
    ],
)
def test_what_is_no_mean_over_examples_is_refused(function: Any, told: str) -> None:
    assert told in refused(function)


def test_one_example_has_no_noise() -> None:
    program = PROGRAMS["mlp"]
    step = program.step()
    one = {name: array[:1] for name, array in program.batch.items()}
    with pytest.raises(cr.errors.InputError, match="2 examples at least, got n = 1"):
        cr.gradient_noise(step, step.init(**program.parameters), one)
    assert isnan(noise_of(np.ones(1), 1.0, 1.0).trace)


def test_the_report_is_shown_in_three_ways() -> None:
    program = PROGRAMS["mlp"]
    step = program.step()
    found = cr.gradient_noise(step, step.init(**program.parameters), program.batch)
    text, html, data = str(found), found._repr_html_(), found.json()
    assert "W1" in text and "critical batch" in text and "95% confidence" in text
    assert '<th scope="col" class="number">noise scale</th>' in html
    assert data["parameters"]["W1"]["elements"] == 32
    assert data["total"]["trace"] == pytest.approx(found.total.trace)


def coverage(problems: int, seed: int) -> float:
    """How often an interval of 95 % has the noise scale of a problem that is known."""
    rng = np.random.default_rng(seed)
    inside = 0
    for _ in range(problems):
        count, elements = int(rng.integers(64, 400)), int(rng.integers(4, 120))
        scale = float(np.exp(rng.uniform(np.log(5), np.log(2 * count))))
        deviations = np.exp(rng.uniform(0, 1) * rng.normal(size=elements))
        direction = rng.normal(size=elements)
        direction *= np.sqrt(np.sum(deviations**2) / scale) / np.linalg.norm(direction)
        rows = direction + deviations * rng.normal(size=(count, elements))
        mean = rows.mean(0)
        own = float(mean @ mean)
        norms = np.sum(rows**2, axis=1)
        low, high = interval(norms, rows @ mean, 0 * norms, own, own, 0.0, 0.95)
        inside += low <= scale <= high
    return inside / problems


def test_intervals_have_the_truth_as_often_as_they_say() -> None:
    assert 0.88 <= coverage(120, seed=0) <= 1.0  # three standard errors are 6 %


@pytest.mark.exhaustive
def test_of_a_thousand_intervals_93_to_97_percent_have_the_truth() -> None:
    assert 0.93 <= coverage(1000, seed=1) <= 0.97
