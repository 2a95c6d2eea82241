"""Programs of the executor `xla` within a budget: XLA's own count obeys it, and values agree."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from deep_programs import PROGRAMS, N, deep, network
from small_machine import having

import chainrule as cr
from chainrule.errors import IndexOutOfRangeError, InputError, MemoryLimitError
from chainrule.execute.aligned import block
from chainrule.execute.xla.fullest import fullest
from chainrule.testing import simulate

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("jax")]
RANDOM = np.random.default_rng(4)


@pytest.fixture(scope="module")
def jax() -> Any:
    return pytest.importorskip("jax")


def counted(report: Any) -> int:
    """What XLA says of the compiled program: arguments, results beside them, and scratch."""
    found = report.compiled
    in_place = found["in place of arguments"]
    return found["arguments"] + found["results"] - in_place + found["scratch"]


def budget(report: Any, part: float) -> int:
    """All but scratch memory, and a part of that."""
    scratch = report.compiled["scratch"]
    return counted(report) - scratch + int(scratch * part)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_obey_their_budgets_and_agree_with_those_without(name: str) -> None:
    program = PROGRAMS[name]
    plain = program.step(executor="xla")
    report, state = plain.memory(n=N), program.state(plain)
    want = [plain(state, x=program.batch(N)) for _ in range(3)]
    nbytes = budget(report, 0.8)
    step = program.step(executor="xla", memory=nbytes)
    found = step.memory(n=N)
    assert found.needed_nbytes == counted(found) <= nbytes
    simulate(found.main.usage.schedule)
    mine = program.state(step)
    got = [step(mine, x=program.batch(N)) for _ in range(3)]
    np.testing.assert_allclose(got, want, rtol=2e-6)
    for key, array in state.items():
        np.testing.assert_allclose(mine[key], array, rtol=0, atol=4e-6 * np.abs(array).max())


def test_a_deep_network_computes_values_again() -> None:
    program = deep(24, 32)
    report = program.step(executor="xla").memory(n=256)
    tight = program.step(executor="xla", memory=budget(report, 0.5))
    found = tight.memory(n=256)
    assert found.compiled["scratch"] <= report.compiled["scratch"] / 2
    assert len(found.main.computes) > len({one.nodes for one in found.main.computes})


def test_the_values_of_a_compiled_program_are_named() -> None:
    program = deep(12, 32)
    report = program.step(executor="xla").memory(n=256)
    values, nbytes = report.compiled_values, 256 * 32 * 4
    assert all(values[f"h_{number}"] == nbytes for number in range(1, 10))
    assert sum(values.values()) == pytest.approx(report.compiled["scratch"], rel=0.2)
    assert "when its scratch is fullest, most of it is" in " ".join(str(report).split())
    assert report.json()["compiled_values"] == values
    assert program.step(executor="reference").memory(n=256).compiled_values == {}


def test_what_xla_says_is_read_line_by_line() -> None:
    text = """HloModule m, is_scheduled=true
