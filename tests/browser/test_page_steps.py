"""Stepping through a computation, forward and backward, by buttons, slider and address."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

import pytest
from waiting import calm, settle


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


def test_every_step_forward_and_back(shared) -> None:
    page = shared("mlp")
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
        live = page.locator("#panel-memory .alive-head strong").inner_text()
        assert told[-1].endswith(f"live {live}"), step
    assert len(set(told)) == count
    assert sum("forward of" in text for text in told) == 6
    assert sum("backward of" in text for text in told) == 6
    assert on.is_disabled()
    for step in (count - 1, count - 2):
        back.click()
        assert cursor(page) == (step, count)
    page.locator("#step-slider").press("Home")
    settle(page)
    assert cursor(page) == (0, count)
    assert set(states(page).values()) == {"there"}


def test_the_steps_of_an_update_come_last(opened) -> None:
    page = opened("adam")
    count = cursor(page)[1]
    page.locator("#step-slider").fill(str(count))
    settle(page)
    assert "update: " in page.locator("#step-text").inner_text()
    assert "now" in states(page).values()


def test_what_is_computed_later_is_faded_and_what_was_freed_is_marked(shared) -> None:
    page = shared("mlp")
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


def test_the_slider_goes_anywhere(shared) -> None:
    page = shared("mlp")
    slider = page.locator("#step-slider")
    slider.fill("7")
    settle(page)
    assert cursor(page)[0] == 7
    slider.press("ArrowRight")
    settle(page)
    assert cursor(page)[0] == 8
    assert slider.get_attribute("aria-valuetext") == page.locator("#step-text").inner_text()


def test_one_cursor_moves_all_views(shared) -> None:
    page = shared("mlp")
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


def test_a_click_into_the_memory_goes_to_that_step(shared) -> None:
    page = shared("mlp")
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
    again = opened("mlp", at=f"{hash_}&budget=5")
    assert again.locator("#tab-budget, .again-mark").count() == 0, "no budgets were planned"
    assert cursor(again) == (5, 12)
    assert again.locator("#panel-values").is_visible()
    selected = "#outline-tree .selected"
    assert again.locator(selected).inner_text() == page.locator(selected).inner_text()


def place_of_peak(page: Any) -> float:
    """How far from the left of the chart the first instruction at the peak is."""
    packed = page.locator("#data").text_content()
    memory = json.loads(gzip.decompress(base64.b64decode(packed)))["memory"]
    width = page.locator("#panel-memory svg.memory").bounding_box()["width"]
    left, right, count = 66, 10, len(memory["live"])
    assert count <= width / 2, "each instruction has a column of its own"
    return left + (memory["peak_instruction"] + 0.5) * (width - left - right) / count


# Of the native executor; another executor, a loop, an update and scopes change nothing.
@pytest.mark.parametrize(
    "name",
    [
        "compiled",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("recurrent", "mlp", "adam", "transformer")
        ),
    ],
)
def test_text_and_chart_name_the_same_step_at_the_peak(shared, name: str) -> None:
    page = shared(name)
    head = page.locator("#panel-memory .alive-head")
    step = int(head.inner_text().removeprefix("At the peak: step ").split(",")[0])
    peak = page.locator("#panel-memory .peak-name")
    assert peak.text_content().endswith(f" at step {step}")
    total = head.locator("strong").inner_text()
    assert peak.text_content() == f"peak {total} at step {step}"
    assert page.locator("#step-text").inner_text().endswith(f"peak {total}")
    page.get_by_role("button", name="go to the peak").click()
    settle(page)
    assert cursor(page)[0] == step
    assert head.inner_text().startswith(f"At the peak: step {step},")
    line = page.locator("#panel-memory .cursor-line")
    assert float(line.get_attribute("x1")) == pytest.approx(place_of_peak(page), abs=0.5)
    place = page.locator("#panel-memory svg.memory").bounding_box()
    x = place["x"] + float(line.get_attribute("x1"))
    page.locator("#step-slider").fill("1" if step > 1 else "2")
    settle(page)
    page.mouse.click(x, place["y"] + 20)
    settle(page)
    assert cursor(page)[0] == step


def test_a_gradient_of_two_terms_is_begun_and_then_there(opened) -> None:
    page = opened("mlp", at="#value=dJ%2FdW2")
    inspector = page.locator("#inspector")
    calm(page)
    text = inspector.inner_text()
    makers = re.search(
        r"(?i)chain rule of ∂J/∂W₂\s*·\s*made at\s*step (\d+)\s*and\s*step (\d+)", text
    )
    assert makers, text
    first, last = map(int, makers.groups())
    assert first < last
    terms = inspector.locator(".term-facts").all_inner_texts()
    assert sorted(int(one.split()[-1]) for one in terms) == [first, last]
    key = "gradient dJ/dW2"
    for step, state in ((first - 1, "later"), (first, "now"), (last - 1, "begun"), (last, "now")):
        page.locator("#step-slider").fill(str(step))
        settle(page)
        assert states(page)[key] == state or (step == first == last - 1), step
    page.locator("#step-slider").fill(str(last - 1))
    settle(page)
    arrows = page.locator("#graph path.backward-line[data-state=later]")
    assert arrows.count() == 3, "to the circle of the last step, and from it to two gradients"
    page.locator("#step-slider").fill(str(first))
    settle(page)
    assert "part of ∂J/∂W₂" in page.locator("#step-text").inner_text()


def test_an_equation_says_at_which_step_it_is_made_and_has_no_number_of_its_own(opened) -> None:
    page = opened("mlp", at="#value=dJ%2Fdh")
    calm(page)
    heading = page.locator("#inspector h3").first
    assert re.fullmatch(
        r"(?i)equation\s*· made at\s*step \d+\s*of 12", heading.inner_text().strip()
    )


def test_a_step_says_all_that_it_makes_and_from_what(opened) -> None:
    page = opened("recurrent")
    slider = page.locator("#step-slider")
    slider.focus()
    page.keyboard.press("End")
    calm(page)
    while "(backward of" not in page.locator("#step-text").inner_text():
        page.keyboard.press("ArrowLeft")
        calm(page)
    number = slider.input_value()
    section = page.locator("#inspector section", has_text=f"Step {number} of ").first
    rows = section.locator(".operand").all_inner_texts()
    gives = [one.replace("∂", "d") for one in rows if one.startswith("gives")]
    assert [name for name in ("dJ/dW", "dJ/dU", "dJ/dv") if any(name in one for one in gives)]
    told = page.locator("#step-text").inner_text().replace("∂", "d")
    for name in re.findall(r"dJ/d\w+", told):
        assert any(name in one for one in gives), (told, rows)
    assert any("…" in one for one in rows if not one.startswith("gives")), "no numbers of operands"
    assert section.locator(".equation").count() == len(gives) - 1 > 0


def test_the_memory_says_which_steps_are_one_instruction_and_what_an_unnamed_array_holds(
    opened,
) -> None:
    page = opened("recurrent")
    packed = page.locator("#data").text_content()
    memory = json.loads(gzip.decompress(base64.b64decode(packed)))["memory"]
    loop = next(one for one in memory["lives"] if one["label"].startswith("the loop over cell"))
    page.locator(".alive-list button", has_text="the loop over cell").first.click()
    settle(page)
    told = page.locator("#inspector section").first.inner_text()
    assert told.startswith("the loop over cell") and loop["parts"] in told
    assert f"made at step {loop['step'] + 1}" in " ".join(told.split())
    svg = page.locator("#panel-memory svg.memory").bounding_box()
    column = (svg["width"] - 76) / len(memory["live"])
    x = svg["x"] + 66 + column * (loop["first"] + 0.5)
    page.mouse.click(x, svg["y"] + svg["height"] - 60)
    settle(page)
    assert cursor(page)[0] == loop["step"] + 1
    head = page.locator("#panel-memory .alive-head")
    for step in range(1, cursor(page)[1] + 1):  # to one that shares its instruction
        page.locator("#step-slider").fill(str(step))
        settle(page)
        caption = page.locator(".chart-caption").inner_text()
        assert caption.startswith("columns are instructions")
        if "·" in caption:
            break
    found = re.search(r" · (steps (\d+) (and|to) (\d+) (are|begin with) one instruction)$", caption)
    assert found and int(found[2]) == step < int(found[4])
    assert found[1][1:] in head.inner_text()
