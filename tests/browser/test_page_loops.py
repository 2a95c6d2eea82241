"""A loop in the page: its equations, its number of steps, and the statistics of its results."""

from __future__ import annotations

from typing import Any

import numpy as np
from waiting import calm


def text_of(page: Any, key: str) -> str:
    """What the inspector says about a box."""
    page.locator(f'#graph .node[data-key="{key}"]').click()
    calm(page)
    return page.locator("#inspector").inner_text()


def test_the_inspector_lists_the_loops_before_anything_is_selected(shared) -> None:
    text = shared("recurrent").locator("#inspector").inner_text().lower()
    assert "loops, iteration by iteration" in text and "40 iterations of cell" in text


def test_the_first_view_can_be_read_in_wide_and_narrow_windows(opened) -> None:
    for width in (1280, 390):
        page = opened("recurrent", width=width)
        assert int(page.locator(".percent").inner_text().split()[0]) >= 50


def test_a_result_of_a_loop_shows_the_recurrence(shared) -> None:
    page = shared("recurrent")
    text = text_of(page, "value o")
    assert "loop (scan of cell)" in text.lower()
    assert "40 iterations of the loop, from the first to the last slice." in text
    formulas = page.locator("#inspector .katex annotation").all_text_contents()
    assert any(r"\tanh" in one for one in formulas), formulas
    rows = page.locator("#inspector table.results:not(.at-iteration) tbody tr")
    assert rows.count() == 2
    for row in rows.all():
        assert len(row.inner_text().split()) >= 5, "name, shape, three statistics"


def test_a_slider_shows_what_the_loop_computes_at_each_t(shared) -> None:
    page = shared("recurrent")
    text_of(page, "value o")
    slider = page.locator("#inspector .iterations input")
    numbers = page.locator("#inspector table.at-iteration tbody")
    told = page.locator("#inspector .iterations output")
    assert told.inner_text() == "t = 1 of 40"
    first = numbers.inner_text()
    slider.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert told.inner_text() == "t = 7 of 40"
    assert numbers.inner_text() != first
    text_of(page, "value x")
    text_of(page, "value o")
    assert told.inner_text() == "t = 7 of 40", "the page forgot which t was looked at"


def test_the_circle_of_the_loop_says_the_same(shared) -> None:
    page = shared("recurrent")
    step = page.evaluate(
        """() => [...document.querySelectorAll("#graph .node.operator")]
             .map((one) => one.dataset.key).find((key) => /\\d+\\.\\d+/.test(key))"""
    )
    assert step, "no circle without a name"
    text = text_of(page, step)
    assert "loop (scan of cell)" in text.lower() and "computed at step" in text.lower()


def test_a_loop_that_goes_back_begins_with_the_last_slice_and_no_number_is_broken(shared) -> None:
    page = shared("recurrent")
    assert "from the last to the first slice" in text_of(page, "gradient dJ/dW")
    link = page.get_by_text("Symbols that are not defined here").locator("button").first
    assert "scan of cell)" in text_of(page, f"value {link.get_attribute('title').split(':')[0]}")
    text_of(page, "gradient dJ/dW")
    told = page.locator("#inspector .iterations output")
    assert told.inner_text() == "t = 40, iteration 1 of 40"
    page.locator("#inspector .iterations input").focus()
    page.keyboard.press("ArrowRight")
    assert told.inner_text() == "t = 39, iteration 2 of 40"
    heights, wide = page.evaluate(
        """() => {
          const cells = [...document.querySelectorAll("#inspector .at-iteration tbody td")];
          const side = document.querySelector("#inspector");
          const boxes = [...side.querySelectorAll(".scrolled")];
          return [cells.map((one) => one.getBoundingClientRect().height),
                  [side, ...boxes].some((one) => one.scrollWidth > one.clientWidth)];
        }"""
    )
    assert heights and max(heights) < 32, "a number takes several lines"
    assert not wide


def test_a_click_on_a_name_shows_its_elements_at_t(opened) -> None:
    page = opened("recurrent")
    page.get_by_role("button", name="40 iterations of cell", exact=True).click()
    calm(page)
    slider = page.locator("#inspector .iterations input")
    assert slider.evaluate("one => one.getBoundingClientRect().bottom") <= 900, "out of sight"
    names = page.locator("#inspector .at-iteration tbody button")
    assert names.all_text_contents() == ["h before", "x", "z", "h after"]
    names.nth(1).click()
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 2)).astype(np.float32) / 2
    for t in (0, 1, 2):
        cells = page.locator("#inspector .indexed tbody td").all_text_contents()
        shown = [float(one.replace("−", "-")) for one in cells]
        np.testing.assert_allclose(shown, x[t], rtol=6e-3)
        heads = page.locator("#inspector .indexed thead th").all_text_contents()
        assert heads == ["0", "1"]
        slider.focus()
        page.keyboard.press("ArrowRight")
    names.nth(1).click()
    assert page.locator("#inspector .indexed").count() == 0


def test_a_step_that_makes_no_value_has_its_own_panel_and_says_what_the_loop_gives(shared) -> None:
    page = shared("recurrent")
    slider = page.locator("#step-slider")
    for number in range(1, int(slider.get_attribute("max")) + 1):
        page.locator("#step-next").click()
        calm(page)
        heading = page.locator("#inspector h3", has_text=f"Step {number} of ")
        assert heading.count() == 1, page.locator("#inspector").inner_text()[:200]
        if heading.inner_text().lower().endswith("forward of the loop over cell"):
            rows = page.locator("#inspector .operand").all_inner_texts()
            assert [one for one in rows if one.startswith("gives")], rows
            break
    else:
        raise AssertionError("no step computes the loop")


def test_names_and_lines_inside_of_loops_are_found_and_open_there(shared) -> None:
    page = shared("recurrent")
    find, found = page.locator("#find"), page.locator("#find-results [role=option]")
    find.fill("@ v")
    assert "h @ v" in found.first.inner_text()
    find.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("z")  # while the list of before is closing
    page.wait_for_timeout(250)
    assert "in the loop (scan of cell)" in found.first.inner_text()
    page.keyboard.press("Enter")
    calm(page)
    assert page.locator('#inspector .at-iteration [aria-expanded="true"]').inner_text() == "z"
    assert page.locator("#inspector .at-elements h4").inner_text().startswith("z at t = ")
