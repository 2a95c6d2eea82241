"""Random programs: functions from the tables of calls, chained; and what must be true of each."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.errors import ChainruleError, EvaluationError

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "frontend"), str(TESTS / "explain")]

from calls_elementwise import ELEMENTWISE  # noqa: E402  # pyright: ignore[reportMissingImports]
from calls_linalg import LINALG  # noqa: E402  # pyright: ignore[reportMissingImports]
from calls_movement import MOVEMENT  # noqa: E402  # pyright: ignore[reportMissingImports]
from calls_reductions import REDUCTIONS  # noqa: E402  # pyright: ignore[reportMissingImports]
from sources import has_the_bits, values_of  # noqa: E402  # pyright: ignore[reportMissingImports]

TABLE = {**ELEMENTWISE, **LINALG, **MOVEMENT, **REDUCTIONS}
# Signs, bases and pivots are theirs to choose; of symmetric matrices one triangle alone is read,
# while the derivative is that of symmetric ones; what a cutoff drops is 0 in the derivative.
ARBITRARY = {np.linalg.svd, np.linalg.qr, np.linalg.eigh, np.empty_like, np.argpartition}
ARBITRARY |= {np.linalg.eigvalsh, np.linalg.cholesky, np.linalg.pinv, np.linalg.lstsq}
CALLS = [
    (function, args, kwargs)
    for function, calls in TABLE.items()
    if function not in ARBITRARY
    for args, kwargs in calls
    if any(isinstance(arg, np.ndarray) and arg.dtype == np.float64 for arg in args)
    and np.float32 not in (*(arg for arg in args if isinstance(arg, type)), kwargs.get("dtype"))
]
SHAPES = [(), (1,), (3,), (2, 3), (3, 1), (2, 1, 4), (4,), (0,), (2, 0), (5,)]


@dataclass(frozen=True)
class Step:
    """One call of a table, in which the numbers so far move one array a little."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: int
    part: int

    def __call__(self, x: Any) -> Any:
        args = list(self.args)
        moved = np.resize(x, args[self.place].shape) if np.size(x) else 0.0
        given = args[self.place]
        finite = np.isfinite(given)
        base = np.where(finite, given, 0.0)
        args[self.place] = np.where(
            finite, base * (1 + 0.3 * np.tanh(moved)) + 0.1 * np.sin(moved), given
        )
        found = self.function(*args, **self.kwargs)
        if isinstance(found, (list, tuple)):
            found = found[self.part % len(found)] if found else moved
        return np.asarray(found) if isinstance(found, (bool, int)) else found

    def __str__(self) -> str:
        return f"{self.function.__name__}({self.args}, {self.kwargs})[{self.part}] by {self.place}"


@dataclass(frozen=True)
class Program:
    """The steps one after another, with what goes into them added where a step is flat."""

    steps: tuple[Step, ...]
    shape: tuple[int, ...]

    def array(self, x: Any) -> Any:
        """The array that the last step gives."""
        for step in self.steps:
            found = step(x)
            if found.dtype.kind != "f":
                found = found.astype(np.float64) + 0.1 * (np.sum(x) if np.size(x) else 0.0)
            x = found
        return x

    def is_finite(self, x: Any) -> bool:
        """Whether no step gives NaN or huge numbers, even if a later one masks them: their
        derivative times 0 is NaN, and differences of huge numbers say nothing."""
        for count in range(1, len(self.steps) + 1):
            values = numpys(Program(self.steps[:count], self.shape).array, x)
            if isinstance(values, Exception) or not np.all(np.abs(values) < 1e6):
                return False
        return True

    def number(self, x: Any) -> Any:
        """One number of the array, in which each element has a weight of its own."""
        out = self.array(x)
        return np.sum(out * np.cos(np.arange(out.size) + 1.0).reshape(out.shape))


def draw_program(random: np.random.Generator, most: int = 6) -> Program:
    """A program of two to `most` steps."""
    steps = []
    for _ in range(random.integers(2, most + 1)):
        function, args, kwargs = CALLS[random.integers(len(CALLS))]
        places = [
            place
            for place, arg in enumerate(args)
            if isinstance(arg, np.ndarray) and arg.dtype == np.float64
        ]
        place = places[random.integers(len(places))]
        steps.append(Step(function, args, kwargs, place, int(random.integers(4))))
    return Program(tuple(steps), SHAPES[random.integers(len(SHAPES))])


