"""Fragments of nests write the bits that whole nests write, and let programs fit into less."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from deep_programs import PROGRAMS, N, blocks
from executors import needs_native
from namespaces import traced
from programs import Program, random_programs

import chainrule as cr
from chainrule.plan import budget
from chainrule.plan.budget import within
from chainrule.plan.fragments import Fragments
from chainrule.plan.planner import Plan, plan
from chainrule.plan.storage import Outside, Storage
from chainrule.plan.work import NestWork, Work
from chainrule.testing import simulate
from chainrule.train.step.bound import results_of


def residual(x: Any, scales: Any) -> Any:
    """Nests of many layers: all of it is elementwise, or reduces rows."""
    h = x
    for scale in scales:
        h = h + cr.gelu(cr.layer_norm(h) * scale)
    J = np.mean(h * h)
    return J


def attended(x: Any, scales: Any) -> Any:
    """Reductions of rows beside one another, to numbers, and over rows."""
    h, total = x, 0.0
    for scale in scales:
        shares = cr.softmax(h * scale)
        far = np.max(h, axis=-1, keepdims=True)
        total = total + np.sum(shares * shares)
        h = np.tanh(h - far) + shares * np.mean(h * h, axis=-1, keepdims=True)
        h = h - np.mean(h, axis=0)
    J = np.mean(h) + total
    return J


def step_of(objective: Any, dtype: Any, width: int, layers: int = 4) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(width)
    scales = [random.uniform(0.5, 1.5, width).astype(dtype) for _ in range(layers)]
    x = random.normal(size=(40, width)).astype(dtype)
    types = {"x": getattr(cr, np.dtype(dtype).name)["n", width], "scales": scales}

    def step(**options: Any) -> Any:
        return cr.training_step(objective, "scales", cr.sgd(1e-3), **types, **options)

    return step, scales, x


def replaced(made: Plan, works: Sequence[Work]) -> Plan:
    """The plan with these works in place of its own."""
    schedule = made.schedule
    given = Outside(list(schedule.given), schedule.results, made.overwrites)
    stored = Storage(works, given)
    fields = {name: getattr(made, name) for name in ("graph", "strides", "overwrites", "threads")}
    return Plan(
        **fields,
        schedule=stored.schedule(made.graph),
        works=tuple(works),
        vector_nbytes=made.vector_nbytes,
        load_nbytes=stored.load_nbytes,
    )


def outside(made: Plan) -> set[Any]:
    return {*made.schedule.results, *made.overwrites.values()}


def apart(made: Plan) -> Plan:
    """The plan in which every nest that can be is cut into fragments, which run one by one."""
    every = {node for work in made.works for node in work.writes}
    return replaced(made, Fragments(made.works, outside(made), every).works)


def joined(made: Plan) -> list[Plan]:
    """Plans that run fragments in other groups: all but the first of each work, then the first
    again with some others."""
    every = {node for work in made.works for node in work.writes}
    found = Fragments(made.works, outside(made), every)
    again: list[int] = []
    for number in range(len(found.works)):
        again.append(number)
        mine = [one for one in again if found.home[one] == found.home[number]]
        if number in found.cut and number not in found.once:
            again += [one for one in mine if one not in found.once]
    return [replaced(made, [work for _, work in homes]) for homes in found.ways(again)]


def fragments_of(made: Plan) -> int:
    """How many of its works are fragments."""
    nests = (work for work in made.works if isinstance(work, NestWork))
    return sum(work.layouts[0].whole is not None for work in nests)


def least_and_most(made: Plan) -> tuple[int, int]:
    return within(made, 0).schedule.scratch_nbytes, made.schedule.scratch_nbytes


@pytest.mark.slow
def test_layers_in_one_nest_are_computed_again_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    step, _, _ = step_of(residual, np.float32, 64, layers=8)
    graph = step().graph.bind(n=4096)
    made = plan(graph, *results_of(step(), graph))
    least, most = least_and_most(made)
    with monkeypatch.context() as patch:
        patch.setattr(budget._Search, "_saved", lambda _: set())
        whole, _ = least_and_most(made)
    assert least < 0.8 * whole
    found = within(made, (least + most) // 2)
    assert fragments_of(found)
    assert simulate(found.schedule).peak_nbytes <= (least + most) // 2


def test_what_only_joined_fragments_read_is_not_stored() -> None:
    step, _, _ = step_of(residual, np.float32, 64)
    graph = step().graph.bind(n=64)
    made = plan(graph, *results_of(step(), graph))
    written = {node for work in made.works for node in work.writes}
    assert not any(written.intersection(work.inner) for work in apart(made).works)
    for found in joined(made):
        assert any(written.intersection(work.inner) for work in found.works)
        simulate(found.schedule)


def cut(monkeypatch: pytest.MonkeyPatch, how: Any) -> list[Plan]:
    """Native runs within a budget run plans that are cut; returned is a list of these plans."""
    plans: list[Plan] = []

    def instead(made: Plan, nbytes: int, code_nbytes: Any) -> Plan:
        plans.append(how(made))
        return plans[-1]

    monkeypatch.setattr(budget, "within", instead)
    return plans


def check_bits(
    monkeypatch: pytest.MonkeyPatch, step: Any, parameters: Any, given: Any, mark: int
) -> int:
    """Two steps of training give the same bits, cut in several ways; how many fragments ran."""
    plain = step(executor="native")
    state = plain.init(parameters)
    want = [plain(state, **given) for _ in range(2)]
    assert np.isfinite(want).all()
    count = 0
    hows = [apart, lambda made: joined(made)[0], lambda made: joined(made)[1]]
    for number, how in enumerate(hows):
        plans = cut(monkeypatch, how)
        other = step(executor="native", memory=(1 << 40) + 10 * mark + number)
        mine = other.init(parameters)
        assert [other(mine, **given) for _ in range(2)] == want
        for key, array in state.items():
            assert mine[key].tobytes() == array.tobytes()
        count += sum(map(fragments_of, plans))
    return count


CASES = [  # the last is exhaustive
    (residual, np.float64, 33),
    (attended, np.float32, 100),
    (attended, np.float64, 17),
]


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [CASES[0], *(pytest.param(case, marks=pytest.mark.exhaustive) for case in CASES[1:])],
    ids=lambda case: f"{case[0].__name__} {case[1].__name__}",
)
def test_fragments_give_the_same_bits(monkeypatch: pytest.MonkeyPatch, case: Any) -> None:
    step, scales, x = step_of(*case, layers=3)
    mark = CASES.index(case)
    assert check_bits(monkeypatch, step, {"scales": scales}, {"x": x}, mark) > 3


@needs_native
@pytest.mark.exhaustive
def test_fragments_of_a_transformer_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAMS["transformer"]
    given, parameters = {"x": program.batch(N)}, {program.name: program.parameters}
    assert check_bits(monkeypatch, program.step, parameters, given, len(CASES)) > 3


@needs_native
@pytest.mark.slow
@random_programs(4)
def test_fragments_of_random_programs_give_the_same_bits(program: Program, seed: int) -> None:
    arguments = dict(zip(program.parameters, program.arguments(seed, {}), strict=True))
    forward = cr.trace(program.function(traced), **arguments)
    graph = cr.backward(forward, wrt=program.parameters)
    want = graph.compile(executor="native").run(arguments)
    with pytest.MonkeyPatch.context() as patch:
        cut(patch, apart)
        got = graph.compile(executor="native", memory="1 TiB").run(arguments)
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value)


@pytest.mark.exhaustive
@needs_native
def test_blocks_within_budgets_have_the_same_bits() -> None:
    program = blocks(2, 16, 12)
    plain = program.step(executor="native")
    state = program.state(plain)
    want = plain(state, x=program.batch(N))
    report = plain.memory(n=N)
    nbytes = report.needed_nbytes - report.main.parts["saved intermediates"] * 2 // 5
    other = program.step(executor="native", memory=nbytes)
    mine = program.state(other)
    assert other(mine, x=program.batch(N)) == want
    for key, array in state.items():
        assert mine[key].tobytes() == array.tobytes()
