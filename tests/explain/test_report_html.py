"""The page as a file: everything inside, nothing from elsewhere, no text that becomes markup."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from chainrule.explain.report import html
from chainrule.explain.report.assets import Assets

DATA = {"schema": "chainrule.report/1", "title": "objective", "values": [{"name": "</script>"}]}
SMALL = Assets(
    skeleton='<main id="page"></main>',
    styles="main { color: red; }",
    libraries=("var katex = 1 < 2 && '\\u{1F600}é';", "var uPlot = 2;"),
    program="document.title;",
    licences="KaTeX\n",
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages with little inside; what real ones have is looked at elsewhere."""
    monkeypatch.setattr(html, "assets", lambda: SMALL)


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of scripts, styles and title."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = []
        self.found.append((tag, dict(attrs), self.inside))

    def handle_endtag(self, tag: str) -> None:
        self.inside = []

    def handle_data(self, data: str) -> None:
        self.inside.append(data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, "".join(text)) for name, attrs, text in self.found if name == tag]


def unpacked(page: str) -> Any:
    (text,) = [text for attrs, text in Elements(page).all("script") if attrs.get("id") == "data"]
    return json.loads(gzip.decompress(base64.b64decode(text, validate=True)))


def test_the_data_come_back_as_they_were() -> None:
    strange = {**DATA, "notes": ["\ud800 lone, \0, é, \U0001f600, </SCRIPT><!--", 1e-300, None]}
    assert unpacked(html.page_html(strange)) == strange


def test_the_same_data_give_the_same_page() -> None:
    assert html.page_html(DATA) == html.page_html(json.loads(json.dumps(DATA)))
    header = base64.b64decode(html.packed(DATA))[:8]
    assert header[4:8] == bytes(4), "no time in it"


def test_numbers_that_json_has_not_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        html.page_html({**DATA, "bad": float("nan")})


def test_the_title_is_text() -> None:
    title = "</title><script>alert(1)</script> & \"'\x00\udc80\n"
    elements = Elements(html.page_html({**DATA, "title": title}))
    ((_, shown),) = elements.all("title")
    assert shown == "</title><script>alert(1)</script> & \"'\\x00\\udc80\\n"
    assert len(elements.all("script")) == 4
    html.page_html({**DATA, "title": title}).encode()


def test_the_policy_allows_the_scripts_inside_and_nothing_else() -> None:
    elements = Elements(html.page_html(DATA))
    metas = [attrs for attrs, _ in elements.all("meta")]
    (policy,) = [one["content"] for one in metas if "http-equiv" in one]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    scripts = [text for attrs, text in elements.all("script") if attrs.get("id") != "data"]
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert len(hashes) == 3
    assert rules.pop("script-src").split() == [f"'sha256-{one}'" for one in hashes]
    assert rules == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "font-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = html.page_html(DATA)
    for _, attrs, _ in Elements(page).found:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert (attrs.get(name) or "data:").startswith("data:")
    assert not re.search(r"url\((?!data:)|@import", page)


def test_a_browser_without_scripts_is_told() -> None:
    page = html.page_html(DATA)
    assert f"<noscript><p>{html.SENTENCE}</p></noscript>" in page
    assert page.startswith('<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n')
