"""Random NumPy programs: Python source over a namespace `xp`, so that every library runs the same.

`programs()` is the Hypothesis strategy, `random_programs(count)` what a test on them is decorated
with.  `Program.function(xp)` is a plain Python function; `xp` is
one of those in `namespaces.py`.  Every operation is smooth, or `kink_distance` finds its kinks, and
none leaves its domain.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chainrule.graph.sizes.size_values import evaluate
from chainrule.graph.sizes.sizes import Size, product

Shape = tuple[Any, ...]
Choice = tuple[dict[str, Any], Shape]


@dataclass(frozen=True)
class Operation:
    """One line of a program: `template` with operands {x} and {y} and the parameters of a choice.

    `choices(env, *shapes)` gives the parameters that fit, each with the shape of the result; `env`
    gives numbers to named sizes.  `exact`: the library promises NumPy's value bit for bit.
    """

    template: str
    operands: int
    choices: Callable[..., Iterator[Choice]]
    exact: bool = True


@dataclass(frozen=True)
class Program:
    """`lines[i]` computes v{i}; J is the sum of what no other line uses, made a bit nonlinear.

    The parameters `scalars` are Python numbers.
    """

    shapes: tuple[Shape, ...]
    lines: tuple[str, ...]
    results: tuple[Shape, ...]
    unused: tuple[str, ...]
    exact: bool
    scalars: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """a, b, c, ..."""
        return tuple("abcdefgh"[: len(self.shapes)])

    def source(self, result: str) -> str:
        """The function as text; it returns the expression `result`."""
        total = " + ".join(
            f"xp.sum({name})" if i % 2 else f"xp.sum(xp.sin({name}))"
            for i, name in enumerate(self.unused)
        )
        body = "".join(f"    v{i} = {line}\n" for i, line in enumerate(self.lines))
        head = f"def program({', '.join(self.parameters)}):\n"
        return f"{head}{body}    J = {total}\n    return {result}\n"

    def function(self, xp: Any, *, every: bool = False) -> Callable[..., Any]:
        """The program on the functions of `xp`; it returns J, or with `every` a dict of all."""
        values = ", ".join(f"{n}={n}" for n in [*(f"v{i}" for i in range(len(self.lines))), "J"])
        scope: dict[str, Any] = {"xp": xp}
        exec(self.source(f"dict({values})" if every else "J"), scope)
        return scope["program"]

    def arguments(self, seed: int, env: dict[str, int]) -> list[Any]:
        """A float64 array or a number for each parameter, between -1.5 and 1.5."""
        random = np.random.default_rng(seed)
        arrays = [random.uniform(-1.5, 1.5, numbers(shape, env)) for shape in self.shapes]
        pairs = zip(self.parameters, arrays, strict=True)
        return [float(x) if name in self.scalars else np.asarray(x) for name, x in pairs]

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{n}: {list(s)}" for n, s in zip(self.parameters, self.shapes, strict=True)
        )
        return f"# {shapes}\n{self.source('J')}"


def numbers(shape: Shape, env: dict[str, int]) -> tuple[int, ...]:
    """A shape with the named sizes replaced."""
    return tuple(int(evaluate(size, env)) for size in shape)


def _broadcast(*shapes: Shape) -> Shape | None:
    """The common shape, or None; named sizes equal only themselves and are never 1."""
    result = []
    for sizes in itertools.zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        wide = {size for size in sizes if isinstance(size, Size) or size != 1}
        if len(wide) > 1:
            return None
        result.append(wide.pop() if wide else 1)
    return tuple(result[::-1])


def _same(env: Any, x: Shape) -> Iterator[Choice]:
    yield {}, x


def _together(env: Any, *shapes: Shape) -> Iterator[Choice]:
    shape = _broadcast(*shapes)
    if shape is not None:
        yield {}, shape


def _reduced(env: Any, x: Shape, *, may_be_empty: bool, several: bool = True) -> Iterator[Choice]:
    ndim = len(x)
    for axis in [None, *range(-1, ndim), *([(0, ndim - 1)] if ndim > 1 else [])]:
        if not several and not (isinstance(axis, int) and ndim):
            continue
        if isinstance(axis, int) and axis >= 0 and ndim == 0:
            continue
        if axis == -1 and ndim == 0:
            continue
        given = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = {one % ndim for one in given}
        if not may_be_empty and any(evaluate(x[one], env) == 0 for one in axes):
            continue
        kept = tuple(1 if i in axes else size for i, size in enumerate(x))
        gone = tuple(size for i, size in enumerate(x) if i not in axes)
        yield {"axis": axis, "keep": True}, kept
        yield {"axis": axis, "keep": False}, gone


def _summed(env: Any, x: Shape) -> Iterator[Choice]:
    return _reduced(env, x, may_be_empty=True)


def _filled(env: Any, x: Shape) -> Iterator[Choice]:
    return _reduced(env, x, may_be_empty=False)


def _along(env: Any, x: Shape) -> Iterator[Choice]:
    for axis in range(-1, len(x)) if x else ():
        if evaluate(x[axis], env) != 0:
            yield {"axis": axis}, x


def _matrices(env: Any, x: Shape, y: Shape) -> Iterator[Choice]:
    if not x or not y or x[-1] != (y[-2] if len(y) > 1 else y[0]):
        return
    batch = _broadcast(x[:-2], y[:-2])
    if batch is not None:
        yield {}, (*batch, *x[-2:-1], *(y[-1:] if len(y) > 1 else ()))


def _einsum(env: Any, x: Shape, y: Shape) -> Iterator[Choice]:
    forms = "i,j->ji ij,kj->ik ij,ij->j ij,j->ij ijk,kj->i ij,ji-> ij,jk->ki i,ij->i"
    for form in forms.split():
        left, _, right = form.partition("->")[0].partition(",")
        found: dict[str, Any] = {}
        if len(left) == len(x) and len(right) == len(y):
            pairs = [*zip(left, x, strict=True), *zip(right, y, strict=True)]
            if all(found.setdefault(letter, size) == size for letter, size in pairs):
                yield {"form": form}, tuple(found[letter] for letter in form.partition("->")[2])


def _reshaped(env: Any, x: Shape) -> Iterator[Choice]:
    ndim = len(x)
    yield {"shape": "xp.shape({x})[::-1]"}, x[::-1]
    yield {"shape": "(1, *xp.shape({x}))"}, (1, *x)
    if all(evaluate(size, env) != 0 for size in x):
        yield {"shape": "(-1,)"}, (product(x),)
    if ndim > 1:
        shape = (x[0] * x[1], *x[2:])
        yield {"shape": "({x}.shape[0] * {x}.shape[1], *{x}.shape[2:])"}, shape


def _permuted(env: Any, x: Shape) -> Iterator[Choice]:
    for axes in itertools.permutations(range(len(x))):
        yield {"axes": axes}, tuple(x[axis] for axis in axes)


def _indexed(env: Any, x: Shape) -> Iterator[Choice]:
    if not x:  # autograd's derivative of scalar[None] fails
        return
    yield {"key": "None"}, (1, *x)
    yield {"key": "..., None"}, (*x, 1)
    first, last = evaluate(x[0], env), evaluate(x[-1], env)
    if first:
        yield {"key": "0"}, x[1:]
        yield {"key": "-1"}, x[1:]
        yield {"key": "1:"}, (x[0] - 1, *x[1:])
        yield {"key": ":-1"}, (x[0] - 1, *x[1:])
    if last:
        yield {"key": "..., -1"}, x[:-1]
        yield {"key": "..., 1:"}, (*x[:-1], x[-1] - 1)
    yield {"key": "..., ::2"}, (*x[:-1], (x[-1] + 1) // 2)


def _gathered(env: Any, x: Shape) -> Iterator[Choice]:
    if x and evaluate(x[0], env):
        yield {"key": "xp.array([0, -1, 0])"}, (3, *x[1:])
    if x and evaluate(x[-1], env):
        yield {"key": "..., xp.array([[0], [0]])"}, (*x[:-1], 2, 1)
    if len(x) > 1 and evaluate(x[0], env) and evaluate(x[-1], env):
        yield {"key": "xp.array([0, -1]), ..., xp.array([-1, -1])"}, (2, *x[1:-1])


def _reversed(env: Any, x: Shape) -> Iterator[Choice]:
    if x:
        yield {}, x


def _joined(env: Any, x: Shape, y: Shape) -> Iterator[Choice]:
    if len(x) == len(y):
        for axis in range(len(x)):
            if (*x[:axis], *x[axis + 1 :]) == (*y[:axis], *y[axis + 1 :]):
                yield {"axis": axis}, (*x[:axis], x[axis] + y[axis], *x[axis + 1 :])


def _stacked(env: Any, x: Shape, y: Shape) -> Iterator[Choice]:
    if x == y:
        for axis in (0, -1):
            yield {"axis": axis}, ((2, *x) if axis == 0 else (*x, 2))


def _padded(env: Any, x: Shape) -> Iterator[Choice]:
    if x:
        pairs = tuple((i % 2, 1 if i == 0 else 0) for i in range(len(x)))
        shape = tuple(s + a + b for s, (a, b) in zip(x, pairs, strict=True))
        yield {"pairs": pairs}, shape


def _widened(env: Any, x: Shape) -> Iterator[Choice]:
    yield {"shape": "(2, *xp.shape({x}))"}, (2, *x)


def _unary(*templates: str, exact: bool = True) -> list[Operation]:
    return [Operation(template, 1, _same, exact) for template in templates]


def _binary(*templates: str, exact: bool = True) -> list[Operation]:
    return [Operation(template, 2, _together, exact) for template in templates]


def _folds(choices: Any, *templates: str, exact: bool = True) -> list[Operation]:
    return [
        Operation(template.replace("...", "axis={axis}, keepdims={keep}"), 1, choices, exact)
        for template in templates
    ]


ELEMENTWISE = [
    *_unary("xp.tanh({x})", "xp.sin({x})", "xp.cos({x})", "xp.exp(xp.sin({x}))", "-{x}"),
    *_unary("xp.log1p({x} * {x})", "xp.sqrt({x} * {x} + 0.5)", "xp.log({x} * {x} + 1.5)"),
    *_unary("xp.abs({x})", "xp.expm1(xp.sin({x}))"),
    *_unary(
        "0.5 * {x}",
        "{x} / 3.0",
        "1 - {x}",
        "1.0 / ({x} * {x} + 1)",
        "xp.power({x} * {x} + 1, -0.5)",
    ),
    # NumPy's scalars have a power of their own, which differs from its arrays' by an ulp.
    *_unary("{x} ** 2", "{x} ** 3 / 4", "({x} * {x} + 1.0) ** -0.5", exact=False),
    *_unary("2.0 ** xp.tanh({x})", "({x} * {x} + 1) ** -2", exact=False),
    *_unary("xp.maximum({x}, 0.1)", "xp.minimum(0, {x})", "xp.clip({x}, -0.9, 0.8)"),
    *_unary("xp.sign({x}) * {x}", "xp.square({x})", "{x}", "{x} + 0", "{x} * 1.0", "{x} * -1"),
    *_unary("xp.where(xp.greater({x}, 0.2), {x}, 0.3 * {x})", "(3.0 * {x}) * 0.7"),
    *_unary("xp.reciprocal({x} * {x} + 1)", "({x} / 3.0) * 3.0"),
    *_unary("xp.relu({x})", "xp.softplus({x})", "xp.sigmoid({x})", "xp.erf({x})", "xp.gelu({x})"),
    *_binary(
        "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y} * {y} + 1)", "xp.tanh({x}) / 2 * {y}"
    ),
    *_binary("xp.maximum({x}, {y})", "xp.minimum({x}, {y})"),
    *_binary("xp.power({x} * {x} + 0.5, xp.tanh({y}))"),
    *_binary("xp.where(xp.greater({x}, {y}), {x} * {y}, xp.sin({y}))"),
    *_binary("xp.logaddexp({x}, {y})", exact=False),
]
SHAPING = [
    Operation("xp.reshape({x}, {shape})", 1, _reshaped),
    Operation("xp.transpose({x}, {axes})", 1, _permuted),
    Operation("{x}[{key}]", 1, _indexed),
    Operation("xp.reverse({x})", 1, _reversed),
    Operation("xp.concatenate([{x}, {y}], axis={axis})", 2, _joined),
    Operation("xp.stack([{x}, {y}], axis={axis})", 2, _stacked),
    # Where the result lies differently in memory, a later sum rounds differently.
    Operation("xp.pad({x}, {pairs})", 1, _padded, exact=False),
    Operation("{x}[{key}]", 1, _gathered, exact=False),
    Operation("xp.broadcast_to({x}, {shape})", 1, _widened),
]
CONTRACTING = [
    *_folds(_summed, "xp.sum({x}, ...)"),
    *_folds(_filled, "xp.mean({x}, ...)", "xp.max({x}, ...)", "xp.min({x}, ...)"),
    *_folds(_filled, "xp.sqrt(xp.var({x}, ...) + 0.2)", exact=False),
    *_folds(_filled, "xp.logsumexp({x}, ...)"),
    Operation("xp.softmax({x}, axis={axis})", 1, _along),
    Operation("xp.log_softmax({x}, axis={axis})", 1, _along),
    Operation("{x} @ {y}", 2, _matrices),
    Operation("xp.einsum('{form}', {x}, {y})", 2, _einsum, exact=False),
]
GROUPS = (ELEMENTWISE, SHAPING, CONTRACTING)

CONCRETE_AXES = (0, 1, 1, 2, 2, 3, 3, 3)
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def programs(
    draw: Any,
    axes: tuple[Any, ...] = CONCRETE_AXES,
    env: dict[str, int] | None = None,
    exact: bool = False,
    empty: bool = True,
) -> Program:
    """A program whose inputs have up to three axes of sizes among `axes`.

    `env` gives a number to every named size among them.  With `exact`, only operations whose
    values are NumPy's bit for bit; without `empty`, no array without elements.
    """
    env = env or {}
    axes = axes if empty else tuple(axis for axis in axes if axis != 0)
    shape = st.lists(st.sampled_from(axes), max_size=3).map(tuple)
    shapes = tuple(draw(st.lists(shape, min_size=1, max_size=3)))
    values: dict[str, Shape] = dict(zip("abc", shapes, strict=False))
    scalars = tuple(name for name, shape in values.items() if not shape and draw(st.booleans()))
    lines: list[str] = []
    used: set[str] = set()
    all_exact = True
    for _ in range(draw(st.sampled_from([8, 5, 3, 1, 2, 12]))):
        operation = draw(st.sampled_from(draw(st.sampled_from(GROUPS))))
        if exact and not operation.exact:
            continue
        names = list(values)[::-1]  # Hypothesis prefers the front: the newest value
        x = draw(st.sampled_from(names))
        operands = {"x": x}
        if operation.operands == 2:
            fitting = [y for y in names if any(operation.choices(env, values[x], values[y]))]
            if not fitting:
                continue
            operands["y"] = draw(st.sampled_from(fitting))
        given = [values[name] for name in operands.values()]
        choices = [
            choice
            for choice in operation.choices(env, *given)
            if (not empty) <= np.prod(numbers(choice[1], env)) <= 300 and len(choice[1]) <= 4
        ]
        if not choices:
            continue
        parameters, result = draw(st.sampled_from(choices))
        filled = {
            key: value.format(**operands) if isinstance(value, str) else value
            for key, value in parameters.items()
        }
        values[f"v{len(lines)}"] = result
        lines.append(operation.template.format(**operands, **filled))
        used.update(operands.values())
        all_exact = all_exact and operation.exact
    unused = tuple(name for name in values if name not in used)
    results = tuple(values[f"v{i}"] for i in range(len(lines)))
    return Program(shapes, tuple(lines), results, unused, all_exact, scalars)


def random_programs(count: int, *, repeatable: bool = True, **options: Any) -> Callable[..., Any]:
    """Calls a test of a program and a seed with `count` of them, if `repeatable` always the same.

    `options` are those of `programs`.  Slow ones, and those that the test does not take, are fine.
    """
    calm = settings(
        max_examples=count,
        deadline=None,
        derandomize=repeatable,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    return lambda test: calm(given(programs(**options), SEEDS)(test))
