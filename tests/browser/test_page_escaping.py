"""Names, source lines, file names, titles and curves with markup in them are shown as text."""

from __future__ import annotations

from typing import Any

from report_pages import END, HOSTILE, HOSTILE_FILE, LATEX, MARKUP
from waiting import calm, settle

FOREIGN = """() => [
  ...document.querySelectorAll("img, iframe, object, embed, form, base, [onclick], [onerror], b"),
  ...document.querySelectorAll("script:not(#data)"),
  ...[...document.querySelectorAll("a[href], [href]")].filter((one) =>
    !/^(data:|#)/.test(one.getAttribute("href"))),
].map((one) => one.outerHTML.slice(0, 80))"""


def own(page: Any) -> list[str]:
    """Elements that text could have made; the page's own scripts are left out."""
    return [one for one in page.evaluate(FOREIGN) if not one.startswith("<script>") or END in one]


def test_no_text_becomes_markup_in_any_view(opened) -> None:
    page = opened("hostile")
    scripts = page.locator("script").count()
    for row in range(page.locator("#outline-tree [data-value-id]").count()):
        page.locator("#outline-tree [data-value-id]").nth(row).click()
        calm(page)
    for tab in ("memory", "budget", "training", "values"):
        page.locator(f"#tab-{tab}").click()
        settle(page)
    for step in range(6):
        page.keyboard.press(".")
        settle(page)
        assert step or page.locator("#step-text").inner_text().startswith("1/6")
    for word in ("img", "script", "href", "amp"):
        page.locator("#find").fill(word)
        settle(page)
        assert page.locator("#find-results [role=option]").count() >= 1
    page.emulate_media(media="print")
    settle(page)
    assert page.title() == f"{MARKUP}{END}{HOSTILE['quotes']}"
    assert [one for one in own(page) if not one.startswith('<script type="module"')] == []
    assert page.locator("script").count() == scripts
    assert page.evaluate("[...document.querySelectorAll('*')].length") > 100


def test_the_text_is_there_as_it_was_written(shared) -> None:
    page = shared("hostile")
    assert page.locator("h1").first.inner_text() == f"{MARKUP}{END}{HOSTILE['quotes']}"
    page.locator("#find").fill("script")
    page.keyboard.press("Enter")
    calm(page)
    text = page.locator("#inspector").inner_text()
    assert END in text, "the source line"
    assert HOSTILE_FILE in page.locator("body").inner_text()
    page.locator("#tab-training").click()
    settle(page)
    assert MARKUP in page.locator("#panel-training").inner_text()


def test_latex_in_names_is_not_obeyed(shared) -> None:
    page = shared("hostile")
    page.locator("#find").fill("href")
    page.keyboard.press("Enter")
    calm(page)
    inspector = page.locator("#inspector")
    assert inspector.locator("a").count() == 0
    assert inspector.locator(".katex-error").count() == 0
    assert LATEX.split()[0].split("{")[0].strip("\\") in inspector.inner_text()


def test_latex_that_gives_orders_is_not_obeyed(opened) -> None:
    page = opened("orders")
    page.locator('#graph .node[data-key="gradient dJ/dh"]').click()
    calm(page)
    assert r"\href" in page.locator("#inspector .katex-html").first.inner_text()
    for row in range(0, page.locator("#outline-tree [data-value-id]").count(), 3):
        page.locator("#outline-tree [data-value-id]").nth(row).click()
        calm(page)
        assert page.locator("a, img").count() == 0
        assert page.locator("#graph").count() == 1
