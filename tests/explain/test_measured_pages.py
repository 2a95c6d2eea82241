"""Every program of the documentation takes what is planned for it, by both executors."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from executors import WITHIN
from watched_runs import watched

from chainrule.execute.executors import executor_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/docs"))
pages = importlib.import_module("pages")

LONG = ("devices", "memory-budget", "memory-formulas", "training")

pytestmark = pytest.mark.usefixtures("only_what_numpy_sees")


def is_run(page: Path) -> bool:
    return any(block.is_run for block in pages.blocks(page.read_text(encoding="utf-8")))


@pytest.mark.sweep(11)
@pytest.mark.slow
@WITHIN
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.exhaustive if page.stem in LONG else (), id=page.stem)
        for page in pages.PAGES
        if is_run(page)
    ],
)
def test_the_programs_of_a_page_take_what_is_planned(
    page: Path, executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = any(one.is_run and "memory=" in one.text for one in pages.blocks(page.read_text()))
    if budgets and not hasattr(executor_of(executor), "within"):
        pytest.skip("the page has budgets of memory")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHAINRULE_EXECUTOR", executor)
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", "2")
    with watched(monkeypatch) as found:
        pages.run_page(page)
    wrong = [one for one in found if not one.is_right]
    assert not wrong
