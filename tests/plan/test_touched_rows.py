"""An update in place touches only the rows that a batch has gathered, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.machine_code.target import native_refusal
from chainrule.plan.rows_work import RowsWork

pytestmark = pytest.mark.skipif(bool(native_refusal()), reason=str(native_refusal()))
SGD = cr.sgd(0.1)
RANDOM = np.random.default_rng(0)


def objective(ids: Any, y: Any, E: Any) -> Any:
    h = E[ids]
    return np.sum((h - y) ** 2)


def trained(
    ids: Any,
    y: Any,
    E: Any,
    function: Any = objective,
    optimizer: Any = SGD,
    executor: str = "native",
) -> tuple[Any, Any]:
    """The parameters after two steps, and the plan."""
    step = cr.training_step(function, "E", optimizer, ids=ids, y=y, E=E, executor=executor)
    state = step.init(E=E)
    for _ in range(2):
        step(state, ids=ids, y=y)
    return state["E"], step.plan() if executor == "native" else None


def rows_of(plan: Any) -> list[RowsWork]:
    return [one for one in plan.works if isinstance(one, RowsWork)]


def case(shape: tuple[int, ...], of: tuple[int, ...], dtype: str, index: str) -> tuple[Any, ...]:
    E = RANDOM.standard_normal(shape).astype(dtype)
    ids = RANDOM.integers(-shape[0], shape[0], of).astype(index)
    ids.flat[: ids.size // 2] = ids.flat[0]  # many times the same
    return ids, RANDOM.standard_normal((*of, *shape[1:])).astype(dtype), E


CASES = {
    "matrix": case((4000, 24), (30,), "float32", "int64"),
    "several axes": case((3000, 3, 5), (4, 6), "float64", "int32"),
    "odd": case((4001, 7), (3, 5), "float32", "int32"),
    "one": case((4000, 16), (1,), "float64", "int64"),
}


@pytest.mark.parametrize("name", CASES)
def test_parameters_have_the_same_bits(name: str) -> None:
    ids, y, E = CASES[name]
    found, plan = trained(ids, y, E)
    (rows,) = rows_of(plan)
    assert rows.count == ids.size and rows.row_nbytes == E[0].nbytes
    cr.testing.simulate(plan.schedule)
    assert plan.schedule.scratch_nbytes < E.nbytes / 4
    wanted, _ = trained(ids, y, E, executor="reference")
    np.testing.assert_array_equal(found, wanted, strict=True)
    changed = np.any(found != E, axis=tuple(range(1, E.ndim)))
    assert set(np.flatnonzero(changed)) == set((ids % len(E)).flat)


def test_nan_and_infinity_stay_in_their_rows() -> None:
    ids, y, E = CASES["matrix"]
    y, E = y.copy(), E.copy()
    y[0, 0], y[-1, 1], E[5, 2] = np.nan, np.inf, -np.inf
    found, _ = trained(ids, y, E)
    with np.errstate(invalid="ignore"):
        wanted, _ = trained(ids, y, E, executor="reference")
    np.testing.assert_array_equal(found, wanted, strict=True)


def test_an_index_out_of_range_is_refused_before_any_row_is_touched() -> None:
    ids, y, E = CASES["matrix"]
    step = cr.training_step(objective, "E", cr.sgd(0.1), ids=ids, y=y, E=E, executor="native")
    state = step.init(E=E)
    wrong = ids.copy()
    wrong[-1] = len(E)
    with pytest.raises(IndexError, match="4000"):
        step(state, ids=wrong, y=y)
    np.testing.assert_array_equal(state["E"], E)


def decayed(ids: Any, y: Any, E: Any) -> Any:
    return objective(ids, y, E) + np.sum(E * E)


def tied(ids: Any, y: Any, E: Any) -> Any:
    return objective(ids, y, E) + np.sum(E[:2])


@pytest.mark.parametrize(
    ("function", "optimizer"),
    [
        (objective, cr.adam(0.1)),
        (objective, cr.sgd(0.1, momentum=0.9)),
        (objective, cr.sgd(0.1, weight_decay=0.1)),
        (decayed, cr.sgd(0.1)),
        (tied, cr.sgd(0.1)),
    ],
    ids=["adam", "momentum", "decay", "penalty", "tied"],
)
def test_all_rows_are_updated_where_all_change(function: Any, optimizer: Any) -> None:
    ids, y, E = CASES["matrix"]
    found, plan = trained(ids, y, E, function, optimizer)
    assert not rows_of(plan)
    wanted, _ = trained(ids, y, E, function, optimizer, executor="reference")
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_all_rows_are_updated_where_most_are_read_or_the_gradient_is_a_result() -> None:
    ids, y, E = CASES["matrix"]
    assert not rows_of(trained(ids % 20, y, E[:20])[1])
    step = cr.training_step(objective, "E", SGD, ids=ids, y=y, E=E, executor="native")
    plan = step.graph.compile(executor="native", keep=("E_next", "dout/dE")).plan()
    assert not rows_of(plan)
