"""Small programs of the executor `xla` are executed by the thread that calls them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64
from chainrule.execute.xla import calling_thread, code
from chainrule.execute.xla.jax_here import wide
from chainrule.execute.xla.xla_executor import XLA
from chainrule.execute.xla.xla_program import XlaProgram

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("jax_on_cpu")]
OPERATION = re.compile(r" = \S+ ([\w-]+)\(")


def program(function: Any, **types: Any) -> XlaProgram:
    graph = cr.trace(function, **types)
    return XLA.prepare(graph, [node for _, node in graph.outputs], {})


def counted(x: float64[2000]):
    """Some milliseconds, which its operations do not tell: they count one iteration.  Of fewer than
    1000, XLA would itself have them computed by the calling thread."""
    return cr.while_loop(lambda v: v[0] < 5000, lambda v: (v[0] + 1, 0.5 * v[1] + 1), (0, x))[1]


def network(x: float32[8, 5], W: float32[5, 3]):
    J = np.mean(np.tanh(x @ W) ** 2)
    return J


def test_a_small_program_has_run_when_its_call_returns() -> None:
    made = program(counted)
    x = np.linspace(0.0, 1.0, 2000)
    with wide():
        for _ in range(3):
            (found,), _ = made.code.jitted(x)
            assert found.is_ready()
    assert np.all(np.asarray(found) == 2)


def test_a_step_is_that_of_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    x, W = random.normal(size=(8, 5)).astype("f"), random.normal(size=(5, 3)).astype("f")
    texts, values = [], []
    for most in (calling_thread.MOST_FLOPS, -1):
        monkeypatch.setattr(calling_thread, "MOST_FLOPS", most)
        code._codes.clear()
        step = cr.training_step(network, "W", cr.sgd(0.1), executor="xla")
        state = step.init(W=W)
        objectives = [step(state, x=x) for _ in range(3)]
        values.append([*objectives, *state["W"].ravel()])
        (made,) = code._codes.values()
        texts.append(OPERATION.findall(made.text))
        assert "callback" not in made.text
    assert texts[0] == texts[1] and len(texts[0]) > 5  # nothing is left of the call of Python
    assert values[0] == values[1]


def test_a_program_of_many_operations_is_not_for_the_calling_thread() -> None:
    def product(x: float32[512, 512]):
        return x @ x

    def moved(x: float32[1 << 26]):
        return x[::-1]

    def taken(x: float32[1 << 26]):
        return x[:3] + x[4]

    nodes = [program(f).graph.nodes for f in (network, taken, product, moved)]
    assert [calling_thread.is_for_caller(one) for one in nodes] == [True, True, False, False]


def test_a_program_that_jax_keeps_in_a_file_does_not_call_python(
    jax_on_cpu: Any, tmp_path: Path
) -> None:
    nodes, name = program(network).graph.nodes, "jax_compilation_cache_dir"
    before = getattr(jax_on_cpu.config, name)
    try:
        jax_on_cpu.config.update(name, str(tmp_path))
        assert not calling_thread.is_for_caller(nodes)
    finally:
        jax_on_cpu.config.update(name, before)
    assert calling_thread.is_for_caller(nodes) is (before is None)
