"""The text of a plan says what is run, by how many threads and why; it is the same everywhere."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from executors import needs_native
from mlp import objective

import chainrule as cr
import chainrule.plan.sharing
from chainrule import float32, int64
from chainrule.errors import SizeError
from chainrule.execute.run import kept_nodes
from chainrule.graph.graph import Graph
from chainrule.plan.duration import work_nanoseconds
from chainrule.plan.planner import Plan, plan
from chainrule.plan.sharing import WORTH_SHARING, sharing
from chainrule.plan.text import shared
from chainrule.plan.work import NestWork
from chainrule.train.step.bound import results_of

SIZES = {"n": 256, "d": 784, "h": 256, "q": 10}
STEP = """\
plan of objective
   1  product 256 x 784 x 256  2 threads: about 714 µs of work on one  262,144 bytes  z
        z = x W1
   2  loops 16 x 4096          2 threads: about 18 µs of work on one   262,144 bytes  h
        maximum; 1 sweep, 16 lanes
   3  product 256 x 256 x 10   2 threads: about 28 µs of work on one    10,240 bytes  o
        o = h W2
   4  loops 256 x 10           2 threads: about 1.9 µs of work on one   10,244 bytes  %20, dJ/do
        max, absolute, less, where, subtract, exp, sum, log, gather, negative, divide, scatter_add,
          multiply, add; 3 sweeps, 16 lanes of rows
   5  loops 49 x 4096          2 threads: about 28 µs of work on one         4 bytes  %26
        integer_power, sum; 1 sweep, 16 lanes
   6  loops 1 x 2560           1 thread: under 0.1 µs                        4 bytes  %28
        integer_power, sum; 1 sweep, 16 lanes
   7  loops 1 x 1              1 thread: under 0.1 µs                        4 bytes  J
        add, divide, cast, multiply
        on the way, never stored: s, L
   8  product 256 x 10 x 256   2 threads: about 16 µs of work on one   262,144 bytes  dJ/dh
        dJ/dh = dJ/do W2^T
   9  loops 16 x 4096          2 threads: about 37 µs of work on one   524,288 bytes  dJ/dz, h
        equal, where, greater, multiply, maximum; 1 sweep, 16 lanes
        h is computed again, for 10: its 262,144 bytes are free from 4 to 8
  10  product 256 x 256 x 10   2 threads: about 33 µs of work on one    10,240 bytes  W2_next
        W2_next = (1 - learning_rate weight_decay) W2 - learning_rate h^T dJ/do, in place
        on the way, never stored: dJ/dW2
  11  product 784 x 256 x 256  2 threads: about 706 µs of work on one  802,816 bytes  W1_next
        W1_next = (1 - learning_rate weight_decay) W1 - learning_rate x^T dJ/dz, in place
        on the way, never stored: dJ/dW1
