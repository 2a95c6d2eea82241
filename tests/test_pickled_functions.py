"""Functions that transforms make are pickled by name and made again; every public object is copied,
and pickled, or says what to do."""

from __future__ import annotations

import copy
import functools
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.data import minibatches
from chainrule.errors import ChainruleError, UnsupportedError

X = np.linspace(-1, 1, 12).reshape(4, 3)


def energy(x: Any, scale: Any = 1.0) -> Any:
    return np.sum(np.tanh(x) ** 2) * scale


def rowwise(x: Any) -> Any:
    return np.tanh(x) * 2.0


def rebound(x: Any) -> Any:
    return np.exp(x)


rebound = cr.compile(rebound, executor="reference")


@cr.compile
def decorated(x: Any) -> Any:
    return np.exp(-x)


class Layer:
    def __init__(self) -> None:
        self.W = np.arange(3.0)

    @cr.compile
    def forward(self: Any, x: Any) -> Any:
        return x * self.W

    energy = cr.grad(lambda self, x: np.sum(x * x * self.W), wrt="x")


def mean(x: cr.float64["n 3"], W: cr.float64["3"]) -> Any:  # type: ignore
    return np.mean((x @ W) ** 2)


def objective(x: cr.float64["n 3"], W: cr.float64["3"]) -> Any:  # type: ignore
    J = np.sum((x @ W) ** 2)
    return J


MADE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "grad": (cr.grad(energy), energy),
    "grad of an argument": (cr.grad(energy, wrt="scale"), energy),
    "a batch of gradients": (cr.vmap(cr.grad(energy)), energy),
    "value_and_grad": (cr.value_and_grad(energy, executor="reference"), energy),
    "jacobian": (cr.jacobian(rowwise), rowwise),
    "jacfwd": (cr.jacfwd(rowwise), rowwise),
    "jacrev": (cr.jacrev(rowwise), rowwise),
    "hessian": (cr.hessian(energy), energy),
    "vmap": (cr.vmap(rowwise, in_axes=0, out_axes=1), rowwise),
    "compile": (cr.compile(rowwise, executor="reference"), rowwise),
    "compiled gradient": (cr.compile(cr.grad(energy), executor="reference"), energy),
    "a name of its own": (rebound, rebound),
    "a decorated function": (decorated, decorated),
    "a partial": (functools.partial(cr.grad(energy), scale=3.0), energy),
}


@pytest.mark.parametrize("case", MADE)
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_a_function_that_was_made_is_pickled_and_gives_the_same(case: str, protocol: int) -> None:
    made, _ = MADE[case]
    again = pickle.loads(pickle.dumps(made, protocol))
    options = {"scale": 2.0} if case == "grad of an argument" else {}
    for one, other in zip(_leaves(made(X, **options)), _leaves(again(X, **options)), strict=True):
        assert one.tobytes() == other.tobytes()
    if case != "a partial":
        assert copy.copy(made) is made and copy.deepcopy([made])[0] is made
    assert energy.__code__.co_code not in pickle.dumps(made, protocol)


def _leaves(found: Any) -> list[np.ndarray]:
    return [np.asarray(one) for one in (found if isinstance(found, tuple) else (found,))]


def test_processes_may_be_sent_a_gradient() -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        (found,) = pool.map(cr.grad(energy, executor="reference"), [X])
    assert found.tobytes() == cr.grad(energy, executor="reference")(X).tobytes()


def test_a_function_without_a_name_says_what_to_do() -> None:
    def inner(x: Any) -> Any:
        return np.sum(x)

    for function, named in ((inner, "inner"), (lambda x: np.sum(x), "<lambda>")):
        with pytest.raises(UnsupportedError) as caught:
            pickle.dumps(cr.grad(function))
        assert caught.value.what.startswith(f"cr.grad({named}) cannot be pickled: ")
        assert "at the top of a module" in caught.value.hint


def test_the_pull_of_vjp_says_what_to_do() -> None:
    pull = cr.vjp(energy, X)[1]
    assert copy.deepcopy(pull) is pull
    with pytest.raises(UnsupportedError, match=r"the pull of cr\.vjp cannot"):
        pickle.dumps(pull)


