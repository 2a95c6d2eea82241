"""Parameters in containers: trained without annotations, saved, and loaded into containers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32
from chainrule.errors import DataFileError, InputError

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((64, 3)).astype(np.float32)
Y = X[:, :1] * 2


def params() -> list[dict[str, np.ndarray]]:
    shapes = [(3, 4), (4, 1)]
    return [{"W": RANDOM.standard_normal(s).astype(np.float32), "b": np.zeros(s[1:], np.float32)}
            for s in shapes]  # fmt: skip


def loss(params: Any, x: float32["n 3"], y: float32["n 1"]):
    h = x
    for layer in params:
        h = np.tanh(h @ layer["W"] + layer["b"])
    J = np.mean((h - y) ** 2)
    return J


def unannotated(params, x: float32["n 3"], y: float32["n 1"]):
    return loss(params, x, y)


def test_a_trainer_takes_the_types_of_its_parameters() -> None:
    given = params()
    trainer = cr.Trainer(
        unannotated, {"params": given}, cr.adam(0.05), {"x": X, "y": Y}, progress=False
    )
    lines = trainer.fit(20)
    assert lines[-1]["objective"] < lines[0]["objective"]
    trained = trainer.state["params"]
    assert [sorted(layer) for layer in trained] == [["W", "b"]] * 2
    assert cr.grad(unannotated)(trained, X, Y)[0]["W"].shape == (3, 4)


def test_an_annotation_counts_before_what_is_given() -> None:
    def annotated(W: float32["3 1"], x: float32["n 3"], y: float32["n 1"]):
        J = np.mean((x @ W - y) ** 2)
        return J

    with pytest.raises(InputError, match="W"):
        cr.Trainer(annotated, {"W": np.ones((3, 2), np.float32)}, cr.adam(), {"x": X, "y": Y})


def test_a_bare_container_is_told_how_it_is_given() -> None:
    with pytest.raises(InputError, match="arrays by name, got list") as caught:
        cr.Trainer(unannotated, params(), cr.adam(), {"x": X, "y": Y})  # type: ignore[arg-type]
    assert '{"params": params}' in str(caught.value)


def test_weights_are_loaded_into_containers(tmp_path) -> None:
    given = params()
    path = cr.save_weights(tmp_path / "w.safetensors", {"params": given, "scale": np.float32(2)})
    assert list(cr.load_weights(path))[:2] == ["params[0].W", "params[0].b"]
    like = {"params": params(), "scale": np.float32(0)}
    found = cr.load_weights(path, like=like)
    assert found["scale"] == 2 and isinstance(found["params"], list)
    for one, other in zip(found["params"], given, strict=True):
        assert one.keys() == other.keys()
        np.testing.assert_array_equal(one["W"], other["W"])


@pytest.mark.parametrize(
    ("like", "text"),
    [
        ({"params": [{"W": np.ones((3, 4))}]}, r"of params\[1\].W, the file has float64\[4, 1\], "
         "like= has none"),
        ({"params": [{"W": np.ones((3, 4))}, {"W": np.ones((4, 2))}]}, r"= has float64\[4, 2\]"),
        ({"q": 1.0}, "of q, the file has none"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused(tmp_path, like, text) -> None:
    saved = {"params": [{"W": np.ones((3, 4))}, {"W": np.ones((4, 1))}]}
    path = cr.save_weights(tmp_path / "w.safetensors", saved)
    with pytest.raises(DataFileError, match=text):
        cr.load_weights(path, like)


def test_the_objective_of_several_outputs_is_named() -> None:
    def several(params, x: float32["n 3"], y: float32["n 1"]):
        J = loss(params, x, y)
        largest = np.max(np.abs(y))
        return J, largest

    given: Any = (several, {"params": params()}, cr.adam(0.05), {"x": X, "y": Y})
    with pytest.raises(InputError, match="2 outputs"):
        cr.Trainer(*given, progress=False)
    trainer = cr.Trainer(*given, of="J", progress=False)
    assert trainer.step.objective == "J"
    lines = trainer.fit(10)
    assert lines[-1]["objective"] < lines[0]["objective"]
    with pytest.raises(InputError, match="of= was given beside a training step"):
        cr.Trainer(trainer.step, {"params": params()}, None, {"x": X, "y": Y}, of="J")
