"""Every transform keeps the values and the invariants of random programs, and derivatives agree."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from namespaces import autograd_namespace, kink_distance, plain, torch_namespace, traced
from programs import Program, numbers, programs

import chainrule as cr
from chainrule import float64
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import INVARIANTS
from chainrule.graph.node import Node, topological
from chainrule.transforms import batch, deduplicate, jvp_graph, prune, simplify, vjp_graph
from chainrule.transforms.backward import gradient_name
from chainrule.transforms.rules import RULES_BY_ROOT, Rule

SEEDS = st.integers(0, 2**32 - 1)
SYMBOLIC = cr.sizes("n m")


def examples(few: int, many: int, **options: Any) -> Any:
    """The same test twice: a few programs, always the same; then many, always others: these in
    the exhaustive tier."""

    def decorate(test: Any) -> Any:
        def tier(count: int, repeatable: bool) -> Any:
            calm = settings(
                max_examples=count,
                deadline=None,
                derandomize=repeatable,
                report_multiple_bugs=False,
                suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
            )
            return calm(given(programs(**options), SEEDS)(test))

        @pytest.mark.parametrize(
            "run", [pytest.param(tier(few, True), id="few"), many_param(tier(many, False))]
        )
        @functools.wraps(test, assigned=("__name__", "__doc__", "__module__"), updated=())
        def tiers(run: Any) -> None:
            run()

        del tiers.__wrapped__
        return tiers

    return decorate


def many_param(run: Any) -> Any:
    return pytest.param(run, id="many", marks=pytest.mark.exhaustive)


def arguments_of(program: Program, seed: int) -> dict[str, np.ndarray]:
    return dict(zip(program.parameters, program.arguments(seed, {}), strict=True))


def holds(graph: Graph) -> Graph:
    """The graph, of which every invariant is true."""
    for invariant in INVARIANTS:
        assert invariant(graph), invariant.__name__
    return graph


def outputs(graph: Graph, arguments: dict[str, Any]) -> dict[str, np.ndarray]:
    run = graph.run(arguments, keep="outputs")
    return {name: run[name] for name, _ in graph.outputs}


def same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    x, y = np.asarray(x), np.asarray(y)
    return x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y, equal_nan=True)


def all_same_bits(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert list(one) == list(other)
    for name in one:
        assert same_bits(one[name], other[name]), name


def all_close(one: dict[str, Any], other: dict[str, Any], rtol: float) -> None:
    """Equal within rtol of the largest element: sums of both signs lose what their terms lose."""
    assert list(one) == list(other)
    for name in one:
        x, y = np.asarray(one[name]), np.asarray(other[name])
        assert x.shape == y.shape, name
        largest = np.max(np.abs(y), initial=1.0)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * largest, err_msg=name)


def traced_graph(program: Program, arguments: dict[str, np.ndarray], **options: Any) -> Graph:
    return cr.trace(program.function(traced, **options), **arguments)


# Transforms --------------------------------------------------------------------------------------


def run_and_numpy(program: Program, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    arguments = arguments_of(program, seed)
    graph = holds(traced_graph(program, arguments, every=True))
    return graph.run(arguments).outputs, program.function(plain, every=True)(**arguments)


@examples(20, 100, exact=True)
def test_a_run_is_numpy_bit_for_bit(program: Program, seed: int) -> None:
    all_same_bits(*run_and_numpy(program, seed))


@examples(12, 60)
def test_a_run_is_numpy_to_rounding(program: Program, seed: int) -> None:
    all_close(*run_and_numpy(program, seed), rtol=1e-10)


def derived(graph: Graph, wrt: tuple[str, ...]) -> dict[str, Graph]:
    """What every transform makes of the gradient graph of a program."""
    first = cr.backward(graph, wrt=wrt)
    some = gradient_name("J", wrt[0])
    second = cr.backward(first, wrt=wrt, of=some, seed="direction")
    return {
        "trace": graph,
        "backward": first,
        "backward wrt all": cr.backward(graph, wrt="all"),
        "backward twice": second,
        "jvp": jvp_graph(graph, wrt),
        "vjp": vjp_graph(graph, wrt),
        "vjp of jvp": vjp_graph(jvp_graph(graph, wrt), wrt),
        "jvp of backward": jvp_graph(first, wrt),
        "batch": batch(first, 2, wrt[:1]),
    }


def work(graph: Graph) -> int:
    """Operations on arrays; a rule may add one on scalars."""
    return sum(node.primitive.flops(node) for node in graph.nodes if node.type.shape)


def is_done(rewrite: Any, graph: Graph) -> bool:
    """Whether nothing is left that the transform promises to remove."""
    inputs = [item.node for item in graph.inputs]
    if rewrite is prune:
        return set(graph.nodes) == set(topological([*inputs, *(node for _, node in graph.outputs)]))
    if rewrite is deduplicate:
        # 0.0 == -0.0 and repr tells them apart; arrays are one only where they are one object
        rest = [node for node in graph.nodes if node not in inputs]
        keys = [(node.primitive, node.inputs, repr(node.params), node.params) for node in rest]
        return len(set(keys)) == len(keys)
    forms = [(n, rule.after(n)) for n in graph.nodes for rule in rules_of(n)]
    return all(after is None or after.type != n.type for n, after in forms)  # as 0 + weak scalar


def rules_of(node: Node) -> tuple[Rule, ...]:
    return RULES_BY_ROOT.get(node.primitive, ())


def some_arguments(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {item.name: random.uniform(-1.5, 1.5, item.type.shape) for item in graph.inputs}


@pytest.mark.slow
@examples(8, 20)
def test_transforms_keep_invariants_and_values(program: Program, seed: int) -> None:
    arguments = arguments_of(program, seed)
    graph = traced_graph(program, arguments)
    for name, before in derived(graph, program.parameters).items():
        holds(before)
        given_ = some_arguments(before, seed)
        values = outputs(before, given_)
        for rewrite, rtol in ((simplify, 1e-12), (deduplicate, 0), (prune, 0)):
            after = holds(rewrite(before))
            again = rewrite(after)
            assert after.text() == again.text(), (name, rewrite.__name__)
            assert work(after) <= work(before), (name, rewrite.__name__)
            assert is_done(rewrite, after), (name, rewrite.__name__)
            if rtol:
                all_close(outputs(after, given_), values, rtol)
            else:
                all_same_bits(outputs(after, given_), values)


@examples(12, 60)
def test_a_gradient_has_its_variables_type_and_is_the_sum_of_its_terms(
    program: Program, seed: int
) -> None:
    arguments = arguments_of(program, seed)
    step = cr.backward(traced_graph(program, arguments), wrt="all")
    terms = {
        f"term{i}.{j}": term.value
        for i, gradient in enumerate(step.gradients)
        for j, term in enumerate(gradient.terms)
    }
    terms = {name: node for name, node in terms.items() if node in set(step.nodes)}
    shown = step.replace(names={**step.names, **terms})
    run = shown.run(arguments)
    for i, gradient in enumerate(step.gradients):
        assert gradient.value.type.shape == gradient.wrt.type.shape
        assert gradient.value.type.dtype == gradient.wrt.type.dtype
        mine = [f"term{i}.{j}" for j in range(len(gradient.terms))]
        if mine and all(name in terms for name in mine) and gradient.value in step.name_of:
            total = sum(run[name] for name in mine)
            value = run[step.name_of[gradient.value]]
            np.testing.assert_allclose(
                total, value, rtol=1e-12, atol=1e-12 * np.abs(value).max(initial=1)
            )


@examples(8, 20)
def test_batch_is_a_loop(program: Program, seed: int) -> None:
    arguments = arguments_of(program, seed)
    step = cr.backward(traced_graph(program, arguments), wrt=program.parameters)
    random = np.random.default_rng(seed)
    count = 3
    chosen = [name for name in program.parameters if random.random() < 0.7] or ["a"]
    many = {
        name: random.uniform(-1.5, 1.5, (count, *np.shape(x))) if name in chosen else x
        for name, x in arguments.items()
    }
    wide = holds(batch(step, count, chosen))
    found = wide.run(many, keep="outputs")
    for i in range(count):
        one = {name: x[i] if name in chosen else x for name, x in many.items()}
        expected = outputs(step, one)
        got = {
            name: found[wide_name][i]
            for (name, _), (wide_name, _) in zip(step.outputs, wide.outputs, strict=True)
        }
        all_close(got, expected, 1e-12)


# Named sizes -------------------------------------------------------------------------------------

ENV = {"n": 3, "m": 2}
symbolic_programs = programs(axes=(*SYMBOLIC, *SYMBOLIC, 1, 2, 3), env=ENV)


def check_named_sizes(program: Program, seed: int) -> None:
    types = {
        name: 0.5 if name in program.scalars else float64[shape]
        for name, shape in zip(program.parameters, program.shapes, strict=True)
    }
    general = cr.backward(
        holds(cr.trace(program.function(traced), **types)), wrt=program.parameters
    )
    holds(general)
    arguments = dict(zip(program.parameters, program.arguments(seed, ENV), strict=True))
    concrete = cr.backward(traced_graph(program, arguments), wrt=program.parameters)
    expected = outputs(concrete, arguments)
    bound = holds(general.bind(**{name: ENV[name] for name in general.sizes}))
    assert bound.sizes == ()
    all_close(outputs(bound, arguments), expected, 1e-12)
    all_close(outputs(general, arguments), expected, 1e-12)
    for name, shape in zip(program.parameters, program.shapes, strict=True):
        gradient = general[gradient_name("J", name)]
        assert gradient.type.shape == tuple(shape)
        assert bound[gradient_name("J", name)].type.shape == numbers(shape, ENV)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(symbolic_programs, SEEDS)
def test_named_sizes_bound_to_numbers_are_the_concrete_trace(program: Program, seed: int) -> None:
    check_named_sizes(program, seed)


@pytest.mark.exhaustive
@settings(max_examples=40, deadline=None)
@given(symbolic_programs, SEEDS)
def test_named_sizes_bound_to_numbers_are_the_concrete_trace_often(
    program: Program, seed: int
) -> None:
    check_named_sizes(program, seed)


# Derivatives against other libraries -------------------------------------------------------------


def calm_arguments(program: Program, seed: int) -> dict[str, np.ndarray]:
    """Arguments at which the program is smooth and no value so large that it swallows others."""
    arguments = arguments_of(program, seed)
    assume(kink_distance(program, list(arguments.values())) > 1e-6)
    values = program.function(plain, every=True)(**arguments)
    assume(all(np.max(np.abs(v), initial=0) < 1e4 for v in values.values()))
    return arguments


def first_and_second(program: Program, arguments: dict[str, np.ndarray], seed: int) -> Any:
    """J, gradients, directions and Hessian-vector products: reverse over reverse, by graphs."""
    names = program.parameters
    step = cr.backward(traced_graph(program, arguments), wrt=names)
    random = np.random.default_rng(seed + 1)
    directions = {
        name: np.asarray(random.uniform(-1, 1, np.shape(x))) for name, x in arguments.items()
    }
    products = {name: np.zeros(np.shape(x)) for name, x in arguments.items()}
    for name in names:
        of = gradient_name("J", name)
        twice = cr.backward(step, wrt=names, of=of, seed="direction")
        run = twice.run({**arguments, "direction": directions[name]})
        for other in names:
            products[other] = products[other] + run[gradient_name(of, other)]
    run = step.run(arguments)
    gradients = {name: run[gradient_name("J", name)] for name in names}
    return run["J"], gradients, directions, products


def forward_over_reverse(program: Program, arguments: Any, directions: Any) -> dict[str, Any]:
    product = cr.hvp(
        program.function(traced), tuple(arguments.values()), tuple(directions.values())
    )
    return dict(zip(arguments, product, strict=True))


@examples(10, 40, empty=False)  # autograd fails on some arrays without elements
def test_first_and_second_derivatives_are_autograds(program: Program, seed: int) -> None:
    import autograd

    arguments = calm_arguments(program, seed)
    J, gradients, directions, products = first_and_second(program, arguments, seed)
    function = program.function(autograd_namespace())
    gradient = autograd.grad(lambda xs: function(*xs))
    values, moves = tuple(arguments.values()), tuple(directions.values())

    def along(xs: Any) -> Any:
        total = 0.0
        for g, move in zip(gradient(xs), moves, strict=True):
            total = total + autograd.numpy.sum(g * move)
        return total

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(J, function(*values), rtol=1e-10, atol=1e-10)
        all_close(gradients, dict(zip(arguments, gradient(values), strict=True)), 1e-9)
        expected = dict(zip(arguments, autograd.grad(along)(values), strict=True))
    all_close(products, expected, 1e-9)
    all_close(forward_over_reverse(program, arguments, directions), expected, 1e-9)


@pytest.mark.peers
@examples(10, 30)
def test_first_and_second_derivatives_are_pytorchs(program: Program, seed: int) -> None:
    torch = pytest.importorskip("torch")
    arguments = calm_arguments(program, seed)
    J, gradients, directions, products = first_and_second(program, arguments, seed)
    leaves = [torch.tensor(x, requires_grad=True, dtype=torch.float64) for x in arguments.values()]
    value = program.function(torch_namespace())(*leaves)
    options = dict(allow_unused=True, materialize_grads=True)
    found = torch.autograd.grad(value, leaves, create_graph=True, **options)
    first = dict(zip(arguments, found, strict=True))
    along = sum((g * torch.tensor(directions[n])).sum() for n, g in first.items())
    second = {name: torch.zeros_like(leaf) for name, leaf in zip(arguments, leaves, strict=True)}
    if along.requires_grad:
        found = torch.autograd.grad(along, leaves, **options)
        second = dict(zip(arguments, found, strict=True))
    np.testing.assert_allclose(J, value.item(), rtol=1e-10, atol=1e-10)
    all_close(gradients, {n: g.numpy(force=True) for n, g in first.items()}, 1e-9)
    all_close(products, {n: g.numpy(force=True) for n, g in second.items()}, 1e-9)