def test_a_function_that_was_made_is_a_method_of_a_class() -> None:
    layer = Layer()
    assert np.array_equal(layer.forward(X), X * layer.W)
    assert np.array_equal(layer.energy(X), 2 * X * layer.W)
    assert Layer.forward.__name__ == "forward"


GRAPH = cr.trace(objective)
STEP = cr.training_step(objective, wrt="W", optimizer=cr.adam(0.1), executor="reference")
TRAINER = cr.Trainer(
    objective, {"W": np.ones(3)}, cr.sgd(0.1), {"x": X}, batch_size=2, progress=False
)

# Every class whose objects users hold: those that are pickled, and those that say what to do.
PICKLED: dict[str, Any] = {
    "ArrayType": cr.float64["n 3"],  # type: ignore
    "Devices": cr.Devices.cpu(2, memory="1 GiB"),
    "Drawing": GRAPH.draw(),
    "Measures": cr.evaluate(objective, {"W": np.ones(3)}, {"x": X}),
    "Minibatches": minibatches({"x": X}, 2, key=cr.random.key(0)),
    "Optimizer": cr.adam(0.1),
    "Report": cr.report(GRAPH),
    "Size": cr.size("n"),
    "StateArray": STEP.init(W=np.ones(3))["W"],
    "a key": cr.random.key(0),
    "a schedule": cr.schedules.cosine(0.1, 100),
}
MEAN = cr.training_step(mean, wrt="W", optimizer=cr.sgd(0.1), executor="reference")
MEAN_STATE = MEAN.init(W=np.ones(3))
REFUSED: dict[str, Any] = {
    "BatchStudy": cr.batch_study(MEAN, MEAN_STATE, {"x": X}, (1, 2), measure=False),
    "CompiledGraph": GRAPH.compile(executor="reference"),
    "Equations": GRAPH.equations(),
    "GradientNoise": cr.gradient_noise(MEAN, MEAN_STATE, x=X),
    "Graph": GRAPH,
    "MemoryReport": GRAPH.memory(n=4),
    "Model": cr.Model(
        "net", {"x": cr.float64[3]}, {}, {}, lambda trace, inputs, *_: (inputs[0], {})
    ),  # type: ignore
    "Node": GRAPH["W"],
    "Run": GRAPH.run(x=X, W=np.ones(3)),
    "State": STEP.init(W=np.ones(3)),
    "Trainer": TRAINER,
    "ParallelPlan": cr.plan_parallel(STEP, cr.Devices.cpu(2), batch=4, micro_batches=2),
    "ParallelStep": cr.parallel(STEP, micro_batches=2, stages=2),
    "TrainingStep": STEP,
    "Ways": cr.ways(MEAN, batch=4),
    "a cost": GRAPH.cost(n=4),
    "a plan": STEP.plan(n=4),
}


def test_the_tables_have_every_public_class() -> None:
    classes = {name for name in cr.__all__ if isinstance(getattr(cr, name), type)}
    assert classes - set(PICKLED) - set(REFUSED) == {"Array", "Checkpoints", "Placement"}


@pytest.mark.parametrize("name", PICKLED)
def test_what_is_data_is_pickled_and_copied(name: str) -> None:
    one = PICKLED[name]
    for other in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert str(other) == str(one)


@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_a_graph_says_what_to_do(name: str) -> None:
    one = REFUSED[name]
    with pytest.raises(ChainruleError) as caught:
        pickle.dumps(one)
    assert "cannot be pickled" in caught.value.what or "nor pickled" in caught.value.what
    assert len(caught.value.hint) > 20
    for copied in (copy.copy, copy.deepcopy):
        if name == "Trainer":
            with pytest.raises(ChainruleError, match="neither copied nor pickled"):
                copied(one)
        else:
            assert str(copied(one)) == str(one)


def test_a_folder_of_checkpoints_says_what_to_do(tmp_path: Any) -> None:
    kept = cr.Checkpoints(tmp_path, STEP)
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ChainruleError) as caught:
            attempt(kept)
        assert "pickled" in caught.value.what
