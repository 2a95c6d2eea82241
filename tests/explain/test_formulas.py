"""Formulas give the bytes of the order that was planned, at all sizes, and are written as such."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.errors import SizeError
from chainrule.explain.memory.formula import Formula, formula
from chainrule.explain.memory.polynomials import intervals, latex, text, undominated
from chainrule.explain.memory.report import MemoryReport
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.graph.bind import with_sizes
from chainrule.graph.graph import Graph
from chainrule.graph.sizes.parse_size import parse
from chainrule.machine_code.target import native_refusal
from chainrule.schedule.records import SCRATCH, Compute, Free

needs_native = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))
ROOT = Path(__file__).resolve().parents[2]
OPTIMIZERS = {
    "sgd": cr.sgd(0.1),
    "momentum": cr.sgd(0.1, momentum=0.9),
    "adam": cr.adam(1e-3),
}


def mlp(layers: int, dtype: Any = float32) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A network of this many matrices, with a penalty, and the types of its arguments."""
    widths = [12, *[20] * (layers - 1), 5]

    def objective(params, x, y, weight_decay=1e-3):
        h = x
        for number, W in enumerate(params):
            h = np.maximum(h, 0) @ W if number else h @ W
        L = cr.cross_entropy(h, y)
        J = L + weight_decay / 2 * sum(np.sum(W**2) for W in params)
        return J

    types = {
        "params": [dtype[a, b] for a, b in pairwise(widths)],
        "x": dtype["n 12"],
        "y": int64["n"],
    }
    return objective, types


def step_of(layers: int, optimizer: str, dtype: Any = float32) -> cr.TrainingStep:
    objective, types = mlp(layers, dtype)
    return cr.training_step(objective, "params", OPTIMIZERS[optimizer], executor="native", **types)


