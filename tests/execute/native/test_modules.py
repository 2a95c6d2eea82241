"""A plan in many modules gives the bits of the plan in one."""

from __future__ import annotations

import re

import numpy as np
from caching import fresh_folder
from executing import planned, text_of
from executors import needs_native

import chainrule as cr
from chainrule import float32
from chainrule.execute.native.plan_to_ir import driver, modules
from chainrule.execute.native.plan_to_ir.modules import declared
from chainrule.execute.native.runtime import machine

pytestmark = needs_native


def program(x: float32[70, 64], W: float32[64, 64], V: float32[64, 96]):
    h = np.tanh(x @ W)
    z = np.sinc(h @ V) + cr.gammaln(2 + np.abs(x @ V))
    return np.sum(np.sort(z, axis=1) * np.exp(-(h @ V))) + np.mean(cr.gammaln(h + 3))


def test_results_are_those_of_one_module(tmp_path, monkeypatch) -> None:
    random = np.random.default_rng(0)
    shapes = (70, 64), (64, 64), (64, 96)
    made = [random.normal(size=shape).astype(np.float32) / 8 for shape in shapes]
    arrays = dict(zip("xWV", made, strict=True))
    graph = cr.backward(cr.trace(program), wrt=("W", "V"))
    found = []
    for size in (10**9, 1):
        monkeypatch.setattr(modules, "SIZE", size)
        machine._machines.clear()
        fresh_folder(tmp_path / str(size), monkeypatch)
        found.append(graph.compile(executor="native")(arrays))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def test_a_function_is_defined_once_and_declared_where_it_is_called(monkeypatch) -> None:
    graph = cr.backward(cr.trace(program), wrt=("W", "V"))
    made = planned(graph, [node for _, node in graph.outputs], threads=2)
    whole = text_of(made)
    monkeypatch.setattr(modules, "SIZE", 1)
    parts = text_of(made)
    definitions = [re.findall(r"^define .*@(\S+?)\(", text, re.M) for text in (whole, parts)]
    assert sorted(definitions[0]) == sorted(definitions[1]) == sorted(set(definitions[0]))
    assert len(definitions[0]) > 8


def levels_of(graph: cr.Graph) -> dict[str, int]:
    """The level at which each function of the graph's code is compiled, by its name."""
    found: dict[str, int] = {}

    def send(text: str, level: int) -> None:
        found.update(dict.fromkeys(re.findall(r"^define .*@(\S+?)\(", text, re.M), level))

    made = planned(graph, [node for _, node in graph.outputs], threads=2)
    driver.program(made, "", send)
    return found


def test_only_functions_whose_time_is_in_what_they_call_are_compiled_at_level_0() -> None:
    found = levels_of(cr.backward(cr.trace(program), wrt=("W", "V")))
    quick = {re.sub(r"\d+", "", name) for name, level in found.items() if level == 0}
    assert quick == {"step", "step_enter", "product"}
    assert {"nest", "claim_of_own"} <= {re.sub(r"\d+", "", name) for name in found}


def test_a_step_with_loops_is_no_such_function() -> None:
    def looped(x: float32[8]):
        return cr.fori_loop(0, 100, lambda k, h: np.tanh(h) + x, x)

    found = levels_of(cr.trace(looped))
    assert (found["step0"], found["step0_enter"]) == (2, 0)


def test_the_line_that_declares_a_function() -> None:
    text = "define internal <8 x float> @each(<8 x float> %x, ptr %y) cold nounwind {\nentry:\n}"
    assert declared(text) == ("each", "declare <8 x float> @each(<8 x float>, ptr)")
    assert declared("define void @f() {\n}") == ("f", "declare void @f()")
