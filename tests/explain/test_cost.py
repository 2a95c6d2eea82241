"""graph.cost: operations and bytes moved, by value and phase, in numbers and in named sizes."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.errors import InputError, SizeError

SIZES = {"n": 256, "d": 784, "h": 256, "c": 10}
n, d, h, c = cr.sizes("n d h c")


def objective(x: float32["n d"], W1: float32["d h"], W2: float32["h c"]):
    z = x @ W1
    a = np.tanh(z)
    o = a @ W2
    J = np.sum(o**2)
    return J


FORWARD = cr.trace(objective)
BOTH = cr.backward(FORWARD, wrt=("W1", "W2"))
PRODUCTS = ("matmul", "contract")


def products(cost: Any, phase: str) -> Any:
    """The operations of matrix products in one phase."""
    return sum(
        (x.flops for x in cost.nodes if x.operation in PRODUCTS and str(x.phase) == phase), 0
    )


# Operations -------------------------------------------------------------------------------------


def test_the_operations_of_a_network_are_those_counted_by_hand() -> None:
    cost = BOTH.cost()
    assert products(cost, "forward") == 2 * n * d * h + 2 * n * h * c
    # dJ/dW1 and dJ/dW2 as many as forward, dJ/da as many as o; dJ/dx is not wanted
    assert products(cost, "backward") == 2 * n * d * h + 2 * (2 * n * h * c)
    others = 10 * n * h + n * c + n * c  # tanh counts ten, the square and the sum one each
    assert cost.phases["forward"].flops == 2 * n * d * h + 2 * n * h * c + others
    assert cost.flops == sum((one.flops for one in cost.nodes), 0)
    assert cost.values["z"].flops == 2 * n * d * h
    assert cost.values["o"].flops == 2 * n * h * c


def test_the_backward_pass_takes_twice_the_products_of_the_forward_pass() -> None:
    cost = cr.backward(FORWARD, wrt="all").cost(SIZES)
    assert products(cost, "backward") == 2 * products(cost, "forward")
    without_inputs = BOTH.cost(SIZES)
    assert products(without_inputs, "backward") < 2 * products(without_inputs, "forward")


def test_numbers_are_the_polynomials_at_these_sizes() -> None:
    symbolic, numbers = BOTH.cost(), BOTH.cost(**SIZES)
    assert symbolic.names == ("n", "d", "h", "c") and numbers.names == ()
    for one, other in zip(symbolic.nodes, numbers.nodes, strict=True):
        for what in ("flops", "nbytes"):
            assert value_at(getattr(one, what)) == getattr(other, what)
    assert symbolic.at(**SIZES).flops == numbers.flops
    assert BOTH.cost(n=256).at(d=784, h=256, c=10).nbytes == numbers.nbytes
    assert BOTH.bind(**SIZES).cost().flops == numbers.flops


def value_at(one: Any) -> int:
    from chainrule.graph.sizes.size_values import evaluate

    found = evaluate(one, SIZES)
    assert isinstance(found, int)
    return found


def test_a_training_step_has_three_phases() -> None:
    step = cr.training_step(objective, wrt=("W1", "W2"), optimizer=cr.sgd(0.1))
    cost = step.graph.cost()
    assert list(cost.phases) == ["forward", "backward", "update"]
    assert cost.phases["update"].flops == 2 * d * h + 2 * h * c
    assert cost.phases["forward"].flops == BOTH.cost().phases["forward"].flops
    tangents = cr.trace(lambda x: cr.jvp(np.sin, (x,), (x,)), float64["n"]).cost()
    assert list(tangents.phases) == ["forward"]  # the program's own derivatives
    made = cr.transforms.jvp_graph(FORWARD, ("W1",)).cost()
    assert list(made.phases) == ["forward", "tangent"]
    batched = cr.transforms.batch(BOTH, 3, ["x"]).cost(SIZES)
    assert list(batched.phases) == ["forward", "backward"]
    assert products(batched, "forward") == 3 * products(BOTH.cost(SIZES), "forward")


# Bytes ------------------------------------------------------------------------------------------


def moved(function: Any, *types: Any) -> dict[str, Any]:
    return {one.operation: one.nbytes for one in cr.trace(function, *types).cost().nodes}


def test_every_node_reads_its_operands_and_writes_its_result() -> None:
    cost = FORWARD.cost()
    assert cost.values["z"].nbytes == 4 * (n * d + d * h + n * h)
    assert cost.values["a"].nbytes == 4 * (2 * n * h)
    assert cost.nbytes == sum((one.nbytes for one in cost.nodes), 0)


def test_views_and_what_is_given_move_nothing() -> None:
    x = float64["n m"]
    n, m = cr.sizes("n m")
    found = moved(lambda x: np.sum(np.reshape(x.T, (-1,))[1:]), x)
    assert found["input"] == found["transpose"] == found["reshape"] == found["slice"] == 0
    assert found["sum"] == 8 * (n * m - 1) + 8
    assert moved(lambda x: x * np.ones_like(x), x)["multiply"] == 8 * (2 * n * m)
    assert moved(lambda x, b: x + b, x, float64["m"])["add"] == 8 * (2 * n * m + m)
    assert moved(lambda x: x * x, x)["multiply"] == 8 * (2 * n * m)  # x is read once


def test_a_lookup_reads_what_it_gives() -> None:
    found = moved(lambda t, i: t[i], float32["k 3"], int64["n"])
    assert found["gather"] == 2 * (4 * 3 * n) + 8 * n
    graph = cr.backward(cr.trace(lambda t, i: np.sum(t[i]), float32["k 3"], int64["n"]), wrt="t")
    k = cr.size("k")
    scattered = {one.operation: one.nbytes for one in graph.cost().nodes}["scatter_add"]
    assert scattered == 4 * 3 * k + 8 * n  # of one number that is nowhere stored


def test_operations_for_each_byte() -> None:
    square = cr.trace(lambda a, b: a @ b, float32["n n"], float32["n n"])
    assert square.cost(n=300).intensity == pytest.approx(2 * 300**3 / (3 * 4 * 300**2))
    with pytest.raises(SizeError) as caught:
        square.cost().intensity  # noqa: B018
    assert "operations for each byte depend on n" in str(caught.value)
    assert cr.trace(lambda x: x, float64[3]).cost().intensity == 0


# As text, as data -------------------------------------------------------------------------------


def test_the_table_in_named_sizes() -> None:
    lines = FORWARD.cost().table().splitlines()
    assert lines[0] == "cost of objective"
    assert lines[2].split("  ")[0] == "phase"
    (z,) = [line for line in lines if line.startswith("z ")]
    assert z.split("  ")[-1] == "4*n*d + 4*n*h + 4*d*h"
    assert z.split("  ")[-2].strip() == "2*n*d*h"
    (total,) = [line for line in lines if line.startswith("total")]
    assert "2*n*d*h + 2*n*h*c + 10*n*h + 2*n*c" in total
    assert "per byte" not in lines[2]
    assert str(FORWARD.cost()) == "\n".join(lines)


def test_the_table_in_numbers() -> None:
    text = str(BOTH.cost(SIZES))
    assert text.startswith("cost of objective at n = 256, d = 784, h = 256, c = 10\n")
    (z,) = [line for line in text.splitlines() if line.startswith("z ")]
    flops, nbytes = 2 * 256 * 784 * 256, 4 * (256 * 784 + 784 * 256 + 256 * 256)
    per_byte = f"{flops / nbytes:.3g}"
    assert z.split() == [
        "z",
        "float32[256,",
        "256]",
        "forward",
        f"{flops:,}",
        f"{nbytes:,}",
        per_byte,
    ]


def test_many_values_are_shown_by_their_operations() -> None:
    cost = BOTH.cost(SIZES)
    text = cost.table(rows=1)
    assert "values of fewer operations left out: cost.table(rows=None) shows all" in text
    shown = [line.split()[0] for line in text.splitlines() if "float32[" in line]
    assert shown == ["z"]  # of the two with most, the first
    assert "left out" not in cost.table(rows=None)


def test_it_is_data_for_json() -> None:
    found = json.loads(json.dumps(BOTH.cost(n=5).json()))
    assert found["schema"] == "chainrule.cost/1"
    assert (found["sizes"], found["open"]) == ({"n": 5}, ["d", "h", "c"])
    assert set(found["phases"]) == {"forward", "backward"}
    (z,) = [one for one in found["values"] if one["name"] == "z"]
    assert z["flops"] == "10*d*h" and z["steps"] == 1 and z["phase"] == "forward"
    assert eval(z["nbytes"], {"d": 7, "h": 2}) == 4 * (5 * 7 + 7 * 2 + 5 * 2)
    assert BOTH.cost(SIZES).json()["total"]["flops"] == BOTH.cost(SIZES).flops
    assert [one["operation"] for one in found["nodes"]][:3] == ["input"] * 3


@pytest.mark.parametrize("cost", [BOTH.cost(), BOTH.cost(SIZES)], ids=["letters", "numbers"])
def test_rich_shows_the_same(cost: Any) -> None:
    console = Console(file=StringIO(), width=200, record=True)
    console.print(cost)
    text = console.export_text()
    for name in ("phase", "forward", "backward", "total", "dJ/dW1"):
        assert name in text
    narrow = Console(file=StringIO(), width=60, record=True)
    narrow.print(cost)
    assert "forward" in narrow.export_text()


def test_it_is_short_where_a_line_is_wanted() -> None:
    total = FORWARD.cost(SIZES)
    assert repr(total) == (
        f"<Cost of objective: {total.flops:,} operations, {total.nbytes:,} bytes moved>"
    )
    assert repr(cr.trace(np.sin, float32["n"]).cost()) == (
        "<Cost of sin: 10*n operations, 8*n bytes moved>"
    )
    named = cr.trace(np.sin, float32["n"]).replace(name="<b>")
    assert "cost of &lt;b&gt;" in named.cost()._repr_html_()


# Refusals ---------------------------------------------------------------------------------------


def test_sizes_that_are_none() -> None:
    with pytest.raises(SizeError, match="'k'"):
        FORWARD.cost(k=3)
    with pytest.raises(SizeError):
        FORWARD.cost(n=0)
    with pytest.raises(InputError, match="takes sizes by name, got int"):
        FORWARD.cost(256)  # type: ignore[arg-type]


# Second derivatives -----------------------------------------------------------------------------


def test_a_second_gradient_costs_a_few_times_the_first() -> None:
    x = np.zeros((8, 16), np.float32)
    W = np.zeros((16, 4), np.float32)

    def f(W: Any) -> Any:
        return np.sum(np.tanh(x @ W) ** 2)

    flops = [
        cr.trace(g, W).cost().flops
        for g in (f, cr.grad(f), lambda W: cr.hvp(f, W, W), cr.hessian(f))
    ]
    assert flops[0] < flops[1] < flops[2] < flops[3]
    assert flops[1] < 4 * flops[0] and flops[2] < 10 * flops[0]
    assert flops[3] >= W.size * flops[0] / 2


def test_open_sizes_are_in_pythons_grammar_also_within_quotients() -> None:
    def f(A: cr.float64["d d"], b: cr.float64["d"]):
        x = np.linalg.solve(A, b)
        return x

    flops = cr.trace(f).cost().json()["total"]["flops"]
    assert flops == "2*d**2 + ((2*d**3) // 3)"
    for d in (1, 2, 5, 30):
        assert eval(flops, {"d": d}) == cr.trace(f).cost(d=d).flops