def transformer_step() -> cr.TrainingStep:
    path = ROOT / "benchmarks" / "cases" / "transformer_objective.py"
    spec = importlib.util.spec_from_file_location("transformer_objective", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    params = module.initial_parameters(vocabulary=11, length=6, width=8, depth=2)
    tokens = int64["batch", 6]
    types = {"params": params, "tokens": tokens, "targets": tokens}
    optimizer = cr.adamw(1e-3)
    return cr.training_step(module.objective, "params", optimizer, executor="native", **types)


def replayed_peak(run: RunMemory, planned: Graph, other: Graph) -> int:
    """The most bytes of values that are there at once if the schedule runs at other sizes.

    `planned` is the graph of the schedule, `other` the same graph at these sizes.
    """
    nbytes = {
        node: int(np.prod(twin.shape, dtype=np.int64)) * twin.dtype.itemsize
        for node, twin in zip(planned.nodes, other.nodes, strict=True)
    }
    schedule = run.usage.schedule
    there = {*schedule.given, *schedule.results} - set(schedule.overwrites.values())
    peak = sum(nbytes[node] for node in there)
    for one in schedule.instructions:
        if isinstance(one, Free):
            there.remove(one.node)
        elif isinstance(one, Compute):
            places = dict(zip(one.nodes, one.into, strict=True))
            for node, replaced in one.in_place:
                if places[node].arena == SCRATCH and replaced in there:
                    there.remove(replaced)
            there |= {node for node, buffer in places.items() if buffer.arena == SCRATCH}
            peak = max(peak, sum(nbytes[node] for node in there))
    return peak


def logical_peak(run: RunMemory) -> int:
    """The most bytes of values that are live in a run, without the workspace of kernels."""
    usage = run.usage
    return max(a - b for a, b in zip(usage.live_nbytes, usage.workspaces, strict=True))


def sampled(count: int, last: int = 4096) -> list[int]:
    return sorted({1, 2, 3, last, *random.Random(0).sample(range(1, last + 1), count)})


CASES = {
    **{f"{name}, 3 layers": lambda name=name: step_of(3, name) for name in OPTIMIZERS},
    "float64": lambda: step_of(2, "adam", float64),
    "1 layer": lambda: step_of(1, "sgd"),
    "100 layers": lambda: step_of(100, "sgd"),
    "transformer": transformer_step,
}


@pytest.mark.sweep(4)
@needs_native
@pytest.mark.parametrize("case", CASES)
def test_the_peak_is_that_of_the_planned_order_at_every_batch_size(case: str) -> None:
    step = CASES[case]()
    report = step.memory()
    (name,) = step.graph.sizes
    for size in sampled(6 if case == "100 layers" else 25):
        for run, found, graph in (
            (report.training, report.formulas.training, step.graph),
            (report.prediction, report.formulas.prediction, report.predicting),
        ):
            assert run is not None and found is not None
            other = with_sizes(graph, {name: size})
            assert found.peak.at(**{name: size}) == replayed_peak(run, run.graph, other)
            assert sum(part.at(**{name: size}) for part in found.parts.values()) == found.peak.at(
                **{name: size}
            )


@pytest.mark.sweep(3)
@needs_native
@pytest.mark.parametrize("case", CASES)
def test_at_the_reference_size_it_is_the_reports_live_peak(case: str) -> None:
    report = CASES[case]().memory()
    for run, found in (
        (report.training, report.formulas.training),
        (report.prediction, report.formulas.prediction),
    ):
        assert run is not None and found is not None
        assert found.peak.at(**report.sizes) == logical_peak(run)
        if run.peak_nbytes - run.padding_nbytes == logical_peak(run):  # no workspace then
            parts = {name: part.at(**report.sizes) for name, part in found.parts.items()}
            assert parts == {name: run.parts[name] for name in parts}


@needs_native
def test_every_named_value_has_its_formula() -> None:
    report = step_of(2, "sgd").memory(n=37)
    values = report.formulas.values
    assert {name: one.at(n=37) for name, one in values.items()} == {
        name: value.nbytes for name, value in report.values.items()
    }
    assert values["x"].at(n=1000) == 1000 * 12 * 4


@pytest.mark.slow
@needs_native
def test_a_plan_made_at_another_size_needs_little_else() -> None:
    """How far the order planned at 256 is from the one planned at the size itself."""
    step = step_of(3, "adam")
    peak = step.memory().formulas.peak
    for size in sampled(10):
        own = logical_peak(step.memory(n=size).main)
        assert abs(peak.at(n=size) - own) <= 0.15 * own, (size, peak.at(n=size), own)


def compiled(source: str) -> dict[str, Callable[..., int]]:
    space: dict[str, Any] = {"__builtins__": {"max": max, "min": min}}
    exec(source, space)
    return space


@needs_native
@pytest.mark.parametrize("sizes", [{}, {"d": 784, "h": 256, "q": 10}], ids=["n d h q", "n"])
def test_the_python_source_runs_by_itself_and_gives_the_same(sizes: dict[str, int]) -> None:
    report = memory_of_two_layers()
    functions = compiled(report.formulas.python())
    choose = random.Random(1)
    for _ in range(50):
        at = {name: choose.randrange(1, 2000) for name in "ndhq"} | sizes
        left = {name: size for name, size in at.items() if name not in sizes}
        named = {"peak": report.formulas.peak, **report.formulas.parts}
        for name, one in named.items():
            assert functions[f"{name.replace(' ', '_')}_nbytes"](**at) == one.at(**at)
            bound = one.bind(**sizes)
            assert compiled(bound.python())["nbytes"](**left) == bound.at(**left)
            assert bound.at(**left) == one.at(**at)


def memory_of_two_layers() -> MemoryReport:
    def objective(x: float32["n d"], y: int64["n"], W1: float32["d h"], W2: float32["h q"]):
        hidden = np.maximum(x @ W1, 0)
        J = cr.cross_entropy(hidden @ W2, y)
        return J

    step = cr.training_step(objective, ("W1", "W2"), cr.adam(1e-3), executor="native")
    return step.memory()


# Formulas by themselves ---------------------------------------------------------------------------


def of(names: str, *peaks: str) -> Formula:
    parsed = [parse(one) for one in peaks]
    return formula(tuple(names.split()), parsed, parsed)


@pytest.mark.parametrize(
    ("one", "written"),
    [
        (of("n", "4096 + 32*n"), "32 n + 4096"),
        (of("n d", "n + 3*d*d*n - 7"), "3 n d^2 + n - 7"),
        (of("n", "4*((n + 1)//2)"), "4 ((n + 1) // 2)"),
        (of("n", "4*min(n, 5)"), "4 min(n, 5)"),
        (of("n", "8"), "8"),
        (of("n", "3*n", "5*n"), "5 n"),
        (of("n", "n + 10", "2*n"), "n + 10 for n <= 10; 2 n for n >= 11"),
        (of("n", "2*n", "n + 10"), "n + 10 for n <= 9; 2 n for n >= 10"),
        (of("n m", "n + 3*m", "2*n + m"), "n + m + max(2 m, n)"),
        (of("n", "n//2 + 5", "2*(n//3)"), "max((n // 2) + 5, 2 (n // 3))"),
    ],
)
def test_a_formula_is_written_as_people_write_it(one: Formula, written: str) -> None:
    assert str(one) == written


def test_a_part_says_by_which_peak() -> None:
    peaks = [parse("n + 3*m"), parse("2*n + m")]
    part = formula(("n", "m"), peaks, [parse("n"), 7])
    assert str(part) == "n (1); 7 (2), by the largest of (1) 2 m, (2) n"
    assert part.at(n=1, m=5) == 1 and part.at(n=5, m=1) == 7
    assert str(part.bind(m=4)) == "n for n <= 8; 7 for n >= 9"


@pytest.mark.parametrize(
    ("size", "written"),
    [
        ("4096 + 32*n*n", r"32\,n^{2} + 4096"),
        ("4*(batch_size//8)", r"4\,\left\lfloor \frac{\mathit{batch\_size}}{8} \right\rfloor"),
        ("min(n, 5)", r"\min\left(n, 5\right)"),
        ("n%4", r"\left((n) \bmod (4)\right)"),
    ],
)
def test_a_formula_in_tex(size: str, written: str) -> None:
    assert latex(parse(size), ("n", "batch_size")) == written


def test_cases_in_tex() -> None:
    assert of("n", "n + 10", "2*n").latex == (
        r"\begin{cases} n + 10 & n \le 10 \\ 2\,n & n \ge 11 \end{cases}"
    )
    assert of("n m", "n + 3*m", "2*n + m").latex == (
        r"n + m + \max \begin{cases} 2\,m & \text{(1)} \\ n & \text{(2)} \end{cases}"
    )


def test_a_size_that_is_missing_wrong_or_unknown_is_explained() -> None:
    one = of("n m", "n*m")
    for wrong, said in (
        ({"n": 3}, "m was not given"),
        ({"n": 3, "m": 0}, "must be an integer of at least 1, got 0"),
        ({"n": 3, "m": 4, "k": 1}, "no size called 'k'"),
    ):
        with pytest.raises(SizeError, match=said):
            one.at(**wrong)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("seed", range(40))
def test_pieces_are_kept_where_they_are_the_largest(seed: int) -> None:
    """Against the maximum over all candidates, for random polynomials in one and two sizes."""
    choose = random.Random(seed)
    names = ("n",) if seed % 2 else ("n", "m")
    terms = ("", "*n", "*n*n") if seed % 2 else ("", "*n", "*m", "*n*m")
    candidates = [
        parse(" + ".join(f"{choose.choice((0, 1, 2, 5, 40, 300))}{term}" for term in terms))
        for _ in range(choose.randrange(1, 8))
    ]
    one = formula(names, candidates, candidates)
    for _ in range(200):
        at = {name: choose.choice((1, 2, 3, 10, 57, 300, 4096)) for name in names}
        assert one.at(**at) == max(value_at(x, at) for x in candidates)
    if one.intervals is not None and names == ("n",):
        for first, last, piece in one.intervals:
            for size in {first, last if last is not None else first + 1000}:
                assert value_at(piece, {"n": size}) == one.at(n=size)


def value_at(one: Any, at: Mapping[str, int]) -> int:
    return int(eval(str(one), {"__builtins__": {}}, dict(at)))


def test_the_sizes_at_which_another_peak_takes_over_are_exact() -> None:
    curves = [parse("n*n"), parse("100*n"), parse("7000 + n")]
    found = intervals(curves, "n")
    assert found == [(1, 2), (71, 1), (100, 0)]
    for size in range(1, 300):
        place = max(at for start, at in enumerate([start for start, _ in found]) if at <= size)
        chosen = dict(found)[place]
        assert value_at(curves[chosen], {"n": size}) == max(
            value_at(one, {"n": size}) for one in curves
        )


@pytest.mark.parametrize("seed", range(30))
def test_curves_that_cross_several_times_are_followed(seed: int) -> None:
    """Cubics with roots among the sizes, against the maximum at each size."""
    choose = random.Random(seed)
    curves = [parse("5*n"), parse("7*n")]
    for _ in range(2):
        a, b, c = (choose.randrange(1, 60) for _ in range(3))
        cubic = (cr.sizes("n") - a) * (cr.sizes("n") - b) * (cr.sizes("n") - c)
        curves.append(6 * cr.sizes("n") + choose.choice((-1, 1)) * cubic)
    found = intervals(curves, "n")
    assert found is not None
    for size in range(1, 80):
        values = [value_at(one, {"n": size}) for one in curves]
        place = [at for start, at in found if start <= size][-1]
        assert place == values.index(max(values)), (size, found, curves)


def test_what_another_peak_always_covers_is_left_out() -> None:
    curves = [parse("n*m + 1"), parse("n + m"), parse("n*m"), parse("2*n*m")]
    assert undominated(curves, {"n": 3, "m": 3}) == [3]
    assert text(parse("n*m"), ("m", "n")) == "m n"


@needs_native
def test_the_exercise_of_the_book_is_counted_as_the_documentation_says() -> None:
    """docs/memory-formulas.md explains each term of this sum."""

    def network(
        x: float32["n d"], y: int64["n"], W1: float32["d h"], W2: float32["h q"], weight_decay=1e-3
    ):
        z = x @ W1
        h = np.maximum(z, 0)
        o = h @ W2
        L = cr.cross_entropy(o, y)
        s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
        J = L + s
        return J

    step = cr.training_step(network, ("W1", "W2"), cr.sgd(0.1), executor="native")
    found = step.memory({"n": 256, "d": 784, "h": 256, "q": 10}, predict="o").formulas
    assert found.training is not None
    choose = random.Random(2)
    for _ in range(20):
        at = {name: choose.randrange(2, 5000) for name in "ndhq"}
        n, d, h, q = at.values()
        book = 4 * (4 * n * h + n * d + 2 * n * q + 2 * (d * h + h * q) + 3)
        gone = 4 * (n * q + 2 * n * h + d * h + h * q) + 8
        assert found.training.peak.at(**at) == book + 8 * n + 16 - gone
        book = 4 * (2 * n * h + n * d + n * q + d * h + h * q)
        assert found.prediction.peak.at(**at) == book - 4 * n * h