11 instructions, up to 2 threads, 542,720 bytes of scratch memory (none wasted), 4 bytes of results,
  813,056 bytes updated in place"""


def planned(graph: Graph, keep: Any = "outputs", threads: int = 2) -> Plan:
    """The plan for so many threads, on a processor with vectors of 64 bytes."""
    return plan(graph, kept_nodes(graph, keep), threads=threads, vector_nbytes=64)


def line(text: str, *parts: str) -> str:
    """The one line of the text that has all the parts."""
    (found,) = [one for one in text.splitlines() if all(part in one for part in parts)]
    return found


def training_plan(optimizer: Any = None, threads: int = 2) -> Plan:
    step = cr.training_step(objective, ("W1", "W2"), optimizer or cr.sgd(0.1))
    concrete = step.graph.bind(**SIZES)
    return plan(concrete, *results_of(step, concrete), threads=threads, vector_nbytes=64)


def test_the_text_of_a_training_step() -> None:
    assert str(training_plan()) == STEP


def test_there_is_a_numbered_line_for_each_instruction() -> None:
    made = training_plan()
    starts = re.findall(r"^ *(\d+)  ", str(made), re.MULTILINE)
    assert starts == [str(number) for number in range(1, len(made.works) + 1)]


def test_one_thread_is_said_once_without_a_reason() -> None:
    text = str(training_plan(threads=1))
    assert "1 thread: about 690 µs  " in text and "not worth" not in text
    assert "11 instructions, 1 thread, " in line(text, "instructions")


def test_the_text_says_what_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chainrule.plan.sharing, "WORTH_SHARING", 1e9)
    assert "2 threads:" not in str(training_plan())
    monkeypatch.setattr(chainrule.plan.sharing, "WORTH_SHARING", 0.0)
    made = training_plan()
    rows = [work.layouts[0].row_count for work in made.works if isinstance(work, NestWork)]
    assert str(made).count("2 threads:") == len(made.works) - rows.count(1)


def test_the_times_are_those_by_which_plans_are_chosen() -> None:
    made = training_plan(threads=1)
    told = [
        float(one)
        for one in re.findall(r"1 thread: about ([\d.,]+) µs", str(made).replace(",", ""))
    ]
    priced = [work_nanoseconds(work, made.speeds) - made.speeds.instruction for work in made.works]
    long = [one / 1000 for one in priced if one >= 100]
    assert told == pytest.approx(long, rel=0.06, abs=0.05) and len(long) == len(made.works) - 2


def test_a_reason_names_what_decides() -> None:
    long, short = (sharing(WORTH_SHARING + more, 2) for more in (1000, -1000))
    assert shared(long, 7000, 2) == "2 threads: about 7 µs of work on one"
    assert shared(short, 4500, 2) == "1 thread: about 4.5 µs, not worth two"
    assert shared(short, 3, 2) == "1 thread: under 0.1 µs"
    prevented = sharing(31_000, 2).prevented("it has 1 row")
    assert shared(prevented, 31_000, 2) == "1 thread: about 31 µs, but it has 1 row"
    assert sharing(3, 2).prevented("it has 1 row") == sharing(3, 2)


def test_additions_that_may_meet_are_not_shared() -> None:
    def pick(table: float32[1000, 64], rows: int64[4000]):
        return np.sum(table[rows] ** 2)

    graph = cr.backward(cr.trace(pick), wrt="table")
    text = str(planned(graph))
    assert "1 thread: about 49 µs, but updates may meet" in line(text, "loops 4000 x 64", "but")


def test_what_is_computed_again_is_named() -> None:
    def twice(x: float32[64, 512], W: float32[512, 512]):
        d = x + 1
        a = np.tanh(d) @ W
        return np.sum(a * d)

    text = str(planned(cr.trace(twice)))
    assert line(text, "never stored").endswith("never stored: d")
    assert line(text, "again,").endswith("computed again, cheaper than stored: d")
    assert text.index("never stored: d") < text.index("computed again, cheaper than stored: d")


def test_what_is_never_stored_is_named() -> None:
    text = str(training_plan())
    assert line(text, "never stored", "dJ/dW1").split() == (
        "on the way, never stored: dJ/dW1".split()
    )


def test_a_node_without_a_kernel_is_shown_with_its_line() -> None:
    def count(i: int64[3, 3], j: int64[3, 3]):
        k = i @ j
        return k + 1

    text = str(planned(cr.trace(count), "named"))
    assert line(text, "reference evaluation between native parts", "k").endswith("72 bytes  k")
    number = count.__code__.co_firstlineno + 1
    assert line(text, "matmul").strip() == f"matmul, at test_plan_text.py:{number}"
    assert " ".join(text.split()).endswith(", 1 by reference evaluation")


@pytest.mark.parametrize(
    ("program", "formula"),
    [
        (lambda x, y: x @ y, "r = x y"),
        (lambda x, y: x.T @ y, "r = x^T y"),
        (lambda x, y: -2.5 * (x @ y.T), "r = -2.5 x y^T"),
        (lambda x, y: (x @ y) / 4 - y @ x, "r = 0.25 x y - y x"),
        (lambda x, y: np.einsum("ij,kj->ik", x, y), "r = contract(x, y)"),
        (lambda x, y: x.reshape((4, 16)) @ y.reshape((16, 4)), "r = reshape(x) reshape(y)"),
    ],
)
def test_products_are_shown_as_formulas(program: Any, formula: str) -> None:
    def f(x: float32[8, 8], y: float32[8, 8]):
        r = program(x, y)
        return r

    assert line(str(planned(cr.trace(f))), "r =").strip() == formula


def test_a_product_is_rows_times_inner_times_columns() -> None:
    graph = cr.trace(lambda x, y: x @ y, x=float32[50, 30], y=float32[30, 20])
    assert "product 50 x 30 x 20" in str(planned(graph))
    graph = cr.trace(lambda x, y: x @ y, x=float32[7, 50, 30], y=float32[7, 30, 20])
    assert "7 products 50 x 30 x 20" in str(planned(graph))


def test_a_size_that_is_a_name_is_refused() -> None:
    graph = cr.trace(objective)
    with pytest.raises(SizeError) as caught:
        planned(graph.bind(n=3))
    assert "these sizes are names: d, h, q" in caught.value.what
    assert caught.value.hint == "plan(d=..., h=..., q=...)"


@needs_native
def test_a_step_prints_the_plan_that_it_runs() -> None:
    step = cr.training_step(objective, ("W1", "W2"), cr.sgd(0.1), executor="native")
    sizes = {"n": 8, "d": 5, "h": 4, "q": 3}
    state = step.init(W1=np.ones((5, 4), np.float32), W2=np.ones((4, 3), np.float32))
    step(state, x=np.ones((8, 5), np.float32), y=np.zeros(8, np.int64))
    made, launcher = step.plan(**sizes), state.latest.call.launcher
    names = {node: name for name, node in launcher.graph.names.items()}
    ran = {names[given]: names[result] for result, given in launcher.overwritten.items()}
    known = {node: name for name, node in made.graph.names.items()}
    assert {known[a]: known[b] for a, b in made.overwrites.items()} == ran
    assert ran == {"W1": "W1_next", "W2": "W2_next"}
    assert made.schedule.scratch_nbytes == launcher.machine.artifact.scratch_nbytes


def test_a_nest_of_few_rows_is_shared_by_as_many_threads_as_rows() -> None:
    for rows, found in ((1, "1 thread: about"), (3, "3 threads: about"), (20, "8 threads: about")):
        graph = cr.trace(lambda x: cr.softmax(x), x=float32[rows, 100_000])
        text = str(planned(graph, threads=8))
        assert found in text
        assert ("but it has 1 row" in text) == (rows == 1)
