"""A page opens by itself: small, from a file, without a word on the console or the network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

MOST_NBYTES = 1_500_000  # of the page of the network of the README


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "name", ["mlp", "symbolic", pytest.param("adam", marks=pytest.mark.exhaustive)]
)
def test_a_page_opens_from_a_file_and_is_quiet(opened, name: str) -> None:
    page = opened(name)
    assert page.url.startswith("file:///")
    assert page.evaluate("performance.getEntriesByName('ready').length") == 1
    assert page.locator("#waiting").count() == 0
    assert page.locator("#graph [data-key]").count() > 5


def test_the_page_of_a_network_is_small(written) -> None:
    assert written("mlp").stat().st_size < MOST_NBYTES


def test_the_facts_and_the_title_are_there(shared) -> None:
    page = shared("mlp")
    assert page.title() == "objective"
    assert "203,264" in page.locator("header .facts").inner_text()
    assert page.locator("h1").first.inner_text() == "objective"


def test_every_font_that_mathematics_asks_for_is_in_the_page(shared) -> None:
    page = shared("mlp")
    used = page.evaluate(
        """async () => {
          for (const tree of document.querySelectorAll(".katex")) tree.getBoundingClientRect();
          await document.fonts.ready;
          const names = new Set();
          for (const one of document.querySelectorAll(".katex-html *")) {
            if (![...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE)) continue;
            const { fontFamily, fontWeight, fontStyle } = getComputedStyle(one);
            names.add([fontFamily.split(",")[0], fontWeight, fontStyle].join(" "));
          }
          const loaded = [...document.fonts].filter((face) => face.status === "loaded");
          const there = loaded.map((face) =>
            [face.family, face.weight.replace("normal", "400"), face.style].join(" "));
          return [...names].filter((name) => !there.includes(name));
        }"""
    )
    assert used == []


def test_data_that_cannot_be_read_are_told_in_the_page(chromium, written, tmp_path: Path) -> None:
    text = written("symbolic").read_text(encoding="utf-8")
    broken = tmp_path / "broken.html"
    broken.write_text(re.sub(r'(id="data">).{40}', r"\1" + "A" * 40, text), encoding="utf-8")
    page = chromium.new_page()
    page.goto(broken.as_uri())
    page.wait_for_selector("html[data-ready=failed]", state="attached")
    told = page.locator("[role=alert]").inner_text()
    assert told.startswith("This report could not be shown: ") and "Firefox 113" in told
    page.close()


def test_what_the_policy_forbids_is_refused_and_seen(chromium, written) -> None:
    """The other tests notice nothing unless this does: a request, a script, an evaluation."""
    context = chromium.new_context()
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(written("symbolic").as_uri())
    page.evaluate("fetch('https://example.org/').catch(() => 0)")
    page.evaluate(
        """() => {
          for (const [tag, name] of [["img", "src"], ["script", "src"], ["iframe", "src"]]) {
            const made = document.createElement(tag);
            made.setAttribute(name, "https://example.org/x");
            document.body.append(made);
          }
          const script = document.createElement("script");
          script.textContent = "document.title = 'owned'";
          document.body.append(script);
        }"""
    )
    kinds = ("Connecting to", "Loading the image", "Loading the script", "Framing")
    awaited = [f"{kind} 'https://example.org/" for kind in kinds] + ["Executing inline script"]
    for _ in range(100):
        missing = [one for one in awaited if not any(text.startswith(one) for text in said)]
        if not missing:
            break
        page.wait_for_timeout(50)
    assert missing == [], said
    assert page.title() == "objective"
    context.close()