def numpys(function: Callable[..., Any], *args: Any) -> Any:
    """What NumPy alone gives, or the exception that it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(function(*args))
        except Exception as error:
            return error


def differs(got: Any, want: Any, rtol: float) -> bool:
    """Whether two arrays have not one dtype and shape and, of their size, the same numbers."""
    got, want = np.asarray(got), np.asarray(want)
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return True
    finite = np.isfinite(want)
    scale = np.max(np.abs(want), initial=1, where=finite) if want.dtype.kind == "f" else 0
    return not np.allclose(got, want, rtol, rtol * min(scale, 1e6), equal_nan=True)


def faults(program: Program, x: np.ndarray, random: np.random.Generator, deep: bool) -> list[str]:
    """What is not as it should be, in words; `deep` looks at the slow things too."""
    want = numpys(program.array, x)
    try:
        graph = cr.trace(program.array, x)
        got = graph.run(x=x, executor="reference").outputs
    except ChainruleError as error:
        refused = isinstance(want, Exception) or not isinstance(error, EvaluationError)
        return [] if refused else [f"failed: {error}"]
    except Exception as error:  # of NumPy alone, where no input is left in what it computes
        return [] if type(error) is type(want) else [f"{type(error).__name__}: {error}"]
    if isinstance(want, Exception):
        if "All-NaN" in str(want):  # numbers decide; a graph gives the first place
            return []
        return [f"no error, where NumPy has {want!r}"]
    if differs(got, want, 1e-9):
        return [f"{got!r} is not NumPy's {want!r}"]
    found = _faults_of_executors(graph, x, got) if program.is_finite(x) else []
    found += _faults_of_gradients(program, x, random, deep)
    if deep:
        found += _faults_of_batches(program, x, want)
        found += _faults_of_names(program, x, want)
        found += _faults_of_words(graph, x, got)
    return found


def wrong_slope(got: Any, want: Any) -> bool:
    """Whether a derivative is not what differences say: by 0.1 % of the largest element."""
    scale = np.max(np.abs(want), initial=0)
    return np.shape(got) != np.shape(want) or not np.allclose(got, want, 0, 1e-3 * scale + 1e-7)


def _faults_of_executors(graph: Any, x: np.ndarray, got: Any) -> list[str]:
    native = graph.run(x=x, executor="native").outputs
    return [f"native: {native!r}, not {got!r}"] if differs(native, got, 1e-9) else []


def slope_of(function: Callable[[np.ndarray], Any], x: np.ndarray, along: np.ndarray) -> Any:
    """The derivative along a direction by differences, None where two steps do not agree."""
    with np.errstate(all="ignore"):
        slopes = [
            (np.asarray(numpys(function, x + h * along)) - numpys(function, x - h * along))
            / (2 * h)
            for h in (1e-5, 2e-6, 5e-5)
        ]
    if not all(np.all(np.isfinite(slope)) for slope in slopes):
        return None
    scale = max(1e-3, *(np.max(np.abs(slope), initial=0) for slope in slopes))
    agree = all(np.allclose(slope, slopes[0], 1e-4, 1e-5 * scale) for slope in slopes[1:])
    return slopes[0] if agree and scale < 1e4 else None


def _faults_of_gradients(
    program: Program, x: np.ndarray, random: np.random.Generator, deep: bool
) -> list[str]:
    along = random.normal(size=x.shape)
    slope = slope_of(program.number, x, along)
    if slope is None or not program.is_finite(x):
        return []
    gradient = cr.grad(program.number, executor="reference")
    try:
        found = np.sum(gradient(x) * along)
    except EvaluationError as error:
        return [] if "Singular" in error.what else [f"gradient: {error}"]
    if wrong_slope(found, slope):
        return [f"gradient: {found} along {along!r}, differences say {slope}"]
    if not deep:
        return []
    curve = slope_of(gradient, x, along)
    second = cr.hvp(program.number, x, along, executor="reference")
    if curve is not None and wrong_slope(second, curve):
        return [f"second order: {second!r}, differences say {curve!r}"]
    return []


def _faults_of_batches(program: Program, x: np.ndarray, want: Any) -> list[str]:
    xs = np.stack([x, x * 0.9 + 0.05, x + 0.1])
    rows = [want, *(numpys(program.array, one) for one in xs[1:])]
    if not all(program.is_finite(one) for one in xs):
        return []
    if any(isinstance(row, Exception) or row.shape != want.shape for row in rows):
        return []
    try:
        got = cr.vmap(program.array, executor="reference")(xs)
    except ChainruleError as error:
        return [f"vmap: {error}"]
    return [f"vmap: {got!r}, not {rows!r}"] if differs(got, np.stack(rows), 1e-9) else []


def _faults_of_names(program: Program, x: np.ndarray, want: Any) -> list[str]:
    if x.ndim != 1 or not x.size:
        return []
    try:
        graph = cr.trace(program.array, cr.float64["n"])
        got = graph.run(x=x).outputs
    except ChainruleError:  # some functions need numbers of sizes
        return []
    return [f"named size: {got!r}, not {want!r}"] if differs(got, want, 1e-9) else []


def _faults_of_words(graph: Any, x: np.ndarray, got: Any) -> list[str]:
    text = f"{graph}{graph.memory()}{graph.cost()}{graph.draw().svg}{graph.equations()}"
    if "nan" in str(graph.cost()) or not text:
        return ["the cost is no number"]
    (again,) = values_of(graph, {graph.inputs[0].name: x})
    return [] if has_the_bits(again, np.asarray(got)) else [f"source: {again!r}, not {got!r}"]
