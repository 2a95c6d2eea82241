"""The page without a mouse."""

from __future__ import annotations

from typing import Any

from waiting import calm, settle


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
        settle(page)


def selected(page: Any) -> str:
    """The name at the head of the inspector."""
    calm(page)
    path = page.locator("#inspector #value-path")
    return path.inner_text() if path.count() else ""


def to_graph(page: Any) -> None:
    """Give it the focus, to which Tab leads too: the first test sees that."""
    page.locator("#graph").focus()


def test_tab_leads_through_the_whole_page_and_the_focus_is_seen(opened) -> None:
    page = opened("mlp")
    seen = []
    for _ in range(80):
        page.keyboard.press("Tab")
        where, outline = page.evaluate(
            """() => {
              const one = document.activeElement;
              const style = getComputedStyle(one);
              const shown = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
              return [one.id || one.dataset.row || one.tagName,
                      shown || style.boxShadow !== "none" || one.id === "graph"];
            }"""
        )
        if where == "BODY":
            break
        assert outline, f"the focus on {where} cannot be seen"
        seen.append(where)
    stops = ["step-slider", "colour", "find", "fit", "theme", "help", "graph", "tab-memory"]
    assert [stop for stop in stops if stop not in seen] == []


def test_arrows_move_over_the_graph(shared) -> None:
    page = shared("mlp")
    to_graph(page)
    press(page, "ArrowRight")
    first = page.locator("#graph .node.selected").first.get_attribute("data-key")
    press(page, "ArrowRight")
    second = page.locator("#graph .node.selected").first.get_attribute("data-key")
    assert first != second
    press(page, "ArrowLeft")
    assert page.locator("#graph .node.selected").first.get_attribute("data-key") == first


def test_g_goes_to_the_gradient_and_back(shared) -> None:
    page = shared("mlp")
    page.locator("#find").press("h")
    press(page, "Enter")
    assert selected(page).startswith("h")
    press(page, "g")
    assert page.locator('#graph [data-key="gradient dJ/dh"].selected').count() == 1
    press(page, "g")
    assert page.locator('#graph [data-key="value h"].selected').count() == 1


def test_stepping_zooming_and_help(shared) -> None:
    page = shared("mlp")
    to_graph(page)
    press(page, ".", ".", ",")
    assert page.locator("#step-text").inner_text().startswith("1/12 ")
    before = page.locator("#graph .node").first.bounding_box()["width"]
    press(page, "+", "+")
    page.wait_for_timeout(400)
    assert page.locator("#graph .node").first.bounding_box()["width"] > before
    press(page, "-", "-", "f")
    press(page, "?")
    dialog = page.locator("#help-dialog")
    assert dialog.is_visible() and "find a value" in dialog.inner_text()
    press(page, "Escape")
    assert not dialog.is_visible()
    press(page, "Escape")
    assert selected(page) == ""


def test_search_by_keys(shared) -> None:
    page = shared("mlp")
    press(page, "/")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.type("dJ/dW")
    settle(page)
    press(page, "ArrowDown", "Enter")
    assert "dJ/dW2" in selected(page)
    assert page.evaluate("document.activeElement.id") == "graph"


def test_enter_unfolds_and_folds_a_scope(shared) -> None:
    page = shared("blocks")
    to_graph(page)
    count = page.locator("#graph .node").count()
    for _ in range(12):
        press(page, "ArrowRight")
        if page.locator("#graph .node.folded.selected").count():
            break
    press(page, "Enter")
    assert page.locator("#graph .node").count() > count
    press(page, "Enter")
    assert page.locator("#graph .node").count() == count


def test_the_outline_is_a_tree_for_keys(opened) -> None:
    page = opened("blocks")
    rows = page.locator("#outline-tree [role=treeitem]")
    rows.first.focus()
    press(page, "ArrowDown")
    assert page.evaluate("document.activeElement.dataset.row") == "1"
    press(page, "End")
    last = rows.count() - 1
    assert page.evaluate("document.activeElement.dataset.row") == str(last)
    press(page, "Home", "ArrowLeft")
    assert rows.count() == 1 and rows.first.get_attribute("aria-expanded") == "false"
    press(page, "ArrowRight")
    assert rows.count() == last + 1


def test_tabs_by_arrows(shared) -> None:
    page = shared("mlp")
    page.locator("#tab-memory").focus()
    press(page, "ArrowRight")
    assert page.locator("#panel-training").is_visible()
    press(page, "ArrowRight")
    assert page.locator("#panel-values").is_visible()
    assert page.evaluate("document.activeElement.id") == "tab-values"


def test_a_change_is_spoken(shared) -> None:
    page = shared("mlp")
    to_graph(page)
    press(page, ".")
    line = page.locator("#announcer")
    line.filter(has_text="Step 1/12 ").wait_for(state="attached")
    told = line.text_content()
    assert told.startswith("Step 1/12 ") and "Selected " in told
