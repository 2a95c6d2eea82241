"""The benchmark times nothing that is wrong, and refuses nothing for the rounding of float32."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
cases, worker, agreement = map(importlib.import_module, ("cases", "worker", "agreement"))
case_module, deep_mlp, kinks, mlp, training = map(
    importlib.import_module,
    ("cases.case", "cases.deep_mlp", "cases.kinks", "cases.mlp", "cases.training"),
)

EVERY_CASE = pytest.mark.parametrize("case", cases.TINY, ids=lambda case: case.name)
REFERENCE = case_module.Settings(executor="reference", threads=1)
# Wide enough for its parameters to move far in three steps, as those of the case that is timed do.
DEEP = deep_mlp.training_case("deep", 256, 4, 10, 64)


def tiny(name: str) -> Any:
    return next(case for case in cases.TINY if case.name == f"tiny-{name}")


KNOWN: dict[str, Any] = {}  # what each case should give, by its name


def expected_of(case: Any) -> Any:
    if case.name not in KNOWN:
        KNOWN[case.name] = agreement.expected_results(case, REFERENCE)
    return KNOWN[case.name]


def adam(
    first_rate: float = 0.9,
    second_rate: float = 0.999,
    eps: float = 1e-8,
    corrected: tuple[bool, bool] = (True, True),
    learning_rate: float = deep_mlp.LEARNING_RATE,
    frozen: tuple[int, ...] = (),
) -> Callable[..., Any]:
    """Adam as `deep_mlp.numpy_adam`, with room for mistakes."""

    def prepare(parameters: list[np.ndarray], gradients: list[np.ndarray]) -> Any:
        moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
        count = 0

        def update() -> None:
            nonlocal count
            count += 1
            first_sum = 1 - first_rate**count if corrected[0] else 1
            second_sum = 1 - second_rate**count if corrected[1] else 1
            for index, (p, g, (m, v)) in enumerate(
                zip(parameters, gradients, moments, strict=True)
            ):
                m += (1 - first_rate) * (g - m)
                v += (1 - second_rate) * (g * g - v)
                if index not in frozen:
                    p -= learning_rate * (m / first_sum) / (np.sqrt(v / second_sum) + eps)

        return update

    return prepare


def disagreement_of_training(monkeypatch: pytest.MonkeyPatch, optimizer: Any) -> str | None:
    expected, problem = expected_of(DEEP), DEEP.problem()
    monkeypatch.setattr(deep_mlp, "numpy_adam", optimizer)
    prepared = deep_mlp.numpy_training(problem, REFERENCE)
    return expected.disagreement(agreement.results(DEEP, problem, prepared))


def test_adam_written_otherwise_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    assert disagreement_of_training(monkeypatch, adam()) is None


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    "fault",
    [
        {"first_rate": 0.89},
        {"second_rate": 0.99},
        {"eps": 1e-7},
        {"corrected": (False, True)},
        {"corrected": (True, False)},
        {"learning_rate": 1.002 * deep_mlp.LEARNING_RATE},
        {"frozen": (1,)},
        {"frozen": (6,)},
    ],
    ids=str,
)
def test_a_wrong_adam_is_found_out(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    message = disagreement_of_training(monkeypatch, adam(**fault))
    assert message is not None and " is off by " in message


def test_a_gradient_of_half_a_layer_is_found_out() -> None:
    def halved(params: Any, x: Any, y: Any) -> Any:
        """Backpropagation into the first layer misses half of the second's columns."""
        first, second, *rest = params["hidden"]
        h = np.maximum(x @ first["W"] + first["b"], 0)
        left, right = second["W"][:, :128], second["W"][:, 128:]
        z = np.concatenate([h @ left, cr.stop_gradient(h) @ right], axis=1)
        h = np.maximum(z + second["b"], 0)
        return deep_mlp.objective({"hidden": rest, "output": params["output"]}, h, y)

    problem = DEEP.problem()
    prepared = training.chainrule_training(
        problem, REFERENCE, objective=halved, optimizer=training.adam(1e-3), examples=True
    )
    message = expected_of(DEEP).disagreement(agreement.results(DEEP, problem, prepared))
    assert message is not None


