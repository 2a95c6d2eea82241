"""Turns the Markdown of the repository into the pages of the site, each with links that lead there.

On GitHub a page may link to any file.  The site has the pages of docs/, the README, CONTRIBUTING,
the READMEs of folders, and, as pages of their own, every other file that one of these links to.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r'(?P<open>\]\(|\b(?:src|href)=")(?P<target>[^)"#\s]+)(?P<anchor>#[^)"\s]*)?')
FENCE = re.compile(r"^(?P<mark>`{3,})[^\n]*\n.*?^(?P=mark)`*[ ]*$", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<file>[^)\s]+\.svg)\)")
IMAGE = re.compile(r'<img alt="(?P<alt>[^"]*)" src="(?P<file>[^"]+\.svg)"[^>]*>')
ITEM = re.compile(r"(?P<indent> *)(?:[*-]|\d+\.) ")
DARK = re.compile(r"@media \(prefers-color-scheme: ?dark\)\{")
LANGUAGES = {".py": "python", ".toml": "toml", ".mjs": "javascript", ".js": "javascript"}
SOURCE_PAGE = (
    "---\ntitle: {name}\nsearch:\n  exclude: true\n---\n\n# `{path}`\n\n{fence}{language} "
)
SOURCE_PAGE += 'linenums="1"\n{text}{fence}\n'


@dataclass(frozen=True)
class Page:
    """A Markdown file of the repository, and where the site has it (relative to its pages)."""

    source: Path
    place: Path


def place_of(source: Path) -> Path:
    """Where the site has a file of the repository: docs/ is its root, all else below source/.

    The README is where the site begins; the index of docs/ lists its pages.
    """
    if source == ROOT / "README.md":
        return Path("index.md")
    if source == DOCS / "index.md":
        return Path("all-pages.md")
    if source.is_relative_to(DOCS):
        return source.relative_to(DOCS)
    inner = source.relative_to(ROOT)
    if source.suffix == ".md":
        named = "index.md" if source.name == "README.md" else source.name.lower()
        return Path("source") / inner.parent / named
    return Path("source") / inner.parent / f"{inner.name}.md"


def stage(pages: Iterable[Path], target: Path) -> list[Page]:
    """Writes the pages, what they link to in turn, and their pictures; returns what was written.

    Raises FileNotFoundError for a link that leads nowhere.
    """
    waiting = list(pages)
    seen: dict[Path, Page] = {}
    while waiting:
        source = waiting.pop()
        if source in seen:
            continue
        seen[source] = Page(source, place_of(source))
        text = source.read_text(encoding="utf-8")
        if source.suffix == ".md":
            text, linked = _rewritten(text, source, target)
            waiting += linked
        else:
            text = _as_page(source, text)
        written = target / seen[source].place
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(text, encoding="utf-8")
    return list(seen.values())


def _as_page(source: Path, text: str) -> str:
    """A file that is no Markdown as a page with numbered lines, which the search leaves out."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return SOURCE_PAGE.format(
        name=source.name,
        path=source.relative_to(ROOT).as_posix(),
        fence="`" * max(3, longest + 1),
        language=LANGUAGES.get(source.suffix, "text"),
        text=text if text.endswith("\n") else text + "\n",
    )


def _rewritten(text: str, source: Path, target: Path) -> tuple[str, list[Path]]:
    """The text as the site needs it, and the files whose pages it links to."""
    linked: list[Path] = []
    parts, begin = [], 0
    for fence in FENCE.finditer(text):
        parts += [_prose(text[begin : fence.start()], source, target, linked), fence[0]]
        begin = fence.end()
    parts.append(_prose(text[begin:], source, target, linked))
    return "".join(parts).replace("```python no-run", "```python"), linked


def _prose(text: str, source: Path, target: Path, linked: list[Path]) -> str:
    """Text between fenced blocks: pictures for light and dark, links of the site, its lists."""

    def both(match: re.Match[str]) -> str:
        file, alt = Path(match["file"]), match["alt"]
        dark = file.with_suffix(".dark.svg").as_posix()
        light = f"![{alt}]({file.as_posix()}#only-light){{ loading=lazy }}"
        return f"{light}![{alt}]({dark}#only-dark){{ loading=lazy }}"

    def link(match: re.Match[str]) -> str:
        name = match["target"]
        if ":" in name:
            return match[0]
        place = _placed(source, name, target, linked)
        return f"{match['open']}{place}{match['anchor'] or ''}"

    text = PICTURE.sub(both, IMAGE.sub(both, text))
    text = text.replace("<details>", '<details markdown="1">')
    text = text.replace("<!-- cells -->", '<div class="cr-cells"></div>')  # its Python can be run
    return LINK.sub(link, _with_python_markdown_lists(text))


def _placed(source: Path, name: str, target: Path, linked: list[Path]) -> str:
    """What a page of the site calls the file that `source` links to as `name`."""
    is_dark = name.endswith(".dark.svg")
    file = Path(os.path.normpath(source.parent / name.replace(".dark.svg", ".svg")))
    if file.is_dir():
        file = file / "README.md"
    if not file.exists():
        raise FileNotFoundError(f"{source.relative_to(ROOT)} links to {name}, which is not there")
    if file.suffix in {".svg", ".png"}:
        place = file.relative_to(DOCS).with_suffix(".dark.svg" if is_dark else file.suffix)
        copy_picture(file, target / place, is_dark=is_dark)
    else:
        place = place_of(file)
        linked.append(file)
    return Path(os.path.relpath(place, place_of(source).parent)).as_posix()


def copy_picture(file: Path, copy: Path, *, is_dark: bool) -> None:
    """A picture for one colour scheme: an SVG's rules for dark displays hold always, or never.

    The reader chooses the scheme on the page, and an SVG in an `<img>` only knows the system's.
    """
    copy.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix != ".svg":
        shutil.copyfile(file, copy)
        return
    copy.write_text(in_one_scheme(file.read_text(encoding="utf-8"), is_dark), encoding="utf-8")


def in_one_scheme(svg: str, is_dark: bool) -> str:
    """An SVG whose rules for dark displays hold always (`is_dark`), or never."""
    found = DARK.search(svg)
    if found is None:
        return svg
    depth, end = 1, found.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(svg[end], 0)
        end += 1
    rules = svg[found.end() : end - 1] if is_dark else ""
    return svg[: found.start()] + rules + svg[end:]


def _with_python_markdown_lists(text: str) -> str:
    """Lists as Python-Markdown reads them: after an empty line, and nested by four blanks."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        item = ITEM.match(line)
        blank = not line.strip()
        if item and not item["indent"] and not inside and lines and lines[-1].strip():
            lines.append("\n")
        indent = len(line) - len(line.lstrip(" "))
        inside = bool(item) or (inside and (blank or indent > 0))
        if inside and 0 < indent < 4:
            line = "    " + line.lstrip(" ")
        lines.append(line)
    return "".join(lines)
