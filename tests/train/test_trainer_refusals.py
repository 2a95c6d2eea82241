"""What does not fit a trainer is explained, before a step where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trainings import BATCH, EXECUTORS, data, plain, trainer, weights

import chainrule as cr
from chainrule import float64
from chainrule.errors import (
    IndexOutOfRangeError,
    InputError,
    NameLookupError,
    NotDifferentiableError,
)

n = cr.size("n")
KEY = cr.random.key(7)


def rows(**changes: Any) -> dict[str, Any]:
    return {**data(), **changes}


def named_as_safetensors_does() -> Any:
    def objective(x: float64[n, 5], __metadata__: float64[5]):
        J = np.mean((x @ __metadata__) ** 2)
        return J

    given = {"__metadata__": np.ones(5)}
    return cr.Trainer(objective, given, cr.sgd(0.1), {"x": data()["x"]})


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str, str]] = {
    "a name that the objective lacks": (
        lambda: trainer(data=rows(z=np.zeros(100))),
        InputError,
        "the data have 'z', and plain has no input of that name",
        "its inputs are: x, y",
    ),
    "nothing to train": (lambda: trainer(wrt=()), InputError, "wrt=()", "for all parameters"),
    "an empty list to train": (lambda: trainer(wrt=[]), InputError, "wrt=[]", "wrt='W1'"),
    "a folder without a name": (
        lambda: trainer(folder=""),
        InputError,
        'folder="": a folder has a name',
        'folder="run"',
    ),
    "a parameter that safetensors cannot have": (
        named_as_safetensors_does,
        InputError,
        "'__metadata__' cannot be saved",
        "another name",
    ),
    "a name that is nearly one": (
        lambda: trainer(data={"x": data()["x"], "Y": data()["y"]}),
        InputError,
        "the data have 'Y'",
        "perhaps",
    ),
    "an input that there is no value for": (
        lambda: trainer(data={"x": data()["x"]}),
        InputError,
        "there is no value for y: int64[n]: the data have x",
        "a row for each example",
    ),
    "a parameter that is missing": (
        lambda: cr.Trainer(plain, {"W1": weights()["W1"]}, cr.sgd(0.1), data()),
        InputError,
        "there is no value for W2: float64[7, 3]",
        "among the parameters",
    ),
    "a parameter that is data": (
        lambda: trainer(data=rows(W1=np.zeros((100, 7)))),
        InputError,
        "W1 is in the data and in the parameters",
        "one of the two",
    ),
    "a parameter that the objective lacks": (
        lambda: cr.Trainer(plain, {**weights(), "W3": np.zeros(3)}, cr.sgd(0.1), data()),
        InputError,
        "the parameters have 'W3'",
        "W1, W2",
    ),
    "another dtype": (
        lambda: trainer(data=rows(x=data()["x"].astype(np.float32))),
        InputError,
        "the input x of plain must be float64[n, 5], got float32[8, 5]",
        "x.astype(np.float64)",
    ),
    "another dtype in the validation": (
        lambda: trainer(validation=rows(x=data()["x"].astype(np.float32))),
        InputError,
        "must be float64[n, 5], got float32[8, 5]",
        "x.astype(np.float64)",
    ),
    "unequal numbers of rows": (
        lambda: trainer(data=rows(y=np.zeros(99, np.int64))),
        ValueError,
        "different numbers of rows",
        "row i of each array",
    ),
    "no rows": (
        lambda: trainer(data=data(0)),
        InputError,
        "the data have no rows",
        "at least one",
    ),
    "no rows to validate with": (
        lambda: trainer(validation=data(0)),
        InputError,
        "the data have no rows",
        "at least one",
    ),
    "no batches": (
        lambda: trainer(data=lambda epoch: []).fit(1),
        InputError,
        "the data have no batches in epoch 1",
        "drop_last",
    ),
    "minibatches of one epoch": (
        lambda: trainer(data=cr.data.minibatches(data(), 8, KEY)),
        InputError,
        "got Minibatches, whose order is that of one epoch",
        "data=lambda epoch: cr.data.minibatches(",
    ),
    "no data": (
        lambda: trainer(data=None),
        InputError,
        "data are arrays by name, batches or a function of the epoch, got NoneType",
        "data=lambda epoch",
    ),
    "batches of too many arrays": (
        lambda: trainer(data=[(data()["x"], data()["y"], data()["y"])]).fit(1),
        InputError,
        "a batch has 3 arrays, and they would be x, y",
        '{"x": x, "y": y}',
    ),
    "batches of too few arrays": (
        lambda: trainer(data=[data()["x"]]).fit(1),
        InputError,
        "there is no value for y",
        "among the data",
    ),
    "batches that can be read once": (
        lambda: trainer(data=iter([data()])),
        InputError,
        "got list_iterator, which can be read only once",
        "data=lambda epoch",
    ),
    "batches that are texts": (
        lambda: trainer(data=["x"]).fit(1),
        InputError,
        "a batch has arrays, got str",
        '{"x": x, "y": y}',
    ),
    "a function that gives no batches": (
        lambda: trainer(data=lambda epoch: 3).fit(1),
        InputError,
        "data(1) is int, and not the batches of an epoch",
        "data=lambda epoch",
    ),
    "no optimizer": (
        lambda: cr.Trainer(plain, weights(), data=data()),
        InputError,
        "the optimizer is missing",
        "cr.adam(1e-3)",
    ),
    "an optimizer beside a step": (
        lambda: cr.Trainer(
            cr.training_step(plain, ("W1", "W2"), cr.sgd(0.1)), weights(), cr.sgd(0.1), data()
        ),
        InputError,
        "optimizer= was given beside a training step",
        "leave optimizer out",
    ),
    "no parameters": (
        lambda: cr.Trainer(plain, {}, cr.sgd(0.1), data()),
        InputError,
        "parameters must be arrays by name, got none",
        "what training begins with",
    ),
    "accuracy of something else": (
        lambda: trainer(accuracy=("h", "o")),
        InputError,
        "accuracy compares scores [n, classes] with integer labels [n], and h is float64[n, 7]",
        'accuracy=("o", "y")',
    ),
    "accuracy of one name": (
        lambda: trainer(accuracy="o"),
        InputError,
        "accuracy is a pair of names, got 'o'",
        'accuracy=("o", "y")',
    ),
    "accuracy of an unknown name": (
        lambda: trainer(accuracy=("scores", "y")),
        NameLookupError,
        "scores",
        "",
    ),
    "an integer to train": (
        lambda: trainer(wrt=("y",)),
        NotDifferentiableError,
        "y",
        "",
    ),
    "parts that are not equal": (
        lambda: trainer(data=data(99), micro_batches=2),
        InputError,
        "a batch with n = 3 does not split into 2 equal parts",
        "",
    ),
    "another word for nonfinite": (
        lambda: trainer(nonfinite="always"),
        InputError,
        "nonfinite='always'",
        "'auto', 'every step', 'off'",
    ),
    "another word for resume": (
        lambda: trainer(resume="yes"),
        InputError,
        "resume='yes'",
        "'auto', True, False",
    ),
    "saving without a folder": (
        lambda: trainer(save_every=10),
        InputError,
        "save_every=10 without a folder",
        'folder="run"',
    ),
    "a batch size of 0": (
        lambda: trainer(batch_size=0),
        InputError,
        "batch_size=0: an integer of at least 1",
        "",
    ),
    "half an epoch": (
        lambda: trainer().fit(1.5),  # type: ignore[arg-type]
        InputError,
        "number=1.5: an integer of at least 0",
        "",
    ),
    "a seed for a key": (lambda: trainer(key=3), TypeError, "the number 3 is no key", "key(seed)"),
    "what to predict": (
        lambda: trainer().predict(x=data()["x"]),
        InputError,
        "no value was chosen to predict",
        'output="o"',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_explained(case: str):
    provoke, kind, what, hint = REFUSED[case]
    with pytest.raises(kind) as caught:
        provoke()
    error: Any = caught.value
    assert what in error.what
    assert hint in error.hint


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_label_that_is_no_class_is_told_with_its_value_and_its_batch(executor: str):
    def batches(epoch: int) -> Any:
        bad = data()
        bad["y"][30] = 12
        return cr.data.minibatches(bad, BATCH, shuffle=False)

    made = trainer(data=batches, executor=executor)
    with pytest.raises(IndexOutOfRangeError) as caught:
        made.fit(1)
    assert "index 12 (at position 6 of the indices) is out of range" in caught.value.what
    assert caught.value.__notes__ == ["in batch 4 of epoch 1"]
    assert made.state.steps == 3