def test_a_training_that_decays_less_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    case = tiny("mlp")
    expected, problem = agreement.expected_results(case, REFERENCE), case.problem()
    monkeypatch.setattr(mlp, "WEIGHT_DECAY", 0.9e-3)
    found = agreement.results(case, problem, mlp.numpy_training(problem, REFERENCE))
    assert expected.disagreement(found) is not None


def test_what_disagrees_is_absent_with_its_reason() -> None:
    build = tiny("mlp").variants["chainrule"]["training_step"]

    def wrong(problem: Any, settings: Any) -> Any:
        labels = {"y": np.zeros_like(problem.arrays["y"])}
        return build(replace(problem, arrays={**problem.arrays, **labels}), settings)

    case = replace(tiny("mlp"), variants={**tiny("mlp").variants, "chainrule": {"way": wrong}})
    ready, absent = worker.prepare(case, ["NumPy", "chainrule"], REFERENCE)
    assert list(ready) == [("NumPy", "by hand")]
    assert absent["chainrule: way"].startswith("disagrees: ")


@pytest.mark.sweep(5)
@pytest.mark.parametrize("fault", [1e-3, np.nan])
@EVERY_CASE
def test_a_result_that_is_a_little_wrong_is_found_out(case: Any, fault: float) -> None:
    expected = expected_of(case)
    assert expected.disagreement(expected.right) is None
    for name, right in expected.right.items():
        message = expected.disagreement({**expected.right, name: right + fault * right})
        assert message is not None and name in message


@EVERY_CASE
def test_rounding_explains_little_where_nothing_is_next_to_a_kink(case: Any) -> None:
    expected = expected_of(case)
    for name, right in expected.right.items():
        assert expected.allowed[name] < 5e-4 * np.linalg.norm(right)


def test_a_sign_that_rounding_decides_is_allowed_either_way() -> None:
    """relu(z) with a z of no more than a float32 error: its gradient is that of z > 0, or none."""
    problem = tiny("hessian-vector").problem()
    x, W1 = problem.arrays["x"].copy(), problem.arrays["W1"]
    x[0] -= W1[:, 0] * (x[0] @ W1[:, 0]) / (W1[:, 0] @ W1[:, 0])  # orthogonal, but for rounding
    case = replace(
        tiny("hessian-vector"), problem=lambda: replace(problem, arrays={**problem.arrays, "x": x})
    )
    assert agreement.expected_results(case, REFERENCE).allowed["HV1"] > 0.01


def test_batches_are_off_the_kinks() -> None:
    problem = DEEP.problem()
    h = problem.arrays["x"].astype(np.float64)
    assert h.shape == (64, 256)
    for layer in problem.parameters["hidden"]:
        z = h @ layer["W"]
        assert np.abs(z).min() > kinks.MARGIN * np.sqrt(np.mean(z**2)) / 2
        h = np.maximum(z, 0)


def test_a_batch_that_cannot_be_off_the_kinks_is_refused() -> None:
    with pytest.raises(ValueError, match="0 of 6 rows"):
        kinks.rows_off_kinks(np.random.default_rng(0), 3, [np.zeros((2, 5), np.float32)])


def test_the_reference_is_the_first_that_has_a_version_in_float64() -> None:
    case = tiny("mlp")
    assert agreement.reference(case) is case.variants["NumPy"]["by hand"]
    with pytest.raises(ValueError, match="tiny-mlp is written for none of NumPy"):
        agreement.reference(replace(case, variants={}))


def test_a_missing_result_and_a_wrong_shape_are_found_out() -> None:
    expected = agreement.Expected({"dx": np.ones(2), "dy": np.ones(2)}, {"dx": 1.0, "dy": 1.0})
    assert expected.disagreement({"dx": np.ones(2)}) == "gives dx; expected dx, dy"
    wrong = expected.disagreement({"dx": np.ones(2), "dy": np.ones((2, 1))})
    assert wrong == "dy has shape (2, 1); expected (2,)"
