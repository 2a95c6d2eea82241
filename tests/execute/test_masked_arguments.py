"""Arrays that NumPy takes for plain ones, and that compute otherwise, are refused at every door."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import errors, float64
from chainrule.data import minibatches
from chainrule.testing import check_gradients

X = np.arange(6.0).reshape(3, 2) / 10
W = np.array([0.5, 0.25])


class Metres(np.ndarray):
    """An array with a unit, as those of astropy, unyt and pint."""

    def __array_ufunc__(self, *_, **__):
        raise AssertionError("computed")


def masked():
    return np.ma.masked_array(X, X > 0.3)


def objective(x: float64["n 2"], w: float64["2"]):
    return np.sum((x @ w) ** 2)


def of_parts(parts):
    return np.sum(parts["x"] * 2)


GRAPH = cr.trace(objective)
OF_PARTS = cr.trace(of_parts, parts={"x": X})
square = cr.primitive(np.square, partials=(lambda out, x: 2 * x,))


def step(executor):
    return cr.training_step(GRAPH, wrt="w", optimizer=cr.sgd(0.1), executor=executor)


def stepped(executor, x):
    one = step(executor)
    state = one.init(w=W)
    one(state, x=X)
    return one(state, x=x)


def trained(x, executor):
    trainer = cr.Trainer(step(executor), {"w": W}, data={"x": x}, batch_size=3, progress=False)
    trainer.fit(epochs=1)


def state_of(x):
    return step("reference").restore({"w": x[0]})


DOORS = {
    "run": lambda x, _: GRAPH.run(x=x, w=W),
    "run, in a list": lambda x, _: GRAPH.run(x=[x[0], x[1]], w=W),
    "run, in a container": lambda x, _: OF_PARTS.run(parts={"x": x}),
    "a compiled graph": lambda x, executor: cr.compile(GRAPH, executor=executor)(x=x, w=W),
    "compile": lambda x, executor: cr.compile(objective, executor=executor)(x, W),
    "grad": lambda x, executor: cr.grad(objective, executor=executor)(x, W),
    "vjp": lambda x, executor: cr.vjp(lambda x: x * 2, x, executor=executor),
    "a seed": lambda x, executor: cr.vjp(lambda x: x * 2, X, executor=executor)[1](x),
    "a tangent": lambda x, executor: cr.jvp(lambda x: x * 2, (X,), (x,), executor=executor),
    "vmap": lambda x, executor: cr.vmap(np.sin, executor=executor)(x),
    "jacobian": lambda x, executor: cr.jacobian(np.sin, executor=executor)(x),
    "hessian": lambda x, executor: cr.hessian(np.sum, executor=executor)(x),
    "scan": lambda x, _: cr.scan(lambda c, row: (c, row), 0.0, x),
    "a constant": lambda x, _: cr.trace(lambda w: w * x, W),
    "a constant in a list": lambda x, _: cr.trace(lambda w: w * [x[0], x[1]], W),
    "what a function returns": lambda x, _: cr.trace(lambda w: (w, x), W),
    "a parameter": lambda x, executor: step(executor).init(w=x[0]),
    "a saved state": lambda x, _: state_of(x),
    "a batch": lambda x, executor: stepped(executor, x),
    "minibatches": lambda x, _: list(minibatches({"x": x}, 2, shuffle=False)),
    "Trainer": trained,
    "evaluate": lambda x, executor: cr.evaluate(GRAPH, {"w": W}, {"x": x}, executor=executor),
    "evaluate, of batches": lambda x, executor: cr.evaluate(
        GRAPH, {"w": W}, [{"x": X}, {"x": x}], executor=executor
    ),
    "nonfinite": lambda x, _: GRAPH.nonfinite(x=x, w=W),
    "a primitive of one's own": lambda x, _: square(x),
    "check_gradients": lambda x, _: check_gradients(objective, x, W),
    "weights": lambda x, _: cr.save_weights("nothing.safetensors", {"x": x}),
}


@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("door", DOORS)
def test_a_masked_array_is_refused_at_every_door(door, executor):
    with pytest.raises(errors.UnsupportedError, match="a MaskedArray, which would be") as caught:
        DOORS[door](masked(), executor)
    assert "a mask as an array of its own" in caught.value.hint


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(
    "make", [lambda: np.matrix(X), lambda: X.view(Metres)], ids=["matrix", "units"]
)
@pytest.mark.parametrize("door", ["run", "compile", "grad", "a batch", "minibatches", "Trainer"])
def test_matrices_and_arrays_with_units_are_refused(door, make):
    with pytest.raises(errors.UnsupportedError, match="would be taken for a plain array"):
        DOORS[door](make(), "native")


@pytest.mark.parametrize(
    "value",
    [X.astype(object), X.astype(complex), np.zeros(3, [("a", float), ("b", float)])],
    ids=["objects", "complex", "structured"],
)
@pytest.mark.parametrize("door", ["run", "compile", "grad", "a batch", "a compiled graph"])
def test_arrays_of_no_real_numbers_are_refused(door, value):
    with pytest.raises((errors.InputError, errors.TypeSpecError)) as caught:
        DOORS[door](value, "native")
    assert "x" in caught.value.what


def test_arrays_in_files_are_plain(tmp_path):
    np.save(tmp_path / "x.npy", X)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert type(x) is np.memmap
    assert GRAPH.run(x=x, w=W)["out"] == cr.compile(objective)(x, W) == objective(X, W)


def test_the_advice_is_right_when_followed():
    x = masked()
    mask = np.ma.getmaskarray(x)

    def total(x, mask):
        return np.sum(np.where(mask, 0, x))

    assert cr.compile(total)(np.asarray(x), mask) == pytest.approx(x.sum())
