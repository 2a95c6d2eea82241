"""Random programs of several arrays: dtypes mixed, axes of size 0 and 1, and layers among them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from random_programs import differs, numpys, slope_of, wrong_slope

import chainrule as cr
from chainrule.errors import ChainruleError, EvaluationError

Random = np.random.Generator
DTYPES = [*["float64"] * 6, *["float32"] * 3, "int64", "int32", "uint8", "int8", "bool"]
SHAPES = [(), (1,), (3,), (0,), (1, 3), (2, 3), (3, 1), (2, 0), (1, 1), (3, 3), (2, 1, 3)]
SHAPES += [(1, 2, 4), (2, 2, 4, 4), (1, 1, 3, 3)]


def _axis(random: Random, x: Any, several: bool = True) -> Any:
    choices: list[Any] = [None, *range(-x.ndim, x.ndim)] if several else [*range(-x.ndim, x.ndim)]
    if several and x.ndim > 1:
        choices += [(0, -1), (0, 1), ()]
    return choices[random.integers(len(choices))] if choices else -1


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def draw(random: Random, x: Any) -> Callable[..., Any]:
        axis, keepdims = _axis(random, x), bool(random.integers(2))
        return lambda x: function(x, axis=axis, keepdims=keepdims)

    return draw


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    def draw(random: Random, *arrays: Any) -> Callable[..., Any]:
        axis = _axis(random, arrays[0], several=False)
        return lambda *arrays: function(*arrays, axis=axis)

    return draw


def _just(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda random, *arrays: lambda *arrays: function(*arrays, *args, **kwargs)


def _one_of(*draws: Callable[..., Any]) -> Callable[..., Any]:
    return lambda random, *arrays: draws[random.integers(len(draws))](random, *arrays)


def _reshaped(random: Random, x: Any) -> Callable[..., Any]:
    shape = [(-1,), (1, *x.shape), x.shape[::-1], (*x.shape, 1), (-1, 1)][random.integers(5)]
    return lambda x: np.reshape(x, shape)


def _indexed(random: Random, x: Any) -> Callable[..., Any]:
    index = [
        (..., None),
        (slice(None, None, -1),),
        (..., slice(0, 1)),
        (-1,),
        (..., 0),
        ([0, -1, 0],),
        (np.array([[0], [-1]]),),
        (slice(1, None),),
        (None, ..., -1),
        (..., slice(None, None, 2)),
    ][random.integers(10)]
    return lambda x: x[index]


def _cast(random: Random, x: Any) -> Callable[..., Any]:
    dtype = ["float32", "float64", "float64", "int64", "bool", "float16"][random.integers(6)]
    return lambda x: x.astype(dtype)


def _loss(function: Callable[..., Any]) -> Callable[..., Any]:
    def draw(random: Random, *arrays: Any) -> Callable[..., Any]:
        reduction = ["mean", "sum", "none"][random.integers(3)]
        return lambda *arrays: function(*arrays, reduction=reduction)

    return draw


def _labelled(random: Random, x: Any) -> Callable[..., Any]:
    labels = random.integers(0, max(1, x.shape[-1]), x.shape[:-1])
    smoothing = [None, 0.1][random.integers(2)]
    reduction = ["mean", "sum", "none"][random.integers(3)]
    return lambda x: cr.cross_entropy(x, labels, reduction, label_smoothing=smoothing)


def _convolved(random: Random, x: Any) -> Callable[..., Any]:
    function, sizes = (cr.conv2d, (2, 2)) if x.ndim == 4 else (cr.conv1d, (2,))
    weight = random.normal(size=(3, x.shape[1], *sizes)).astype(x.dtype)
    stride, padding = random.integers(1, 3), random.integers(0, 2)
    return lambda x: function(x, weight, stride=int(stride), padding=int(padding))


def _convolving(random: Random, x: Any, y: Any) -> Callable[..., Any]:
    function = cr.conv2d if x.ndim == 4 else cr.conv1d
    return lambda x, y: function(x, y[: 2 if x.ndim == 4 else None, : x.shape[1]], padding=1)


def _pooled(random: Random, x: Any) -> Callable[..., Any]:
    two, one = (cr.max_pool2d, cr.avg_pool2d), (cr.max_pool1d, cr.avg_pool1d)
    function = (two if x.ndim == 4 else one)[random.integers(2)]
    stride, padding = int(random.integers(1, 3)), int(random.integers(2))
    return lambda x: function(x, 2, stride=stride, padding=padding)


UNARY = [
    *map(_just, (np.sin, np.cos, np.tanh, np.exp, np.negative, np.abs, np.square, np.arctan)),
    *map(_just, (np.sign, np.floor, np.rint, np.isfinite, np.logical_not, np.expm1, np.arcsinh)),
    *map(_just, (cr.relu, cr.softplus, cr.gelu, cr.sigmoid, cr.silu, cr.elu, cr.erf)),
    *map(_just, (cr.leaky_relu, cr.log_sigmoid, np.cbrt, np.sinc, np.sqrt, np.log, np.reciprocal)),
    *map(_just, (np.nan_to_num, np.signbit, np.diff, np.ravel, np.transpose, np.squeeze)),
    *map(_just, (np.diag, np.trace, np.tril, np.atleast_2d, np.linalg.norm)),
    _just(lambda x: x * 2 + 1),
    _just(lambda x: 1 / (x * x + 1)),
    _just(lambda x: x**2),
    _just(lambda x: 2.5 - x),
    _just(lambda x: x // 2),
    _just(lambda x: x % 3),
    _just(lambda x: np.clip(x, -1, 1)),
    _just(lambda x: np.sqrt(np.abs(x) + 0.5)),
    _just(lambda x: np.log1p(np.abs(x))),
    _just(lambda x: np.pad(x, 1)),
    _just(lambda x: np.repeat(x, 2)),
    _just(lambda x: np.tile(x, 2)),
    _just(lambda x: x @ x.T),
    _just(lambda x: np.where(x > 0, x, x * x)),
    _just(lambda x: np.einsum("...i,...i->...", x, x)),
    _just(lambda x: np.tensordot(x, x, 0) if x.size < 10 else x),
    *map(_reduction, [*[np.sum, np.mean, np.max, np.min, np.prod, np.var, np.std] * 2]),
    *map(_reduction, (np.any, np.all, np.median, np.ptp, np.count_nonzero, cr.logsumexp)),
    *map(_along, (np.cumsum, np.cumprod, np.sort, np.argmax, np.argsort, np.flip, np.expand_dims)),
    *map(_along, (cr.softmax, cr.log_softmax, cr.layer_norm, cr.rms_norm)),
    _just(np.roll, 1),
    *[_reshaped, _indexed, _cast] * 3,
    *[_labelled, _convolved, _pooled] * 4,
    *[_just(cr.instance_norm), _just(cr.group_norm, 2)] * 2,
]
BINARY = [
    *map(_just, (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum)),
    *map(_just, (np.power, np.arctan2, np.hypot, np.logaddexp, np.greater, np.equal, np.fmin)),
    *map(_just, (np.fmod, np.floor_divide, np.remainder, np.copysign, np.logical_and)),
    *map(_just, (np.matmul, np.dot, np.outer, np.inner, np.vdot, np.kron, np.heaviside)),
    _just(lambda x, y: np.where(x > 0, x, y)),
    _just(lambda x, y: np.where(y > x, y * 2, 1.0)),
    _just(lambda x, y: np.broadcast_arrays(x, y)[1]),
    *[_along(lambda *xs, axis: np.concatenate(xs, axis))] * 3,
    _along(lambda *xs, axis: np.stack(xs, axis)),
    _just(lambda x, y: x[np.abs(y).astype(np.int64) % x.shape[0]]),
    _just(lambda x, y: np.take(x, y.astype(np.int64), mode="wrap")),
    _just(lambda x, y: cr.linear(x, y.T)),
    _just(lambda x, y: cr.layer_norm(x, y)),
    _just(lambda x, y: cr.layer_norm(x, y, y)),
    _just(lambda x, y: cr.rms_norm(x, y)),
    _just(lambda x, y: cr.scaled_dot_product_attention(x, y, y)),
    _just(lambda x, y: cr.scaled_dot_product_attention(x, y, x, is_causal=True)),
    *map(_loss, (cr.squared_error, cr.absolute_error, cr.huber)),
    _loss(lambda x, y, reduction: cr.binary_cross_entropy_with_logits(x, y > 0, None, reduction)),
    _loss(lambda x, y, reduction: cr.kl_divergence(cr.log_softmax(x), cr.softmax(y), reduction)),
    *[_convolving] * 3,
]


@dataclass(frozen=True)
class Step:
    """One call on some of the arrays so far, whose result is one more."""

    function: Callable[..., Any]
    places: tuple[int, ...]

    def __call__(self, arrays: Sequence[Any]) -> Any:
        return self.function(*(arrays[place] for place in self.places))


@dataclass(frozen=True)
class WideProgram:
    """The steps on three inputs; `wide` computes all in float64, whatever the dtypes are."""

    steps: tuple[Step, ...]
    wide: bool = False

    def arrays(self, a: Any, b: Any, c: Any) -> list[Any]:
        """The inputs and what each step gives."""
        arrays = [a, b, c]
        for step in self.steps:
            found = step(arrays)
            if self.wide and found.dtype.kind == "f":
                found = found.astype(np.float64)
            arrays.append(found)
        return arrays

    def array(self, a: Any, b: Any, c: Any) -> Any:
        """What the last step gives."""
        return self.arrays(a, b, c)[-1]

    def number(self, a: Any, b: Any, c: Any) -> Any:
        """One number of the array, in which each element has a weight of its own."""
        out = self.array(a, b, c)
        weights = np.cos(np.arange(out.size) + 1.0).reshape(out.shape)
        return np.sum(out * weights.astype(out.dtype))

    def in_float64(self) -> WideProgram:
        """The same steps with all that is of floating point as float64."""
        return WideProgram(self.steps, wide=True)


def draw_inputs(random: Random) -> list[np.ndarray]:
    """Three arrays, the first of floating point, often of one shape."""
    shapes = [SHAPES[random.integers(len(SHAPES))]]
    shapes += [shapes[0] if random.integers(2) else SHAPES[random.integers(len(SHAPES))]]
    shapes += [shapes[1] if random.integers(2) else SHAPES[random.integers(len(SHAPES))]]
    dtypes = [DTYPES[random.integers(9)], *(DTYPES[random.integers(len(DTYPES))] for _ in "ab")]
    drawn = [random.normal(size=shape) * 1.5 for shape in shapes]
    return [
        x.astype(dtype) if dtype.startswith("float") else np.floor(np.abs(x) * 2).astype(dtype)
        for x, dtype in zip(drawn, dtypes, strict=True)
    ]


def draw_wide(random: Random, inputs: list[np.ndarray], most: int = 6) -> WideProgram:
    """A program of two to `most` steps, each of which NumPy computes to moderate numbers."""
    steps: list[Step] = []
    arrays: list[Any] = list(inputs)
    wanted = random.integers(2, most + 1)
    for _ in range(60):
        recent = len(arrays) - 1 if steps else 0
        unary = bool(random.integers(2))
        draw = UNARY[random.integers(len(UNARY))] if unary else BINARY[random.integers(len(BINARY))]
        other = int(random.integers(len(arrays)))
        places = (recent,) if unary else (recent, other) if random.integers(2) else (other, recent)
        try:
            step = Step(draw(random, *(arrays[place] for place in places)), places)
        except (IndexError, ValueError):
            continue
        found = numpys(step, arrays)
        if found.dtype.kind in "fiub" if isinstance(found, np.ndarray) else False:
            if found.size < 500 and np.all(np.abs(found.astype(float)) < 1e4):
                steps.append(step)
                arrays.append(found)
        if len(steps) == wanted:
            break
    return WideProgram(tuple(steps))


def tolerance_of(arrays: Sequence[Any]) -> float:
    """What the least precise of the arrays allows."""
    kinds = {np.asarray(x).dtype for x in arrays}
    return 3e-2 if np.dtype("float16") in kinds else 1e-4 if np.dtype("float32") in kinds else 1e-9


def faults_of(program: WideProgram, inputs: list[np.ndarray], random: Random) -> list[str]:
    """What is not as it should be, in words."""
    want = numpys(program.array, *inputs)
    try:
        graph = cr.trace(program.array, *inputs)
        keyed = dict(zip("abc", inputs, strict=True))
        got = graph.run(keyed, executor="reference").outputs
    except ChainruleError as error:
        return [f"failed: {error}"] if isinstance(error, EvaluationError) else [f"REFUSED {error}"]
    rtol = tolerance_of(steps_of(program, inputs))
    if differs(got, want, rtol):
        return [f"{got!r} is not NumPy's {want!r}"]
    native = graph.run(keyed, executor="native").outputs
    found = [f"native: {native!r}, not {got!r}"] if differs(native, got, rtol) else []
    found += _faults_of_gradients(program, inputs, random)
    return found + _faults_of_batches(program, inputs, want, rtol)


def steps_of(program: WideProgram, inputs: list[np.ndarray]) -> list[Any]:
    """What NumPy gives step by step."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return program.arrays(*inputs)


