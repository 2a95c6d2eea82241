"""No public function takes an array with a mask for a plain one, traced or not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import UnsupportedError

V, M = np.array([0.1, 0.5, 0.9]), np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
INTS = np.array([0, 2, 1])
KEY = cr.random.key(0)
IMAGES = np.ones((1, 1, 4, 4))
SIGNAL = np.ones((1, 1, 4))

GATED = (M, np.ones((4, 3)), np.ones((4, 1)))


def weighted(x: cr.float64["n 3"], w: cr.float64["3"]) -> Any:
    z = x * w
    J = np.sum(z * z)
    return J


def total(x: Any) -> Any:
    return np.sum(x * x)


@cr.custom_derivative
def doubled(x: Any) -> Any:
    return 2 * x


@doubled.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return 2 * primals[0], 2 * tangents[0]


GRAPH = cr.trace(total, V)
STEP = cr.training_step(cr.trace(lambda w: total(w), V), "w", cr.sgd(0.1))
ROWS = np.arange(12.0).reshape(4, 3)
MEAN = cr.training_step(
    lambda x, w: np.mean((x @ w) ** 2), "w", cr.sgd(0.1), x=cr.float64["n 3"], w=cr.float64["3"]
)

# How each function is called with arrays.  Each array in turn gets a mask.
CALLS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "absolute_error": (cr.absolute_error, (V, V)),
    "adaptive_avg_pool1d": (lambda x: cr.adaptive_avg_pool1d(x, 2), (SIGNAL,)),
    "adaptive_avg_pool2d": (lambda x: cr.adaptive_avg_pool2d(x, 2), (IMAGES,)),
    "adaptive_avg_pool3d": (lambda x: cr.adaptive_avg_pool3d(x, 2), (IMAGES,)),
    "adaptive_max_pool1d": (lambda x: cr.adaptive_max_pool1d(x, 2), (SIGNAL,)),
    "adaptive_max_pool2d": (lambda x: cr.adaptive_max_pool2d(x, 2), (IMAGES,)),
    "adaptive_max_pool3d": (lambda x: cr.adaptive_max_pool3d(x, 2), (IMAGES,)),
    "array": (lambda x, y: cr.array([x, y]), (V, V)),
    "array of rows": (lambda x, y: cr.array([[x], [y]]), (V, V)),
    "array of one": (cr.array, (V,)),
    "at": (lambda x, y: cr.at(x)[:1].set(y), (V, V[:1])),
    "at.add": (lambda x, y: cr.at(x)[:1].add(y), (V, V[:1])),
    "at.get": (lambda x: cr.at(x)[:1].get(), (V,)),
    "avg_pool1d": (lambda x: cr.avg_pool1d(x, 2), (SIGNAL,)),
    "avg_pool2d": (lambda x: cr.avg_pool2d(x, 2), (IMAGES,)),
    "avg_pool3d": (lambda x: cr.avg_pool3d(x, 1), (IMAGES,)),
    "batch_norm": (lambda x, m, v: cr.batch_norm(x, m, v, training=True)[0], (M, V, V)),
    "betaln": (cr.betaln, (V, V)),
    "binary_cross_entropy": (cr.binary_cross_entropy, (V, V)),
    "compile": (cr.compile(total), (V,)),
    "compiled graph": (lambda x: GRAPH.compile()(x=x), (V,)),
    "cond": (lambda x: cr.cond(True, np.sin, np.cos, x), (V,)),
    "cond's predicate": (lambda p: cr.cond(p, np.sin, np.cos, V), (np.array(True),)),
    "cond's closure": (lambda x: cr.cond(True, lambda y: x + y, np.cos, V), (V,)),
    "conv1d": (cr.conv1d, (SIGNAL, np.ones((1, 1, 2)))),
    "conv2d": (cr.conv2d, (IMAGES, np.ones((1, 1, 2, 2)))),
    "conv3d": (cr.conv3d, (IMAGES, np.ones((1, 1, 1, 2, 2)))),
    "conv_transpose1d": (cr.conv_transpose1d, (SIGNAL, np.ones((1, 1, 2)))),
    "conv_transpose2d": (cr.conv_transpose2d, (IMAGES, np.ones((1, 1, 2, 2)))),
    "conv_transpose3d": (cr.conv_transpose3d, (IMAGES, np.ones((1, 1, 1, 2, 2)))),
    "cross_entropy": (cr.cross_entropy, (M, INTS[:2])),
    "custom_derivative": (doubled, (V,)),
    "digamma": (cr.digamma, (V,)),
    "dropout": (lambda x: cr.dropout(x, 0.5, key=KEY), (V,)),
    "dropout without a key": (lambda x: cr.dropout(x, 0.5), (V,)),
    "dropout's key": (lambda k: cr.dropout(V, 0.5, key=k), (KEY,)),
    "elu": (cr.elu, (V,)),
    "embedding": (cr.embedding, (M, np.array([0, 1]))),
    "entr": (cr.entr, (V,)),
    "erf": (cr.erf, (V,)),
    "erfc": (cr.erfc, (V,)),
    "erfcx": (cr.erfcx, (V,)),
    "evaluate": (lambda w, x: cr.evaluate(weighted, {"w": w}, {"x": x}), (V, M)),
    "expit": (cr.expit, (V,)),
    "fori_loop": (lambda x: cr.fori_loop(0, 2, lambda i, v: v + i, x), (V,)),
    "gammaln": (cr.gammaln, (V,)),
    "gelu": (cr.gelu, (V,)),
    "grad": (cr.grad(total), (V,)),
    "group_norm": (lambda x: cr.group_norm(x, 1), (IMAGES,)),
    "hessian": (cr.hessian(total), (V,)),
    "huber": (cr.huber, (V, V)),
    "hvp": (lambda x, v: cr.hvp(total, (x,), (v,)), (V, V)),
    "i0e": (cr.i0e, (V,)),
    "i1e": (cr.i1e, (V,)),
    "instance_norm": (cr.instance_norm, (IMAGES,)),
    "jacfwd": (cr.jacfwd(np.sin), (V,)),
    "jacobian": (cr.jacobian(np.sin), (V,)),
    "jacrev": (cr.jacrev(np.sin), (V,)),
    "jvp": (lambda x, t: cr.jvp(np.sin, (x,), (t,)), (V, V)),
    "kl_divergence": (cr.kl_divergence, (V, V)),
    "layer_norm": (cr.layer_norm, (M, V, V)),
    "leaky_relu": (cr.leaky_relu, (V,)),
    "linear": (cr.linear, (M, M.T.copy(), V[:2])),
    "log_ndtr": (cr.log_ndtr, (V,)),
    "log_sigmoid": (cr.log_sigmoid, (V,)),
    "log_softmax": (cr.log_softmax, (M,)),
    "logit": (cr.logit, (V,)),
    "logsumexp": (cr.logsumexp, (M,)),
    "max_pool1d": (lambda x: cr.max_pool1d(x, 2), (SIGNAL,)),
    "max_pool2d": (lambda x: cr.max_pool2d(x, 2), (IMAGES,)),
    "max_pool3d": (lambda x: cr.max_pool3d(x, 1), (IMAGES,)),
    "mean": (cr.mean, (V,)),
    "ndtr": (cr.ndtr, (V,)),
    "norm": (cr.norm, (V,)),
    "one_hot": (lambda x: cr.one_hot(x, 3), (INTS,)),
    "predict": (lambda w, x: cr.predict(weighted, {"w": w}, {"x": x}, "z"), (V, M)),
    "relu": (cr.relu, (V,)),
    "rms_norm": (cr.rms_norm, (M, V)),
    "run": (lambda x: GRAPH.run(x=x), (V,)),
    "scaled_dot_product_attention": (cr.scaled_dot_product_attention, (M, M, M)),
    "scan": (lambda x, c: cr.scan(lambda c, r: (c + r, r), c, x), (V, np.array(0.0))),
    "scan in a container": (lambda x: cr.scan(lambda c, r: (c + r["x"], r), 0.0, {"x": x}), (V,)),
    "sigmoid": (cr.sigmoid, (V,)),
    "silu": (cr.silu, (V,)),
    "softmax": (cr.softmax, (M,)),
    "softplus": (cr.softplus, (V,)),
    "squared_error": (cr.squared_error, (V, V)),
    "std": (cr.std, (V,)),
    "stop_gradient": (cr.stop_gradient, (V,)),
    "trace": (lambda x: cr.trace(total, x), (V,)),
    "trace's closure": (lambda x: cr.trace(lambda y: x * y, V), (V,)),
    "trace's closure on the right": (lambda x: cr.trace(lambda y: y - x, V), (V,)),
    "trace's closure in a function": (lambda x: cr.trace(lambda y: np.maximum(x, y), V), (V,)),
    "trace's closure in a composite": (lambda x: cr.trace(lambda y: cr.huber(y, x), V), (V,)),
    "trace's closure in a list": (lambda x: cr.trace(lambda y: cr.array([y, x]), V), (V,)),
    "trace's closure written": (lambda x: cr.trace(lambda y: cr.at(y)[:].set(x), V), (V,)),
    "trace's closure written into": (lambda x: cr.trace(lambda y: cr.at(x)[:].set(y), V), (V,)),
    "Trainer": (
        lambda w, x: cr.Trainer(
            weighted, {"w": w}, cr.sgd(0.1), {"x": x}, batch_size=2, progress=False
        ).fit(1),
        (V, M),
    ),
    "training_step": (lambda w: STEP.init(w=w), (V,)),
    "batch_study": (
        lambda x: cr.batch_study(MEAN, MEAN.init(w=np.ones(3)), {"x": x}, sizes=(1, 2)),
        (ROWS,),
    ),
    "gradient_noise": (
        lambda x: cr.gradient_noise(MEAN, MEAN.init(w=np.ones(3)), x=x),
        (ROWS,),
    ),
    "noise_along": (
        lambda x: cr.noise_along(MEAN, MEAN.init(w=np.ones(3)), {"x": x}, at=(0,), batch=2),
        (ROWS,),
    ),
    "value_and_grad": (cr.value_and_grad(total), (V,)),
    "var": (cr.var, (V,)),
    "vjp": (lambda x: cr.vjp(np.sin, x), (V,)),
    "vjp's cotangent": (lambda g: cr.vjp(np.sin, V)[1](g), (V,)),
    "vmap": (lambda x: cr.vmap(np.sum)(x), (M,)),
    "while_loop": (lambda x: cr.while_loop(lambda v: np.sum(v) < 9, lambda v: v * 2, x), (V,)),
    "xlogy": (cr.xlogy, (V, V)),
    "binary_cross_entropy_with_logits": (cr.binary_cross_entropy_with_logits, (V, V)),
    "interpolate": (lambda x: cr.interpolate(x, 3), (IMAGES,)),
    "gru": (
        lambda x, w, u: cr.gru(x, {"weight_ih_l0": w, "weight_hh_l0": u}),
        (M, np.ones((3, 3)), V[:, None]),
    ),
    "lstm": (lambda x, w, u: cr.lstm(x, {"weight_ih_l0": w, "weight_hh_l0": u}), GATED),
    "rnn": (lambda x, w, u: cr.rnn(x, {"weight_ih_l0": w, "weight_hh_l0": u}), (M, M, np.eye(2))),
    "solve_triangular": (cr.solve_triangular, (np.eye(3), V)),
    "lu": (lambda x: cr.lu(x)[1], (M,)),
    "expm": (cr.expm, (np.eye(3),)),
    "logcumsumexp": (cr.logcumsumexp, (M,)),
    "fft": (lambda x, y: cr.fft.fft((x, y)), (V, V)),
    "grid_sample": (cr.grid_sample, (IMAGES, np.zeros((1, 1, 1, 2)))),
    "ctc_loss": (
        lambda x, y, n, m: cr.ctc_loss(x, y, n, m),
        (np.zeros((3, 1, 2)), np.array([[1]]), np.array([3]), np.array([1])),
    ),
    "primitive": (cr.primitive(np.sin, name="wave", inputs=("x",)), (V,)),
    "save_weights": (lambda x: cr.save_weights(PLACE[0] / "w.npz", {"w": x}), (V,)),
    "random.bernoulli": (lambda k, p: cr.random.bernoulli(k, p), (KEY, V)),
    "random.bits": (lambda k: cr.random.bits(k, (2,)), (KEY,)),
    "random.categorical": (cr.random.categorical, (KEY, M)),
    "random.cauchy": (cr.random.cauchy, (KEY,)),
    "random.choice": (lambda k, a: cr.random.choice(k, a, (2,)), (KEY, V)),
    "random.choice's p": (
        lambda p: cr.random.choice(KEY, 2, (2,), p=p), (np.array([0.5, 0.5]),),
    ),
    "random.exponential": (cr.random.exponential, (KEY,)),
    "random.fold_in": (lambda k, d: cr.random.fold_in(k, d), (KEY, np.array(3, np.uint32))),
    "random.gumbel": (cr.random.gumbel, (KEY,)),
    "random.laplace": (cr.random.laplace, (KEY,)),
    "random.logistic": (cr.random.logistic, (KEY,)),
    "random.multivariate_normal": (
        lambda k, m, c: cr.random.multivariate_normal(k, m, c), (KEY, V, np.eye(3)),
    ),
    "random.normal": (cr.random.normal, (KEY,)),
    "random.permutation": (lambda k, n: cr.random.permutation(k, n), (KEY, np.array(3))),
    "random.rademacher": (cr.random.rademacher, (KEY,)),
    "random.randint": (lambda k, a, b: cr.random.randint(k, (3,), a, b), (KEY, INTS, INTS + 3)),
    "random.split": (cr.random.split, (KEY,)),
    "random.truncated_normal": (
        lambda k, a, b: cr.random.truncated_normal(k, a, b, (3,)), (KEY, -V, V),
    ),
    "random.uniform": (
        lambda k, a, b: cr.random.uniform(k, (3,), np.float64, a, b), (KEY, -V, V),
    ),
    "data.minibatches": (lambda x: next(iter(cr.data.minibatches({"x": x}, 2, KEY))), (M,)),
    "data.minibatches' key": (lambda k: next(iter(cr.data.minibatches({"x": M}, 2, k))), (KEY,)),
    "testing.check_gradients": (lambda x: cr.testing.check_gradients(total, x), (V,)),
    "testing.check_modes_agree": (lambda x: cr.testing.check_modes_agree(total, x), (V,)),
}  # fmt: skip
PLACE: list[Path] = []

# Classes and functions that no array is given to, each with what it is given.
WITHOUT_ARRAYS = {
    "a type": "Array ArrayType bool_ bfloat16 float16 float32 float64 int32 int64 uint8 uint32",
    "a result": "CompiledGraph Drawing Equations Graph Measures MemoryReport Node Report Run State "
    "StateArray TrainingStep ParallelStep ParallelPlan Devices Optimizer Size Checkpoints "
    "Placement Model BatchStudy GradientNoise Ways",
    "a graph": "backward deduplicate prune simplify report transforms testing.simulate parallel "
    "plan_parallel ways follow",
    "numbers of a person's": "clip_by_global_norm adam adamw rmsprop sgd schedules",
    "sizes": "size sizes size_value maximum minimum place_buffers",
    "an executor": "register_executor measured_speeds",
    "modules": "data errors init random testing",
    "files": "load_weights from_onnx",
    "a module": "from_torch",
    "a name": "named scope",
    "the modules' own": "random.key data.Digits data.FashionMNIST data.Minibatches data.digits "
    "data.fashion_mnist data.read data.read_csv data.read_idx data.read_npy data.read_npz "
    "data.read_parquet data.train_test_split testing.CHECKS testing.FAULTS testing.as_function "
    "testing.check_primitive testing.graph_of testing.planted_fault testing.sample_arrays",
}


def public_names() -> set[str]:
    modules = {"random": cr.random, "data": cr.data, "testing": cr.testing}
    inner = {f"{name}.{one}" for name, module in modules.items() for one in module.__all__}
    return {*cr.__all__, *inner}


def test_every_public_name_is_called_here_or_takes_no_array() -> None:
    without = {name for names in WITHOUT_ARRAYS.values() for name in names.split()}
    assert without <= public_names()
    assert public_names() - without <= {name.split("'")[0].split(" ")[0] for name in CALLS}


def called(name: str, arrays: tuple[Any, ...]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CALLS[name][0](*arrays)


PLACES = [(name, place) for name, (_, arrays) in CALLS.items() for place in range(len(arrays))]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", CALLS)
def test_plain_arrays_are_taken(name: str, tmp_path: Path) -> None:
    PLACE[:] = [tmp_path]
    called(name, CALLS[name][1])


@pytest.mark.sweep(5)
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_an_array_with_a_mask_is_refused(name: str, place: int, tmp_path: Path) -> None:
    PLACE[:] = [tmp_path]
    arrays = list(CALLS[name][1])
    mask = np.zeros(arrays[place].shape, bool)
    mask[(0,) * mask.ndim] = True
    arrays[place] = np.ma.array(arrays[place], mask=mask)
    with pytest.raises(UnsupportedError, match=r"MaskedArray, which would be taken for a plain"):
        called(name, tuple(arrays))


@pytest.mark.parametrize("index", [[True, False, True], [0, 2]])
def test_an_index_with_a_mask_is_refused(index: list[Any]) -> None:
    masked = np.ma.array(index, mask=[False] * (len(index) - 1) + [True])
    with pytest.raises(UnsupportedError, match="an index is a MaskedArray"):
        cr.trace(lambda x: np.sum(x[masked]), np.ones(3))
