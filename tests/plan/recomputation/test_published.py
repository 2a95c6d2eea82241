"""On published programs the budget holds, and the cost is at most that of the published plans."""

import json
from pathlib import Path

import pytest
from executors import needs_native

from chainrule.plan import recompute
from chainrule.plan.recomputation.problem import problem
from chainrule.plan.recomputation.sequence import measured

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "remat"

# Extra cost in percent at 90, 80 and 70 % of the peak: the least that was published (FastSA,
# NeurIPS 2023, table 1), rounded as it is printed there.
PUBLISHED = {
    "rl1": (0.0, 0.3, 2.2),
    "rl2": (0.0, 0.0, 2.6),
    "rl3": (0.03, 2.3, 4.8),
    "rl4": (0.4, 2.5, 7.4),
    "fcn8_train": (0.0, 0.1, 3.0),
    "resnet50_train": (0.1, 0.3, 0.8),
}
PERCENTS = (90, 80, 70)
EFFORT = {"rl4": 4_000}  # moves for each node: less than the default, which takes 50 s each
QUICK = ("rl1", "rl2", "fcn8_train", "resnet50_train")

pytestmark = [
    needs_native,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the published programs are not here"),
]


def instance(name):
    numbers = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return {key: numbers[key] for key in ("nbytes", "cost", "reads", "order")}


def check(name, percent):
    numbers = instance(name)
    plain = problem(**numbers, budget_nbytes=0)
    budget = measured(plain, plain.order).peak_nbytes * percent // 100
    found = recompute(**numbers, budget_nbytes=budget, effort=EFFORT.get(name))
    assert measured(plain, found.sequence).peak_nbytes == found.peak_nbytes <= budget
    published = PUBLISHED[name][PERCENTS.index(percent)]
    digits = 2 if published == 0.03 else 1
    assert round(100 * found.extra, digits) <= published or found.gap < 1e-5, found


@pytest.mark.sweep(6)
@pytest.mark.parametrize("percent", PERCENTS)
@pytest.mark.parametrize("name", QUICK)
def test_small_programs_cost_no_more_than_published(name, percent):
    check(name, percent)


@pytest.mark.slow
@pytest.mark.sweep(8)
@pytest.mark.parametrize("percent", PERCENTS)
@pytest.mark.parametrize("name", sorted(PUBLISHED.keys() - set(QUICK)))
def test_large_programs_cost_no_more_than_published(name, percent):
    check(name, percent)


@pytest.mark.sweep(6)
@pytest.mark.parametrize("name", ["fcn8_train", "resnet50_train"])
@pytest.mark.parametrize("percent", PERCENTS)
def test_training_steps_are_proved_optimal(name, percent):
    numbers = instance(name)
    plain = problem(**numbers, budget_nbytes=0)
    budget = measured(plain, plain.order).peak_nbytes * percent // 100
    assert recompute(**numbers, budget_nbytes=budget).gap < 1e-5
