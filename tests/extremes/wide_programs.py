"""Random programs of several arrays: dtypes mixed, axes of size 0 and 1, and layers among them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from random_programs import differs, numpys, slope_of, wrong_slope
from wide_calls import BINARY, UNARY, Cast, Random

import chainrule as cr
from chainrule.errors import ChainruleError, DataDependentError, EvaluationError

DTYPES = [*["float64"] * 6, *["float32"] * 3, "int64", "int32", "uint8", "int8", "bool"]
SHAPES = [(), (1,), (3,), (0,), (1, 3), (2, 3), (3, 1), (2, 0), (1, 1), (3, 3), (2, 1, 3)]
SHAPES += [(1, 2, 4), (2, 2, 4, 4), (1, 1, 3, 3)]


@dataclass(frozen=True)
class Step:
    """One call on some of the arrays so far, whose result is one more."""

    function: Callable[..., Any]
    places: tuple[int, ...]

    def __call__(self, arrays: Sequence[Any]) -> Any:
        found = self.function(*(arrays[place] for place in self.places))
        # NumPy's scalars have dtypes of their own: np.True_**2 is int64, of an array it is int8.
        return np.asarray(found) if isinstance(found, np.generic) else found


@dataclass(frozen=True)
class WideProgram:
    """The steps on three inputs; `wide` computes all in float64, whatever the dtypes are, and
    `shift` moves what each step gives, as rounding does."""

    steps: tuple[Step, ...]
    wide: bool = False
    shift: float = 0.0

    def arrays(self, a: Any, b: Any, c: Any) -> list[Any]:
        """The inputs and what each step gives."""
        arrays = [a, b, c]
        for step in self.steps:
            function = step.function
            if self.wide and isinstance(function, Cast) and function.dtype.startswith("float"):
                step = Step(Cast("float64"), step.places)
            found = step(arrays)
            if self.wide and found.dtype.kind == "f":
                found = found.astype(np.float64)
            if self.shift and found.dtype.kind == "f":
                found = (found + self.shift * (1 + np.abs(found))).astype(found.dtype)
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


def is_settled(program: WideProgram, inputs: Sequence[Any], rtol: float) -> bool:
    """Whether rounding, which may differ by the order of sums, decides nothing (ties, signs)."""
    want = numpys(program.array, *inputs)
    moved = [WideProgram(program.steps, shift=sign * rtol / 1e3) for sign in (-1, 1)]
    return not any(differs(numpys(one.array, *inputs), want, rtol) for one in moved)


def draw_inputs(random: Random) -> list[np.ndarray]:
    """Three arrays, the first of floating point, often of one shape."""
    shapes = [SHAPES[random.integers(len(SHAPES))]]
    shapes += [shapes[0] if random.integers(2) else SHAPES[random.integers(len(SHAPES))]]
    shapes += [shapes[1] if random.integers(2) else SHAPES[random.integers(len(SHAPES))]]
    dtypes = [DTYPES[random.integers(9)], *(DTYPES[random.integers(len(DTYPES))] for _ in "ab")]
    drawn = [np.asarray(random.normal(size=shape) * 1.5) for shape in shapes]
    return [
        np.asarray(x if dtype.startswith("float") else np.floor(np.abs(x) * 2), dtype)
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
        if isinstance(found, Exception) or found.dtype.kind not in "fiub" or found.size > 500:
            continue
        if np.all(np.abs(found.astype(float)) < 1e4):
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
    found = []
    if differs(native, got, rtol) and is_settled(program, inputs, rtol):
        found.append(f"native: {native!r}, not {got!r}")
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

    backward = cr.grad(wide.number, wrt=names, executor="reference")
    try:
        gradients = _by_name(backward(*exact), names)
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
        forward = cr.jvp(wide.number, tuple(exact), tuple(tangents), executor="reference")[1]
        if wrong_slope(forward, slope):
            found.append(f"jvp: {forward}, differences say {slope}")

    def gradient(t: np.ndarray) -> Any:
        return summed(_by_name(backward(*put(t)), names))

    def moved(t: Any) -> Any:
        return wide.number(*[x + t * along[p] if p in along else x for p, x in enumerate(exact)])

    curve = slope_of(gradient, np.array(0.0), np.array(1.0))
    if curve is not None:
        try:
            second = cr.hvp(moved, np.array(0.0), np.array(1.0), executor="reference")
        except DataDependentError:  # np.take of an array that is no input here, with traced indices
            return found
        if wrong_slope(second, curve):
            found.append(f"second order: {second!r}, differences say {curve!r}")
    return found


def _by_name(gradients: tuple[Any, ...], names: list[str]) -> dict[str, Any]:
    return dict(zip(names, gradients, strict=True))


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
        got = cr.vmap(program.array, (0, None, None), executor="reference")(stacked, *rest)
    except ChainruleError as error:
        return [f"REFUSED vmap: {error}"]
    settled = all(is_settled(program, [one, *rest], rtol) for one in stacked)
    wrong = settled and differs(got, np.stack(rows), rtol)
    return [f"vmap: {got!r}, not {rows!r}"] if wrong else []