def _faults_of_gradients(
    program: WideProgram, inputs: list[np.ndarray], random: Random
) -> list[str]:
    floats = [place for place, x in enumerate(inputs) if x.dtype.kind == "f"]
    if np.asarray(numpys(program.number, *inputs)).dtype.kind != "f":
        return []
    wide = program.in_float64()
    exact = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    names = ["abc"[place] for place in floats]
    along = {place: random.normal(size=inputs[place].shape) for place in floats}

    def put(flat: np.ndarray) -> list[np.ndarray]:
        return [x + flat * along[place] if place in along else x for place, x in enumerate(exact)]

    def summed(gradients: Any) -> Any:
        return sum(float(np.sum(gradients[name] * along["abc".index(name)])) for name in names)

    try:
        gradients = _by_name(cr.grad(wide.number, wrt=names, executor="reference")(*exact), names)
    except ChainruleError as error:
        return [f"gradient: {error}"]
    slope = slope_of(lambda t: wide.number(*put(t)), np.array(0.0), np.array(1.0))
    if slope is None:
        return []
    if wrong_slope(summed(gradients), slope):
        return [f"gradient: {summed(gradients)} along {along!r}, differences say {slope}"]
    tangents = [along.get(place, np.zeros(x.shape)) for place, x in enumerate(exact)]
    found = _faults_of_narrow_gradients(program, inputs, gradients, names)
    if len(floats) == 3:
        forward = cr.jvp(wide.number, tuple(exact), tuple(tangents))[1]
        if wrong_slope(forward, slope):
            found.append(f"jvp: {forward}, differences say {slope}")

    def gradient(t: np.ndarray) -> Any:
        return summed(_by_name(cr.grad(wide.number, wrt=names)(*put(t)), names))

    def moved(t: Any) -> Any:
        return wide.number(*[x + t * along[p] if p in along else x for p, x in enumerate(exact)])

    curve = slope_of(gradient, np.array(0.0), np.array(1.0))
    if curve is not None:
        second = cr.hvp(moved, np.array(0.0), np.array(1.0))
        if wrong_slope(second, curve):
            found.append(f"second order: {second!r}, differences say {curve!r}")
    return found