%fused (a: f32[2]) -> f32[2] {
  ROOT %b = f32[2]{0} add(%a, %a), metadata={op_name="jit(f)/n9/add"}
}
ENTRY %main (p: f32[4,2], q: s32[3]) -> (f32[4,2], pred[]) {
  %p = f32[4,2]{1,0} parameter(0)
  %copy = f32[4,2]{1,0} copy(%p)
  %x = f32[4,2]{1,0} fusion(%copy), kind=kLoop, calls=%fused, metadata={op_name="jit(f)/n3/mul"}
  %t = (f32[4,2]{1,0}, /*index=1*/s8[5]{0}) custom-call(%x), metadata={op_name="jit(f)/n4"}
  %g = s8[5]{0} get-tuple-element(%t), index=1
  %y = f64[4]{0} fusion(%g, %x), kind=kLoop, calls=%fused
  %r = f32[4,2]{1,0} fusion(%y), kind=kLoop, calls=%fused
  %ok = pred[] fusion(%y), kind=kLoop, calls=%fused
  ROOT %all = (f32[4,2]{1,0}, pred[]) tuple(%r, %ok)
}
"""
    assert fullest(text) == {3: 32, 4: 37, None: 32}
    assert fullest("") == fullest("ENTRY %main () -> f32[] {\n  what is this\n}") == {}


def test_the_least_is_said_and_is_enough() -> None:
    program = deep(3, 16)
    with pytest.raises(MemoryLimitError, match=r"as XLA compiles it, also where values are") as one:
        program.step(executor="xla", memory=1).memory(n=64)
    least = one.value.needed_nbytes
    assert one.value.budget_nbytes == 1 and f"memory={least} is enough" in str(one.value)
    assert program.step(executor="xla", memory=least).memory(n=64).needed_nbytes <= least
    step = program.step(executor="xla", memory=least // 2)
    with pytest.raises(MemoryLimitError, match=r"needs at least [\d,]+ bytes.* as XLA compiles it"):
        step(program.state(step), x=program.batch(64))


def test_compiled_graphs_and_parts_of_batches_obey_budgets() -> None:
    program = deep(8, 48)
    graph = cr.trace(network, x=cr.float32["n", 48], Ws=program.parameters)
    graph = cr.backward(graph, wrt="Ws")
    given = {"x": program.batch(256), "Ws": program.parameters}
    plain, report = graph.compile(executor="xla"), graph.memory(n=256, executor="xla")
    nbytes = budget(report, 0.6)
    within = graph.compile(executor="xla", memory=nbytes)
    for one, other in zip(within(given), plain(given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert graph.memory(n=256, executor="xla", memory=nbytes).needed_nbytes <= nbytes
    whole = program.step(executor="xla").micro_batched(2)
    needed = whole.memory(n=256).needed_nbytes * 3 // 4
    parts = program.step(executor="xla", memory=needed).micro_batched(2)
    assert parts.memory(n=256).needed_nbytes <= needed
    states = [program.state(one.whole) for one in (whole, parts)]
    both = [one(x, x=program.batch(256)) for one, x in zip((whole, parts), states, strict=True)]
    np.testing.assert_allclose(*both, rtol=2e-6)


def test_a_wrong_index_is_explained_within_a_budget() -> None:
    def loss(o, y):
        for _ in range(12):
            o = np.tanh(np.exp(o) / 9)
        return cr.cross_entropy(o, y)

    graph = cr.backward(cr.trace(loss, o=cr.float64["n 3"], y=cr.int64["n"]), wrt="o")
    report = graph.memory(n=256, executor="xla")
    within = graph.compile(executor="xla", memory=budget(report, 0.9))
    o = RANDOM.normal(size=(256, 3))
    with pytest.raises(IndexOutOfRangeError, match=r"cross_entropy\(o, y\)"):
        within(o=o, y=np.full(256, 3))
    wanted = graph.compile(executor="reference")(o=o, y=np.full(256, 2))
    np.testing.assert_allclose(within(o=o, y=np.full(256, 2))[0], wanted[0], rtol=1e-12)


@pytest.mark.parametrize("offset", [0, 16])
def test_the_largest_size_is_that_of_xlas_count(
    offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = deep(3, 16)
    step = program.step(executor="xla")
    state = program.state(step)
    having(monkeypatch, 60_000)

    def batch(rows: int) -> np.ndarray:
        """Read in place, or copied."""
        made = program.batch(rows)
        memory = block(made.nbytes + offset)
        found = np.ndarray(made.shape, made.dtype, memory, offset)
        found[...] = made
        return found

    with pytest.raises(MemoryLimitError) as error:
        step(state, x=batch(900))
    found = re.search(r"n = ([\d,]+) is the largest that fits, as it is compiled", str(error.value))
    assert found is not None
    size = int(found[1].replace(",", ""))
    step(state, x=batch(size))
    with pytest.raises(MemoryLimitError):
        step(state, x=batch(size + 1))


def test_what_would_compile_every_plan_is_refused() -> None:
    step = deep(2, 8).step(executor="xla")
    with pytest.raises(InputError, match=r"compiles each plan to know what it needs"):
        step.tradeoff(n=8)
    assert step.fits("1 GiB", n=8).ways == ()


def test_a_compiler_that_counts_nothing_can_keep_no_budget(monkeypatch: Any) -> None:
    from chainrule.execute.xla import code

    monkeypatch.setattr(code, "analysed", lambda compiled: {})
    with pytest.raises(cr.errors.UnsupportedError, match=r"whose compiler says what a program"):
        deep(2, 10).step(executor="xla", memory="1 GiB").memory(n=9)
