"""What the page says about one value: its equation, its numbers, its line, why it is kept."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from report_pages import network_inputs
from waiting import calm, settle


def click(page: Any, key: str) -> Any:
    """Click on a box of the graph; what the inspector then is."""
    page.locator(f'#graph .node[data-key="{key}"]').click()
    calm(page)
    return page.locator("#inspector")


def mathematics(inspector: Any) -> list[str]:
    """The LaTeX of every formula that KaTeX has set."""
    return inspector.locator(".katex annotation").all_text_contents()


def test_a_click_shows_the_equation_of_a_value(shared) -> None:
    page = shared("mlp")
    inspector = click(page, "value z")
    assert inspector.locator("#value-path").inner_text().startswith("z")
    assert any(r"\mathbf{x}\,\mathbf{W}" in latex for latex in mathematics(inspector))
    assert inspector.locator(".katex-html").count() > 0
    assert inspector.locator(".katex math").count() > 0, "for screen readers"
    assert page.locator('#graph [data-key="value z"].selected').count() == 1
    row = page.locator("#outline-tree .selected")
    assert row.locator(".outline-name").get_attribute("title") == "z"
    assert "256 KiB" in row.inner_text()


def test_every_kind_of_box_can_be_clicked(shared) -> None:
    page = shared("mlp")
    shown = {
        "value W1": "W1",
        "operator h": "h",
        "gradient dJ/dh": "dJ/dh",
        "backward h": "dJ/dz",  # which that circle makes
        "gradient dJ/dW1": "dJ/dW1",
        "value J": "J",
    }
    for key, name in shown.items():
        click(page, key)
        assert page.locator(f'#graph .selected[data-key="{key}"]').count() == 1
        assert name in page.locator("#inspector #value-path").inner_text(), key


def test_the_numbers_are_those_of_the_run(shared) -> None:
    page = shared("mlp")
    text = click(page, "value z").inner_text()
    given = network_inputs()
    z = given["x"] @ given["W1"]
    for number in (z.min(), z.max(), z.mean(), z.std()):
        shown = [
            float(one.replace("−", "-")) for one in re.findall(r"[−\d][\d.]*(?:e−?\d+)?", text)
        ]
        assert any(np.isclose(number, one, rtol=1e-3) for one in shown), (number, text)
    assert "256 KiB" in text and "float32" in text


def test_a_person_finds_the_four_answers(shared) -> None:
    """What is dJ/dh, why is h kept, what is largest at the peak, on which line was z computed."""
    page = shared("mlp")
    inspector = click(page, "gradient dJ/dh")
    joined = "\n".join(mathematics(inspector))
    assert r"\frac{\partial J}{\partial \mathbf{h}} = " in joined
    assert r"\frac{\partial J}{\partial \mathbf{o}}\,{\mathbf{W}_{2}}^{\top}" in joined
    kept = click(page, "value h").inner_text()
    assert re.search(r"(?i)kept because\s+.*∂J/∂o.*∂J/∂W₂.*needs it", kept), kept
    line = click(page, "value z").inner_text()
    assert re.search(r"(?i)computed in report_pages\.py:\d+", line)
    assert "z = x @ W1" in line
    largest = page.locator("#panel-memory .alive-list li").first.inner_text()
    assert "784 KiB" in largest, largest


def test_from_a_value_to_what_it_is_made_from_and_used_by(shared) -> None:
    page = shared("mlp")
    inspector = click(page, "value h")
    inspector.get_by_role("button", name="z", exact=True).first.click()
    calm(page)
    assert inspector.locator("#value-path").inner_text().startswith("z")


def test_a_gradient_shows_every_term_of_the_chain_rule(shared) -> None:
    page = shared("mlp")
    inspector = click(page, "gradient dJ/dW1")
    heading = inspector.get_by_role("heading", name=re.compile("chain rule", re.IGNORECASE))
    assert heading.count() == 1
    assert inspector.locator("text=/\\d+ %/").count() >= 2, "the share of each term"


def test_without_inputs_the_page_says_that_it_has_no_numbers(opened) -> None:
    page = opened("symbolic")
    text = click(page, "value z").inner_text()
    assert "made without inputs" in text
    assert any(r"\mathbf{W}" in latex for latex in mathematics(page.locator("#inspector")))
    assert "sizes" in page.locator("#panel-memory").inner_text()


def test_the_table_has_every_value_and_can_be_sorted_and_filtered(opened) -> None:
    page = opened("mlp")
    page.locator("#tab-values").click()
    settle(page)
    panel = page.locator("#panel-values")
    rows = panel.locator("tr[data-value-id]")
    assert rows.count() == 18
    assert panel.locator("th[aria-sort]").count() == 0, "they stand in the order of the program"
    panel.get_by_role("button", name="bytes", exact=True).click()
    settle(page)
    assert "784 KiB" in rows.first.inner_text()
    assert panel.locator("th[aria-sort=descending]").count() == 1
    panel.get_by_role("searchbox").fill("dJ/dW")
    settle(page)
    assert rows.count() == 2
    rows.first.click()
    calm(page)
    assert "dJ/dW" in page.locator("#inspector #value-path").inner_text()


def test_curves_are_drawn_where_there_is_a_history(opened) -> None:
    page = opened("mlp")
    page.locator("#tab-training").click()
    settle(page)
    assert page.locator("#panel-training .uplot canvas").count() >= 1
    assert "accuracy" in page.locator("#panel-training").inner_text()
    trained = opened("trained", at="#tab=training")
    clocks = trained.locator("#panel-training .u-series.u-off th").all_text_contents()
    assert [one.split()[0] for one in clocks] == ["epoch", "seconds", "samples_per_second"]
    seconds = trained.get_by_role("button", name="seconds", exact=False).first
    seconds.focus()
    trained.keyboard.press("Enter")
    assert seconds.get_attribute("aria-pressed") == "true"
    without = opened("blocks")
    assert without.locator("#tab-memory").is_visible()
    assert without.locator("#tab-training").count() == 0


def test_all_that_a_page_counts_is_steps(shared) -> None:
    text = click(shared("mlp"), "value h").inner_text()
    told = re.search(r"Made at step (\d+) of 12, .* during step (\d+), then freed", text)
    assert told, text
    assert f"kept from step {told[1]} to {told[2]}:" in text
    assert "instruction" not in text


def test_the_overview_lists_the_gradients_that_it_has_no_room_for(shared) -> None:
    page = shared("transformer")
    page.locator("#inspector").get_by_role("button", name="with smaller norms").click()
    settle(page)
    panel = page.locator("#panel-values")
    assert panel.locator("th[aria-sort=descending]").inner_text() == "norm"
    assert panel.get_by_role("status").inner_text() == "14 values"
