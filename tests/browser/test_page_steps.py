"""Stepping through a computation, forward and backward, by buttons, slider and address."""

from __future__ import annotations

import re
from typing import Any

from waiting import settle


def cursor(page: Any) -> tuple[int, int]:
    """The step, and how many there are."""
    slider = page.locator("#step-slider")
    step, count = int(slider.input_value()), int(slider.get_attribute("max"))
    told = page.locator("#step-text").inner_text()
    assert told.startswith(f"{step}/{count} " if step else f"all {count} steps")
    return step, count


def states(page: Any) -> dict[str, str]:
    """The state of every box in sight by its key."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("#graph .node[data-key]")]
             .map((one) => [one.dataset.key, one.dataset.state]))"""
    )


def test_every_step_forward_and_back(opened) -> None:
    page = opened("mlp")
    count = cursor(page)[1]
    assert count == 12
    on, back = page.locator("#step-next"), page.locator("#step-back")
    assert back.is_disabled()
    told = []
    for step in range(1, count + 1):
        on.click()
        settle(page)
        assert cursor(page) == (step, count)
        now = [key for key, state in states(page).items() if state == "now"]
        assert now, f"nothing is marked at step {step}"
        told.append(page.locator("#step-text").inner_text())
    assert len(set(told)) == count
    assert sum("forward of" in text for text in told) == 6
    assert sum("backward of" in text for text in told) == 6
    assert on.is_disabled()
    for step in reversed(range(count)):
        back.click()
        assert cursor(page) == (step, count)
    settle(page)
    assert set(states(page).values()) == {"there"}


def test_the_steps_of_an_update_come_last(opened) -> None:
    page = opened("adam")
    count = cursor(page)[1]
    page.locator("#step-slider").fill(str(count))
    settle(page)
    assert "update: " in page.locator("#step-text").inner_text()
    assert "now" in states(page).values()


def test_what_is_computed_later_is_faded_and_what_was_freed_is_marked(opened) -> None:
    page = opened("mlp")
    page.locator("#step-next").click()
    settle(page)
    first = states(page)
    assert first["operator z"] == "now" and first["gradient dJ/dW1"] == "later"
    assert first["value x"] == "there"
    page.locator("#step-slider").press("End")
    settle(page)
    last = states(page)
    assert "later" not in last.values()
    assert last["value z"] == "freed", last


def test_the_slider_goes_anywhere(opened) -> None:
    page = opened("mlp")
    slider = page.locator("#step-slider")
    slider.fill("7")
    settle(page)
    assert cursor(page)[0] == 7
    slider.press("ArrowRight")
    settle(page)
    assert cursor(page)[0] == 8
    assert slider.get_attribute("aria-valuetext") == page.locator("#step-text").inner_text()


def test_one_cursor_moves_all_views(opened) -> None:
    page = opened("mlp")
    page.locator("#tab-memory").click()
    settle(page)
    line = page.locator("#panel-memory .cursor-line")
    places = []
    for step in (2, 9):
        page.locator("#step-slider").fill(str(step))
        settle(page)
        places.append(float(line.get_attribute("x1")))
        selected = page.locator("#outline-tree .selected")
        assert selected.count() == 1
    assert places[0] < places[1]
    page.locator("#tab-values").click()
    settle(page)
    assert page.locator("#panel-values tr.selected").count() == 1


def test_a_click_into_the_memory_goes_to_that_step(opened) -> None:
    page = opened("mlp")
    box = page.locator("#panel-memory svg.memory").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.55, box["y"] + box["height"] * 0.1)
    settle(page)
    assert 1 < cursor(page)[0] < 12
    page.get_by_role("button", name="go to the peak").click()
    settle(page)
    assert "peak" in page.locator("#panel-memory .alive-head").inner_text().lower()


def test_the_address_leads_back(opened) -> None:
    page = opened("mlp")
    page.locator("#step-slider").fill("5")
    page.locator("#tab-values").click()
    page.wait_for_url(re.compile("#.*step=5.*tab=values"))
    hash_ = page.evaluate("location.hash")
    again = opened("mlp", at=hash_)
    assert cursor(again) == (5, 12)
    assert again.locator("#panel-values").is_visible()
    selected = "#outline-tree .selected"
    assert again.locator(selected).inner_text() == page.locator(selected).inner_text()
