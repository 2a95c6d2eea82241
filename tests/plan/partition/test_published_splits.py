"""Published graphs are split at their published optimum, and quickly."""

import importlib
import sys
from pathlib import Path
from time import perf_counter

import pytest
from executors import needs_native

from chainrule.plan import split

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

splitting = importlib.import_module("splitting")

FOLDER = ROOT.parent / "shared" / "data" / "partition"

# Largest loads, as recomputed by the published dynamic programme, printed with six digits.
OPTIMA = {
    "bert24_training": 41.7458,
    "gnmt_training": 107.004,
    "resnet50_training": 78.6318,
    "bert24_inference": 17.7899,
    "gnmt_inference": 32.9107,
    "resnet50_inference": 33.7747,
}
LOCAL_SEARCH = {"bert24_training": 39.9432, "resnet50_training": 81.60}

pytestmark = [
    needs_native,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the published graphs are not here"),
]


def graph(name):
    return splitting.graph(FOLDER / f"{name}.json")


def test_every_graph_has_its_optimum_here():
    assert {path.stem for path in FOLDER.glob("*.json")} == OPTIMA.keys()


@pytest.mark.parametrize("name", OPTIMA)
def test_a_published_graph_is_split_at_its_optimum(name):
    found = split(**graph(name))
    assert float(f"{found.load:.6g}") == OPTIMA[name]
    assert found.proved_optimal


@pytest.mark.parametrize("name", ["gnmt_training", "gnmt_inference"])
def test_what_took_half_a_minute_takes_less_than_three_seconds(name):
    numbers = graph(name)
    begun = perf_counter()
    split(**numbers)
    assert perf_counter() - begun < 3


@pytest.mark.sweep(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", LOCAL_SEARCH)
def test_splits_without_order_are_at_most_published_local_search(name):
    found = split(**graph(name), contiguous=False)
    assert round(found.load, 4) <= LOCAL_SEARCH[name]
    assert found.lower_bound <= found.load
    assert not found.order
