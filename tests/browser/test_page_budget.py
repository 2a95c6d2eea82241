"""The tab Budget: a slider over plans for less memory, and what each of them computes again."""

from __future__ import annotations

import re
from typing import Any

from executors import needs_native
from waiting import calm, settle, spoken


def dashed(page: Any) -> set[str]:
    """The keys of the boxes of the graph that are computed again, with a mark at squares."""
    found = page.locator('#graph .node[data-state="again"]')
    keys = set(found.evaluate_all("(all) => all.map((one) => one.dataset.key)"))
    marked = page.locator("#graph .node:has(.again-badge)")
    squares = {key for key in keys if not key.startswith("operator ")}
    assert set(marked.evaluate_all("(all) => all.map((one) => one.dataset.key)")) == squares
    return keys


def listed(page: Any) -> list[str]:
    return page.locator("#panel-budget tbody th").all_inner_texts()


def test_the_slider_shows_what_is_computed_again(opened) -> None:
    page = opened("budgets")
    page.locator("#tab-budget").click()
    slider, text = page.locator("#budget-slider"), page.locator("#budget-text")
    assert "as planned" in text.inner_text() and dashed(page) == set() and listed(page) == []
    slider.focus()
    count = int(slider.get_attribute("max"))
    assert int(slider.input_value()) == count > 2
    seen = []
    for place in range(count - 1, -1, -1):
        page.keyboard.press("ArrowLeft")
        settle(page)
        assert int(slider.input_value()) == place
        told = slider.get_attribute("aria-valuetext")
        assert told.startswith(text.inner_text()) and "longer" in told
        assert ("nothing" in told) == (dashed(page) == set()), told
        chart = page.locator("#panel-budget svg.memory").first
        assert told in chart.get_attribute("aria-label")
        assert chart.locator(".point.chosen").count() == 1
        seen.append(told)
    assert len(set(seen)) == count
    calm(page)
    assert listed(page)
    spoken(page, f"Budget {seen[-1]}")
    first = page.locator("#panel-budget tbody tr").first
    name = first.locator("[data-value-id]").first
    value = name.get_attribute("title")
    name.click()
    calm(page)
    assert "selected" in first.get_attribute("class")
    assert f"value {value}" in dashed(page), "its scope was unfolded"
    assert "computed again from" in page.locator("#inspector").inner_text()
    page.wait_for_url(re.compile("#.*tab=budget.*budget=[0-9]+"))


def test_an_address_a_click_and_a_phone(opened) -> None:
    page = opened("budgets", at="#tab=budget&budget=1", width=390, height=844)
    assert int(page.locator("#budget-slider").input_value()) == 0, "the least there is"
    assert dashed(page)
    view = page.locator("#panel-budget")
    assert view.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    page.locator("#panel-budget tbody tr").last.scroll_into_view_if_needed()
    assert page.locator("#budget-slider").is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert "Within a budget: " in page.locator(".print").text_content()
    printed = page.locator('.print .node[data-state="again"]')
    keys = printed.evaluate_all("(all) => all.map((one) => one.dataset.key)")
    assert dashed(page) <= set(keys), "the screen shows a part of what is printed"
    assert len(keys) == len(set(keys)) >= 8
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    view.evaluate("(one) => one.scrollTo(0, 0)")
    chart = page.locator("#panel-budget svg.memory").first
    place = chart.bounding_box()
    page.mouse.click(place["x"] + place["width"] - 16, place["y"] + 60)
    settle(page)
    assert "as planned" in page.locator("#budget-text").inner_text() and dashed(page) == set()
    page.evaluate("location.hash = '#tab=budget&budget=99999999999'")
    settle(page)
    assert "as planned" in page.locator("#budget-text").inner_text()


CUT_OFF = """() => [...document.querySelectorAll("#panel-budget :is(td, figcaption)")]
  .filter((one) => one.scrollWidth > one.clientWidth && !one.querySelector("[title]"))
  .map((one) => one.innerText)"""


@needs_native
def test_nothing_is_cut_off_in_small_windows(opened) -> None:
    for width in (390, 800):
        page = opened("fused", at="#tab=budget&budget=1", width=width)
        rows = page.locator("#panel-budget tbody tr").all_inner_texts()
        assert any("on the way to others" in one for one in rows), rows
        assert page.evaluate(CUT_OFF) == []
