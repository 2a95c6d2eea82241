"""Light and dark, small and large windows, paper, and people who do not see the page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from waiting import calm, settle

SIZES = pytest.mark.parametrize(("width", "height"), [(800, 600), (1440, 900)])
# Layout of the page itself, which a test of a component library would not see.
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]}}


def faults(page: Any, axe: str, part: str = "html") -> list[str]:
    """What axe-core finds; the policy of the page lets only a debugger bring it in."""
    page.evaluate(axe)
    found = page.evaluate(f"axe.run({json.dumps(part)}, {json.dumps(RULES)})")
    return [
        f"{one['id']}: {one['help']}: {node['target']} {node['html'][:200]}"
        for one in found["violations"]
        for node in one["nodes"][:5]
    ]


def box(page: Any, selector: str) -> dict[str, float]:
    found = page.locator(selector).first.bounding_box()
    assert found is not None, f"{selector} is not shown"
    return found


@pytest.mark.sweep(6)
@SIZES
@pytest.mark.parametrize("name", ["mlp", "blocks"])
def test_nothing_is_outside_the_window(opened, name: str, width: int, height: int) -> None:
    page = opened(name, width=width, height=height)
    across, down = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    assert across <= width and down <= height
    for selector in ("#graph", "#step-next", "#find", "#help", "#tab-values"):
        place = box(page, selector)
        assert place["x"] >= 0 and place["x"] + place["width"] <= width + 0.5, selector
        assert place["y"] >= 0 and place["y"] + place["height"] <= height + 0.5, selector
    assert box(page, "#graph")["width"] > 400 and box(page, "#graph")["height"] > 180


def test_in_a_small_window_a_value_can_be_looked_at_and_closed(opened) -> None:
    page = opened("mlp", width=800, height=600)
    page.locator('#graph .node[data-key="value h"]').click()
    calm(page)
    inspector = box(page, "#inspector")
    assert inspector["width"] > 200 and inspector["height"] > 100
    assert page.locator("#inspector .equation .katex").first.is_visible()
    page.keyboard.press("Escape")
    settle(page)
    assert page.locator("#graph .node.selected").count() == 0


def test_dark_as_the_system_says_and_as_a_person_says(opened) -> None:
    page = opened("mlp", dark=True)
    background = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    assert max(page.evaluate(background)) < 80
    page.locator("#theme").click()
    settle(page)
    assert min(page.evaluate(background)) > 200
    page.wait_for_url("**#*theme=light*")
    assert min(opened("mlp").evaluate(background)) > 200


def test_boxes_can_be_coloured_by_a_quantity(shared) -> None:
    page = shared("mlp")
    choices = page.locator("#colour option").evaluate_all("(all) => all.map((one) => one.value)")
    assert {"kind", "nbytes", "step", "norm", "nan"} <= set(choices)
    for choice in choices[1:]:
        page.locator("#colour").select_option(choice)
        settle(page)
        assert page.locator("#graph .node.painted").count() > 5, choice
    page.locator("#colour").select_option("kind")
    settle(page)
    assert page.locator("#graph .node.painted").count() == 0


def test_norms_of_values_and_of_gradients_have_a_scale_each(shared) -> None:
    page = shared("mlp")
    scales = page.locator(".legend .scale")
    page.locator("#colour").select_option("norm")
    settle(page)
    first, second = scales.all_inner_texts()
    assert "norm of values" in first and "norm of gradients" in second
    assert "1.515" in second and "1.515" not in first  # of dJ/dW2, the largest; dJ/dz has the least
    painted = "(node) => node.style.getPropertyValue('--painted')"
    keys = ("gradient dJ/dW2", "gradient dJ/dz", "value z")
    light, dark, value = (
        page.locator(f'#graph [data-key="{key}"]').evaluate(painted) for key in keys
    )
    assert (light, dark) == ("rgb(251 220 171)", "rgb(74 38 0)")
    red, _, blue = map(int, value.removeprefix("rgb(").removesuffix(")").split())
    assert blue > red
    page.locator("#colour").select_option("nbytes")
    settle(page)
    assert scales.count() == 1 and "bytes" in scales.inner_text()
    page.locator("#colour").select_option("kind")
    settle(page)


# What is dark has the same elements in other colours: two of the pages show nearly all of these.
@pytest.mark.parametrize(
    ("name", "at", "width", "dark"),
    [
        ("mlp", "#step=9&value=dJ%2FdW1&tab=values", 1440, False),
        ("recurrent", "#value=o&step=5", 800, True),
        *(
            pytest.param(*one, marks=pytest.mark.exhaustive)
            for one in (
                ("mlp", "#step=9&value=dJ%2FdW1&tab=values", 1440, True),
                ("recurrent", "#value=o&step=5", 1440, False),
                ("mlp", "#value=h&tab=training&colour=norm", 800, True),
                ("mlp", "#value=h&tab=training&colour=norm", 800, False),
                ("blocks", "#step=3", 1440, False),
                ("adam", "#value=W1_next", 1440, False),
                ("budgets", "#value=h&tab=budget&budget=1", 1440, True),
                ("trained", "#value=dJ%2FdW1&tab=training", 1440, False),
                ("trained", "#value=dJ%2FdW1&tab=training", 1440, True),
            )
        ),
    ],
)
def test_axe_finds_nothing(opened, axe: str, name: str, at: str, width: int, dark: bool) -> None:
    page = opened(name, width=width, height=900, dark=dark, at=at)
    calm(page)
    assert faults(page, axe) == []


def test_axe_finds_nothing_in_dialogs_and_lists(opened, axe: str) -> None:
    page = opened("symbolic", at="#value=z")
    page.locator("#help").click()
    assert faults(page, axe, "#help-dialog") == []
    page.keyboard.press("Escape")
    page.locator("#find").fill("d")
    settle(page)
    assert page.locator("header #find-results").count() == 1
    assert faults(page, axe, "header") == []


def test_axe_would_find_something(opened, axe: str) -> None:
    page = opened("mlp")
    page.evaluate("document.querySelector('#fit').textContent = ''")
    page.evaluate("document.querySelector('#fit').removeAttribute('title')")
    assert any(fault.startswith("button-name") for fault in faults(page, axe, "header"))


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "name", ["mlp", "hostile", pytest.param("blocks", marks=pytest.mark.exhaustive)]
)
def test_a_page_can_be_printed(opened, name: str) -> None:
    page = opened(name, dark=True)
    paper = page.pdf(format="A4", landscape=True)
    assert paper.startswith(b"%PDF-") and len(paper) > 10_000
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    settle(page)
    assert not page.locator("#find").is_visible()
    boxes = page.locator("#graph .node").count()
    assert page.locator(".print svg").is_visible()
    assert page.locator(".print svg .node").count() == boxes
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".print svg").count() == 0


def test_nothing_moves_for_those_who_do_not_want_it(opened) -> None:
    """The tests ask for reduced motion: the view is there in the next frame."""
    page = opened("mlp")
    node = page.locator('#graph [data-key="value z"]')
    before = node.bounding_box()["width"]
    page.locator("#graph").focus()
    page.keyboard.press("+")
    settle(page)
    after = node.bounding_box()["width"]
    assert after > before * 1.1
    page.wait_for_timeout(300)
    assert node.bounding_box()["width"] == after


def test_in_a_small_window_the_whole_can_be_looked_at_and_fitted(opened) -> None:
    page = opened("recurrent", width=390, height=844)
    sheet, overview = page.locator("#inspector"), page.locator(".summary-button")
    for button in (overview, page.locator(".title-button")):
        assert not sheet.is_visible()
        button.click()
        calm(page)
        assert "gradients of parameters" in sheet.inner_text().lower()
        assert overview.get_attribute("aria-expanded") == "true"
        page.locator("#inspector .close").click()
        calm(page)
    shown = page.locator(".percent").inner_text()
    page.get_by_role("button", name="Zoom in").click()
    page.locator(".narrow-fit").click()
    calm(page)
    assert page.locator(".percent").inner_text() == shown
    page.locator(".narrow-tools select").select_option("norm")
    assert page.locator("#colour").input_value() == "norm"
    calm(page)
    legend, tools = (page.locator(one).bounding_box() for one in (".legend", ".narrow-tools"))
    assert legend["y"] + legend["height"] <= tools["y"], "the scales lie on the buttons"
