"""Folding, unfolding and finding: nothing is lost, and what is clicked stays where it is."""

from __future__ import annotations

from typing import Any

import pytest
from waiting import calm, settle


def keys(page: Any) -> list[str]:
    """The boxes in sight."""
    nodes = page.locator("#graph .node[data-key]")
    return nodes.evaluate_all("(nodes) => nodes.map((one) => one.dataset.key)")


def rows(page: Any) -> Any:
    return page.locator("#outline-tree [role=treeitem]")


@pytest.mark.exhaustive
def test_everything_can_be_unfolded_and_folded_again(opened) -> None:
    page = opened("blocks", height=3000)  # the outline has the rows in sight, here all
    before, folded = keys(page), rows(page).count()
    for _ in range(40):
        closed = page.locator("#outline-tree [aria-expanded=false] .twisty")
        if closed.count() == 0:
            break
        closed.first.click()
        settle(page)
    assert page.locator("#outline-tree [aria-expanded=false]").count() == 0
    names = page.locator("#outline-tree [data-value-id] [title]")
    shown = names.evaluate_all("(all) => all.map((one) => one.title)")
    assert {f"stack.block_{number}.h" for number in range(1, 12)} <= set(shown)
    page.locator("#fit").click()
    settle(page)
    assert page.locator("#graph .node, #graph .far *").count() > 0
    turns = "#outline-tree [data-scope][aria-level='4'][aria-expanded=true] .twisty"
    for level in [*[turns] * 12, turns.replace("4", "3")]:
        page.locator(level).first.click()
        settle(page)
    page.locator("#fit").click()
    settle(page)
    assert rows(page).count() == folded
    assert sorted(keys(page)) == sorted(before)


def test_a_double_click_unfolds_a_box_where_it_is(shared) -> None:
    page = shared("blocks")
    box = page.locator("#graph .node.folded").first
    key = box.get_attribute("data-key")
    count = len(keys(page))
    place = box.bounding_box()
    box.dblclick(position={"x": place["width"] / 2, "y": 8})
    settle(page)
    assert len(keys(page)) > count
    assert key not in keys(page)
    frame = page.locator(f'#graph [data-frame="{key}"]').first.bounding_box()
    assert frame["x"] <= place["x"] + place["width"] and frame["y"] <= place["y"] + place["height"]
    assert frame["x"] + frame["width"] >= place["x"] and frame["y"] + frame["height"] >= place["y"]


def test_what_is_found_is_unfolded_and_marked(shared) -> None:
    page = shared("blocks")
    page.locator("#find").fill("block_3.h")
    options = page.locator("#find-results [role=option]")
    assert options.count() >= 1
    wanted = options.first.locator(".found-name").inner_text()
    assert "block_3.h" in wanted
    page.keyboard.press("Enter")
    calm(page)
    assert wanted in page.locator("#inspector").inner_text()
    assert page.locator("#graph .node.selected").count() >= 1
    assert page.locator("#outline-tree .selected").is_visible()


def test_the_values_of_a_line_are_found_by_its_words_and_by_its_number(shared) -> None:
    page = shared("mlp")
    results = page.locator("#find-results")
    page.locator("#find").fill("np.maximum")
    (by_words,) = results.locator("[role=option]").all_inner_texts()
    assert by_words.startswith("h") and "h = np.maximum(z, 0)" in by_words
    number = by_words.split("line ")[1].split(":")[0]
    page.locator("#find").fill(f"line {number}")
    assert results.locator("[role=option]").all_inner_texts() == [by_words]
    page.keyboard.press("Escape")


def test_what_is_not_there_is_not_found(shared) -> None:
    page = shared("blocks")
    page.locator("#find").fill("nowhere")
    assert page.locator("#find-results").inner_text() == "no name and no line has nowhere"
    page.keyboard.press("Escape")
    assert not page.locator("#find-results").is_visible()


def test_what_is_unfolded_is_in_the_address(opened) -> None:
    page = opened("blocks")
    page.locator("#outline-tree [aria-expanded=false] .twisty").first.click()
    page.wait_for_url("**#*open=*")
    again = opened("blocks", at=page.evaluate("location.hash"))
    settle(again)
    assert rows(again).count() == rows(page).count()


def test_the_mouse_moves_and_zooms_the_graph(opened) -> None:
    page = opened("mlp")
    node = page.locator('#graph [data-key="value z"]')
    before = node.bounding_box()
    page.mouse.move(before["x"] - 60, before["y"] + 90)
    page.mouse.down()
    page.mouse.move(before["x"] + 10, before["y"] + 120, steps=5)
    page.mouse.up()
    settle(page)
    moved = node.bounding_box()
    assert abs(moved["x"] - before["x"] - 70) < 2 and abs(moved["y"] - before["y"] - 30) < 2
    page.mouse.wheel(0, -300)
    settle(page)
    assert node.bounding_box()["width"] > moved["width"] * 1.2
    page.locator("#fit").click()
    page.wait_for_timeout(50)
    settle(page)
    assert node.bounding_box()["width"] < moved["width"] * 1.6


def test_a_function_is_found_by_the_lines_that_call_it(shared) -> None:
    page = shared("recurrent")
    page.locator("#find").fill("cr.scan(")
    found = page.locator("#find-results [role=option]")
    assert found.count() >= 1
    assert all("cr.scan(" in one and "line " in one for one in found.all_inner_texts())


def test_a_step_is_found_by_its_number_before_all_else(shared) -> None:
    page = shared("mlp")
    found = page.locator("#find-results [role=option]")
    for text in ("step 4", "#4", "4"):
        page.locator("#find").fill(text)
        assert found.first.inner_text().startswith("step 4\n"), text
    page.keyboard.press("Enter")
    calm(page)
    assert page.locator("#step-text").inner_text().startswith("4/")
    page.locator("#find").fill("step 99")
    assert "the steps are 1 to " in page.locator("#find-results").inner_text()
    page.keyboard.press("Escape")
