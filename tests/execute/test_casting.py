"""Arguments of other dtypes are cast where nothing that matters is lost, and one line says so."""

import warnings

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.errors import CastWarning, InputError


def objective(x: float32["n 3"], y: int64["n"], W: float32["3 4"], b: float32["4"]):
    o = x @ W + b
    J = cr.cross_entropy(o, y)
    return J


X = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
Y = np.array([0, 3, 1, 2])
W, B = np.arange(12.0).reshape(3, 4) / 7, np.ones(4) / 3
SINGLE = {"W": W.astype(np.float32), "b": B.astype(np.float32)}


def caught(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        value = call()
    return value, [one for one in found if issubclass(one.category, CastWarning)]


@EITHER
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint16, ">i4"])
def test_labels_of_fewer_bits_are_labels(dtype, executor):
    graph = cr.trace(objective)
    given = {"x": X, **SINGLE}
    wanted = graph.run(y=Y, executor=executor, **given)["J"]
    found, said = caught(lambda: graph.run(y=Y.astype(dtype), executor=executor, **given)["J"])
    assert found == wanted and len(said) == 1
    text = str(said[0].message).splitlines()
    assert text[0] == f"y of objective is given in {np.dtype(dtype).name}, and cast to int64"
    assert text[-1] == "  try: np.asarray(y, np.int64) says so beforehand"
    again, said = caught(lambda: graph.run(y=Y.astype(dtype), executor=executor, **given)["J"])
    assert again == wanted and not said  # once is enough


@EITHER
def test_every_step_and_compiled_call_takes_them(executor):
    """Also the second of the same types, which is not looked at again."""
    step = cr.training_step(objective, ("W", "b"), cr.sgd(0.1), executor=executor)
    compiled = cr.trace(objective).compile(executor=executor)
    small, data = Y.astype(np.uint8), {"x": np.tile(X, (4, 1)), "y": np.tile(Y, 4)}
    one, other = step.init(SINGLE), step.init(SINGLE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CastWarning)
        for _ in range(3):
            assert step(one, x=X, y=small) == step(other, x=X, y=Y)
            assert compiled(x=X, y=small, **SINGLE) == compiled(x=X, y=Y, **SINGLE)
        assert one["W"].tobytes() == other["W"].tobytes()
        parts = step.micro_batched(2)
        assert parts(one, x=X, y=small) == parts(other, x=X, y=Y)
        eight = {**data, "y": data["y"].astype(np.uint8)}
        trained = []
        for rows in (data, eight):
            trainer = cr.Trainer(
                objective,
                SINGLE,
                cr.sgd(0.1),
                rows,
                batch_size=4,
                accuracy=("o", "y"),
                progress=False,
                executor=executor,
            )
            trainer.fit(2)
            trained.append((trainer.state["W"].tobytes(), trainer.evaluate(rows)))
        assert trained[0] == trained[1]
        assert step(one, x=X, y=Y) == step(other, x=X, y=small)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("y", Y.astype(np.uint64)),  # has numbers that int64 has not
        ("y", Y.astype(float)),
        ("y", Y > 1),
        ("y", Y.astype(np.uint8)[:, None]),
        ("x", X.astype(np.float64)),  # data, which would be cast in every step
        ("x", np.ones((4, 3), np.uint8)),  # perhaps from 0 to 255
    ],
)
def test_what_may_lose_or_mean_something_is_refused(name, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=f"the input {name} of objective must be"):
            cr.trace(objective).run({"x": X, "y": Y, **SINGLE, name: value})


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ">f8"])
def test_parameters_begin_in_the_precision_of_the_program(dtype):
    given = {"W": W.astype(dtype), "b": B.astype(dtype)}
    step = cr.training_step(objective, ("W", "b"), cr.sgd(0.1))
    state, said = caught(lambda: step.init(given))
    assert len(said) == 1
    text = str(said[0].message)
    old = np.dtype(dtype).name
    assert text.startswith(f"W, b of objective are given in {old}, and cast to float32\n  where: ")
    assert f"or annotate {old} to compute in it" in text
    np.testing.assert_array_equal(state["W"], given["W"].astype(np.float32))
    assert state["W"].dtype == np.float32
    _, said = caught(lambda: step.init(SINGLE))
    assert not said
    _, said = caught(lambda: step.init({**SINGLE, "b": given["b"]}))
    assert [str(one.message).split(" of ")[0] for one in said] == ["b"]


def test_trainers_and_evaluation_cast_parameters_too():
    batch = {"x": X, "y": Y}
    wanted = cr.evaluate(objective, SINGLE, batch)
    found, said = caught(lambda: cr.evaluate(objective, {"W": W, "b": B}, batch))
    assert found == wanted and len(said) == 1
    scores, said = caught(lambda: cr.predict(objective, {"W": W, "b": B}, {"x": X}, "o"))
    assert scores.dtype == np.float32 and len(said) == 1
    options = {"wrt": "W", "progress": False}
    trainer, said = caught(
        lambda: cr.Trainer(objective, {"W": W, "b": B}, cr.sgd(0.1), batch, **options)
    )
    assert len(said) == 2 and trainer.evaluate(batch) == wanted


def test_a_number_that_would_become_infinite_is_refused():
    step = cr.training_step(objective, ("W", "b"), cr.sgd(0.1))
    big = np.where(np.eye(3, 4), 1e300, W)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            InputError, match=r"W of objective must be float32\[3, 4\], got float64"
        ):
            step.init(W=big, b=SINGLE["b"])
    with pytest.warns(CastWarning):
        assert np.isinf(step.init(W=np.where(np.eye(3, 4), np.inf, W), b=SINGLE["b"])["W"]).any()


def test_a_state_that_goes_on_keeps_its_types():
    step = cr.training_step(objective, ("W", "b"), cr.sgd(0.1))
    with pytest.raises(InputError, match="got float64"):
        step.restore({"W": W, "b": B})


def test_wider_parameters_train_in_float64():
    def wide(w: float64[3]):
        J = np.sum(w**2)
        return J

    step = cr.training_step(wide, "w", cr.sgd(0.1))
    with pytest.warns(CastWarning, match="w of wide is given in float32, and cast to float64"):
        state = step.init(w=np.ones(3, np.float32))
    assert state["w"].dtype == np.float64


def test_a_budget_counts_the_cast_copy():
    graph = cr.trace(objective)
    needed = graph.memory(n=4, executor="reference").needed_nbytes
    given = {"x": X, **SINGLE}
    tight = graph.compile(executor="reference", memory=needed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CastWarning)
        assert tight(y=Y, **given) > 0
        with pytest.raises(cr.errors.MemoryLimitError):
            tight(y=Y.astype(np.uint8), **given)
        graph.compile(executor="reference", memory=needed + 32)(y=Y.astype(np.uint8), **given)
