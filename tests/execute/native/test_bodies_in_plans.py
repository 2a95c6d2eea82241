"""A plan says of a loop whether its steps are compiled code or the reference evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executing import planned

import chainrule as cr
from chainrule.control import evaluate_body
from chainrule.execute.native.plan_to_ir import bodies
from chainrule.execute.run import kept_nodes

X = np.linspace(0, 1, 12)


def summed(length: int) -> Any:
    def total(x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            return state + np.sin(row), state

        last, _ = cr.scan(step, 0.0, x)
        return last

    return cr.trace(total, X[:length])


def doubled(x: Any) -> Any:
    return cr.while_loop(lambda s: np.sum(s) < 100, lambda s: s * 2 + 1, x)


def chosen(x: Any) -> Any:
    return cr.cond(np.sum(x) > 0, np.sin, np.cos, x)


def a_choice() -> Any:
    return cr.trace(chosen, X)


def ordered(x: Any) -> Any:
    return cr.scan(lambda s, row: (np.sort(s + row), None), np.zeros(3), x)[0]


def text_of(graph: Any) -> str:
    return str(planned(graph, kept_nodes(graph, "outputs")))


def made_of_a_body(graph: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a run makes of a body: compiled code or a program of NumPy calls, which Python calls, or
    nothing of its own."""
    made: list[str] = []
    for module, name in ((bodies, "NativeProgram"), (evaluate_body, "Program")):
        right = getattr(module, name)
        monkeypatch.setattr(
            module,
            name,
            lambda *body, name=name, right=right, **more: [made.append(name), right(*body, **more)][
                1
            ],
        )
    graph.run(x=X[: graph.inputs[0].type.shape[0]], executor="native")
    assert len(set(made)) <= 1
    return made[0] if made else ""


@pytest.mark.parametrize(
    ("graph", "said", "of_a_body"),
    [
        (lambda: summed(12), "12 iterations of compiled code one after another", ""),
        (lambda: summed(1), "1 iteration of compiled code one after another", ""),
        (
            lambda: cr.trace(doubled, X),
            "iterations while a condition holds of compiled code one after another",
            "",
        ),
        (a_choice, "one of two branches of compiled code", ""),
        (
            lambda: cr.trace(ordered, X),
            "12 iterations of compiled code, called from Python",
            "NativeProgram",
        ),
        (lambda: cr.trace(ordered, X[:3]), "reference evaluation between native parts", "Program"),
    ],
    ids=["scan", "shortest scan", "while", "cond", "without a kernel", "short without a kernel"],
)
def test_the_text_says_what_a_run_does(
    graph: Any, said: str, of_a_body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = graph()
    text = " ".join(text_of(made).split())
    assert said in text
    assert made_of_a_body(made, monkeypatch) == of_a_body
    compiled = "compiled" in said
    assert ("1 loop of compiled code" in text) == (compiled and graph is not a_choice)
    assert ("1 choice of compiled code" in text) == (graph is a_choice)
    assert ("1 by reference evaluation" in text) != compiled


def test_the_plan_of_a_graph_says_it() -> None:
    plan = summed(12).compile(executor="native").plan()
    assert "12 iterations of compiled code" in str(plan)