def _by_name(gradients: Any, names: list[str]) -> dict[str, Any]:
    if isinstance(gradients, dict):
        return gradients
    return dict(zip(names, gradients if isinstance(gradients, (list, tuple)) else [gradients]))


def _faults_of_narrow_gradients(
    program: WideProgram, inputs: list[np.ndarray], want: dict[str, Any], names: list[str]
) -> list[str]:
    """Gradients in the dtypes of the inputs beside the float64 ones, where values agree."""
    value, exact = numpys(program.array, *inputs), numpys(program.in_float64().array, *inputs)
    rtol = tolerance_of(steps_of(program, inputs))
    if not np.allclose(value, exact, rtol, rtol):
        return []
    got = _by_name(cr.grad(program.number, wrt=names, executor="native")(*inputs), names)
    found = []
    for name in names:
        if got[name].dtype != inputs["abc".index(name)].dtype:
            found.append(f"gradient of {name} has {got[name].dtype}")
        scale = np.max(np.abs(want[name]), initial=1)
        if not np.allclose(got[name], want[name], 0, 100 * rtol * scale):
            found.append(f"narrow gradient: {got[name]!r}, in float64 {want[name]!r}")
    return found


def _faults_of_batches(
    program: WideProgram, inputs: list[np.ndarray], want: Any, rtol: float
) -> list[str]:
    first, *rest = inputs
    stacked = np.stack([first, first * 0.9 + 0.05, first + 0.1]).astype(first.dtype)
    rows = [numpys(program.array, one, *rest) for one in stacked]
    if any(isinstance(row, Exception) or row.shape != want.shape for row in rows):
        return []
    try:
        got = cr.vmap(program.array, in_axes=(0, None, None))(stacked, *rest)
    except ChainruleError as error:
        return [f"REFUSED vmap: {error}"]
    return [f"vmap: {got!r}, not {rows!r}"] if differs(got, np.stack(rows), rtol) else []
