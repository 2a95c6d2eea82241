"""`cr.gradient_noise`: how much gradients differ from example to example, at one state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf, nan
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.advice.noise.each import EachExample, each_example
from chainrule.advice.noise.estimates import Noise, interval, noise_of, two_batch_noise
from chainrule.advice.showing import Table, number
from chainrule.dataclass import dataclass, field
from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute.arguments import checked, sizes_from
from chainrule.execute.free_memory import free_memory
from chainrule.graph.frozen import NotPickled
from chainrule.graph.graph import Graph
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.node import topological
from chainrule.random import fold_in
from chainrule.tracebacks import entry
from chainrule.train.step.check_arguments import given_to_step, refuse_no_state
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.random_inputs import key_inputs
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep

SHARE = 0.5  # of what is free, that a chunk takes at most
_made: WeakKeyDictionary[TrainingStep, dict[Any, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class OfParameter:
    """The noise of one parameter, with its number of elements; `scale` is that of it alone."""

    noise: Noise
    elements: int


@dataclass(frozen=True, eq=False)
class GradientNoise(NotPickled, ShownByText):
    """The noise of gradients on one batch, at one state; `cr.gradient_noise` makes it.

    `total` are the estimates for all parameters together: tr Σ, |g|² and the noise scale, which is
    the critical batch; `low` to `high` is where that lies with the confidence said.  `parameters`
    has the same by name.  `squares` are the squared norms of each example's gradient, by parameter,
    without the part that no example changes (that of a penalty).  `two_batches` are the estimates
    from the mean gradients of chunks and of the whole batch alone (McCandlish et al. 2018, A.1),
    which vary more; NaN of one chunk.
    """

    _called = "a report of noise"
    _instead = "noise.json() holds its numbers, str(noise) its text"

    name: str
    steps: int
    rows: int
    objective: float
    total: Noise
    low: float
    high: float
    confidence: float
    parameters: Mapping[str, OfParameter]
    two_batches: Noise
    squares: Mapping[str, np.ndarray] = field(repr=False)
    chunk: int
    graph: Graph = field(repr=False)

    @property
    def critical_batch(self) -> float:
        """The batch at which twice the least steps take twice the least samples."""
        return self.total.scale

    @property
    def table(self) -> Table:
        """The report as a table."""
        rows = [
            (name, f"{one.elements:,}", *_shown(one.noise)) for name, one in self.parameters.items()
        ]
        count = sum(one.elements for one in self.parameters.values())
        rows.append(("all", f"{count:,}", *_shown(self.total)))
        said = f"{self.confidence:.0%}"
        between = f"from {number(self.low)} to {number(self.high)} with {said} confidence"
        if self.low == inf:
            between = "these gradients cancel more than chance has it, as after training on them"
        elif self.high == inf:
            between = f"more than {number(self.low)} with {said} confidence"
        notes = [
            f"critical batch {number(self.total.scale)} examples: {between}",
            f"from batches of {self.chunk:,} and {self.rows:,} alone: "
            f"{number(self.two_batches.scale)}",
        ]
        return Table(
            f"gradient noise of {self.name} after {self.steps:,} steps, "
            f"{self.rows:,} examples, objective {self.objective:.4g}",
            ("parameter", "elements", "tr Σ", "|g|²", "noise scale"),
            rows,
            frozenset((1, 2, 3, 4)),
            notes,
            len(rows) - 1,
        )

    def json(self) -> dict[str, Any]:
        """The numbers as dicts that `json.dumps` takes; null for what is infinite or not known."""
        return {
            "graph": self.name,
            "steps": self.steps,
            "rows": self.rows,
            "objective": _finite(self.objective),
            "confidence": self.confidence,
            "interval": [_finite(self.low), _finite(self.high)],
            "total": _numbers(self.total),
            "two_batches": _numbers(self.two_batches),
            "parameters": {
                name: {**_numbers(one.noise), "elements": one.elements}
                for name, one in self.parameters.items()
            },
        }

    def __str__(self) -> str:
        return self.table.text()

    def _repr_html_(self) -> str:
        return self.table.html()


def _shown(noise: Noise) -> tuple[str, str, str]:
    return number(noise.trace), number(noise.square), number(noise.scale)


def _numbers(noise: Noise) -> dict[str, float | None]:
    return {
        "trace": _finite(noise.trace),
        "square": _finite(noise.square),
        "scale": _finite(noise.scale),
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


@entry
def gradient_noise(
    step: TrainingStep | MicroBatchedStep,
    state: State,
    batch: Mapping[str, Any] | None = None,
    /,
    *,
    size: str | None = None,
    chunk: int | None = None,
    confidence: float = 0.95,
    **named: Any,
) -> GradientNoise:
    """The noise of gradients at a state: `cr.gradient_noise(step, state, x=x, y=y)`.

    Norms of single examples' gradients are computed in one pass, without those gradients where a
    parameter enters by products.  `chunk` is how many examples are looked at together (by default
    half of them, or as many as fit into half of the memory that is free; with dropout, each chunk
    has a key of its own).  `size` is the named size of the batch, where the step has several.  The
    state is read and not changed.  The interval takes examples as independent.

    InputError for an objective that is no mean over the examples of a batch: such as one with batch
    normalisation, or a sum; and for fewer than 2 examples.
    """
    whole = step.whole if isinstance(step, MicroBatchedStep) else step
    if not isinstance(whole, TrainingStep):
        raise InputError(
            f"cr.gradient_noise takes a training step, got {type(step).__name__}",
            hint="step = cr.training_step(objective, ...); cr.gradient_noise(step, state, x=x)",
        )
    refuse_no_state(state, whole.parameters)
    if not isinstance(confidence, float) or not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence!r}", hint="between 0 and 1: 0.95")
    with state.updating:
        given = whole.arguments(state.arrays, given_to_step(batch, named))
        return _Looking(whole, given, size, chunk).found(confidence, state.steps)


class _Looking:
    """One look at the gradients of a batch, chunk by chunk."""

    def __init__(
        self, step: TrainingStep, given: Mapping[str, Any], size: str | None, chunk: int | None
    ) -> None:
        self.step = step
        parts = _remembered(step, ("parts", size), lambda: step.micro_batched(1, size=size))
        self.size, self.split = parts.size, parts.split
        forward = _remembered(step, "forward", lambda: forward_of(step))
        self.given = {x.name: checked(forward, x, given) for x in forward.inputs}
        self.sizes = sizes_from(forward, self.given)
        self.rows = self.sizes[self.size]
        if self.rows < 2:
            raise InputError(
                f"the noise of gradients needs 2 examples at least, got {self.size} = {self.rows}",
                hint="a larger batch",
            )
        others = {name: n for name, n in self.sizes.items() if name != self.size}
        bound = forward.bound(others) if others else forward

        def made(slopes: bool) -> EachExample:
            return each_example(
                bound, step.objective, step.parameters, self.size, norms=not slopes, slopes=slopes
            )

        known = self.size, tuple(sorted(others.items()))
        self.norms = _remembered(step, (known, "norms"), lambda: made(False))
        self.slopes = _remembered(step, (known, "slopes"), lambda: made(True))
        self.keys = key_inputs(forward, [*self.split, *step.weights])
        self.chunk = self._chunk(chunk)

    def _chunk(self, asked: int | None) -> int:
        if asked is not None:
            if not hasattr(asked, "__index__") or isinstance(asked, bool) or asked < 1:
                raise InputError(f"chunk is {asked!r}", hint="a number of examples: chunk=32")
            return min(int(asked), self.rows)
        free = free_memory()
        rows = -(-self.rows // 2)
        while rows > 1 and free is not None:
            try:
                report = self.norms.graph.memory({self.size: rows}, executor=self.step.executor)
            except MemoryLimitError:
                rows = -(-rows // 2)
                continue
            if report.needed_nbytes <= SHARE * free.nbytes:
                break
            rows = -(-rows // 2)
        return rows

    def _parts(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for place, first in enumerate(range(0, self.rows, self.chunk)):
            here = slice(first, min(first + self.chunk, self.rows))
            part = dict(self.given)
            for name, axis in self.split.items():
                part[name] = part[name][(*[slice(None)] * axis, here)]
            if self.chunk < self.rows:
                part |= {name: fold_in(part[name], place) for name in self.keys}
            yield here.stop - here.start, part

    def found(self, confidence: float, steps: int) -> GradientNoise:
        """Both passes: norms and the mean gradient, then slopes along it."""
        names = self.norms.names
        squares: dict[str, list[np.ndarray]] = {name: [] for name in names}
        means: dict[str, Any] = dict.fromkeys(names, 0.0)
        shifts: dict[str, np.ndarray] = {}
        objective, of_chunks = 0.0, []
        run = self._runner(self.norms)
        for rows, part in self._parts():
            values = run(part)
            square = 0.0
            objective += rows / self.rows * float(values[self.norms.objective])
            for name, one in names.items():
                squares[name].append(np.asarray(values[one.squares], np.float64))
                gradient = np.asarray(values[one.gradient], np.float64)
                means[name] = means[name] + rows / self.rows * gradient
                square += _square(gradient)
                if one.shift is not None and name not in shifts:
                    shifts[name] = np.asarray(values[one.shift], np.float64)
            if rows == self.chunk:
                of_chunks.append(square)
        each = {name: np.concatenate(one) for name, one in squares.items()}
        own = {name: means[name] - shifts.get(name, 0.0) for name in names}
        norms = {name: (_square(own[name]), _square(means[name])) for name in names}
        parameters = {
            name: OfParameter(noise_of(each[name], *norms[name]), means[name].size)
            for name in names
        }
        together = sum(each.values(), np.zeros(self.rows))
        inner, whole = (sum(one[k] for one in norms.values()) for k in (0, 1))
        slopes = self._along(own, shifts)
        shifted = self._along(shifts, shifts) if shifts else np.zeros(self.rows)
        shift = sum(_square(one) for one in shifts.values())
        low, high = interval(together, slopes, shifted, inner, whole, shift, confidence)
        two = Noise(nan, nan)
        if self.chunk < self.rows:
            two = two_batch_noise(self.chunk, self.rows, float(np.mean(of_chunks)), whole)
        return GradientNoise(
            self.step.graph.name,
            steps,
            self.rows,
            objective,
            noise_of(together, inner, whole),
            low,
            high,
            confidence,
            parameters,
            two,
            each,
            self.chunk,
            self.norms.graph,
        )

    def _along(
        self, directions: Mapping[str, np.ndarray], shifts: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """The inner product of each example's gradient with directions, without the part that no
        example changes."""
        given = {}
        fixed = 0.0
        for name, one in self.slopes.names.items():
            direction = directions.get(name, np.zeros(self.given[name].shape))
            given[one.direction] = direction.astype(self.given[name].dtype)
            fixed += float(np.vdot(shifts.get(name, np.zeros_like(direction)), direction))
        run = self._runner(self.slopes)
        found = [run({**part, **given})[self.slopes.slopes] for _, part in self._parts()]
        return np.concatenate(found).astype(np.float64) - fixed

    def _runner(self, each: EachExample) -> Callable[[Mapping[str, Any]], Mapping[str, np.ndarray]]:
        key = ("compiled", each.graph)
        made = _remembered(self.step, key, lambda: each.graph.compile(executor=self.step.executor))
        names = {item.name for item in each.graph.inputs}
        return lambda part: made.run({k: v for k, v in part.items() if k in names})


def _square(array: np.ndarray) -> float:
    return float(np.vdot(array, array))


def forward_of(step: TrainingStep) -> Graph:
    """The forward pass of a step, for its objective alone."""
    graph = step.differentiated
    target = graph[step.objective]
    kept = topological([*[item.node for item in graph.inputs], target])
    inside = set(kept)
    return graph.replace(
        outputs=((step.objective, target),),
        nodes=tuple(kept),
        names={name: node for name, node in graph.names.items() if node in inside},
        gradients=(),
        unreached=(),
        assigned={},
        result=None,
    )


def _remembered(step: TrainingStep, key: Any, make: Callable[[], Any]) -> Any:
    """What was made for a step before, or now."""
    known = _made.setdefault(step, {})
    if key not in known:
        known[key] = make()
    return known[key]
