"""The tab Advice: pictures and tables of ways to train and of sizes of batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr


def objective(x: cr.float64["n 5"], y: cr.float64["n"], w) -> Any:
    J = np.mean((x @ w - y) ** 2) / 2
    return J


def test_what_was_advised_is_seen_and_said(opened: Callable[..., Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(64, 5)), "y": rng.normal(size=64)}
    step = cr.training_step(objective, "w", cr.sgd(0.1), executor="reference", w=cr.float64[5])
    state = step.init(w=np.zeros(5))
    study = cr.batch_study(step, state, data, (4, 16), at=(0, 3), measure=False, batch=8)
    ways = cr.ways(step, batch=64)
    path = tmp_path / "advice.html"
    cr.report(step, sizes={"n": 64}, advice=[ways, study], path=path)
    page = opened(path, width=390, height=844)
    page.click("#tab-advice")
    pictures = page.locator(".advice-view img")
    assert pictures.count() == 3
    for picture in pictures.all():
        assert picture.evaluate("one => one.complete && one.naturalWidth") == 720
        assert picture.bounding_box()["width"] >= 600, "letters of 11 pixels stay above 9"
        assert picture.get_attribute("alt").endswith(".")
    tables = page.locator(".advice-view table").all()
    assert [one.locator("tbody tr").count() for one in tables] == [len(ways.table.rows), 2]
    assert study.reason in page.locator(".advice-view").inner_text()
