"""Every page of the documentation is in the site, links lead there, pictures have two forms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from navigation import Entry, sections
from staging import DOCS, ROOT, in_one_scheme, place_of, stage

LINK = re.compile(r'(?:\]\(|\b(?:src|href)=")(?!https?:|mailto:)([^)"#\s]+)')
FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1", re.MULTILINE | re.DOTALL)
OF_THE_SITE = {"playground.md", "reports.md"}


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    stage([DOCS / "index.md", *DOCS.rglob("*.md")], folder)
    return folder


@pytest.mark.slow
def test_every_link_of_every_page_leads_to_a_page_of_the_site(staged: Path) -> None:
    pages = list(staged.rglob("*.md"))
    assert len(pages) > 100
    for page in pages:
        for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            assert (page.parent / target).exists(), f"{page.relative_to(staged)}: {target}"


def places(entries: tuple[Entry, ...] | list[Entry]) -> set[str]:
    found = {entry.place for entry in entries if entry.place}
    return found.union(*(places(entry.entries) for entry in entries))


def test_the_navigation_has_every_page_of_docs() -> None:
    have = places(sections()) - OF_THE_SITE
    assert have >= {place_of(page).as_posix() for page in DOCS.rglob("*.md")}
    assert all("\\" not in place for place in have)


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    page = DOCS / "index.md"
    text = page.read_text(encoding="utf-8").replace("](tutorial.md)", "](tutorail.md)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda self, encoding: text)
        with pytest.raises(FileNotFoundError, match=r"docs/index.md links to tutorail.md"):
            stage([page], tmp_path)


def test_a_source_file_is_a_page_with_its_text(tmp_path: Path) -> None:
    source = ROOT / "src/chainrule/transforms/prune.py"
    (page,) = stage([source], tmp_path)
    text = (tmp_path / page.place).read_text(encoding="utf-8")
    assert page.place.as_posix() == "source/src/chainrule/transforms/prune.py.md"
    assert source.read_text(encoding="utf-8") in text and "exclude: true" in text


def test_a_picture_is_light_or_dark_whatever_the_system_is() -> None:
    svg = (DOCS / "pictures" / "network.svg").read_text(encoding="utf-8")
    light, dark = in_one_scheme(svg, is_dark=False), in_one_scheme(svg, is_dark=True)
    assert "@media" not in light + dark
    assert len(light) < len(dark) < len(svg)
    assert in_one_scheme(light, is_dark=True) == light


def test_lists_are_those_of_github() -> None:
    page = DOCS / "README-lists.md"
    text = "Words\n* one\n  * inner\n\n  more\nend\n1. first\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda self, encoding: text)
        from staging import _rewritten

        found, _ = _rewritten(text, page, Path("unused"))
    assert found == "Words\n\n* one\n    * inner\n\n    more\nend\n\n1. first\n"
