"""What is in every report page: modules in order, libraries as they were fetched, little of it."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from chainrule.explain.drawing.palette import LINES
from chainrule.explain.report.assets import STYLES, assembled, assets

HERE = Path(str(files("chainrule.explain.report")))
VENDOR, PAGE = HERE / "vendor", HERE / "page"
MANIFEST = json.loads((VENDOR / "manifest.json").read_text("utf-8"))
MOST_NBYTES = 900_000  # of what every page has inside: two thirds are KaTeX, its fonts and uPlot

DIAMOND = {
    "boot.js": 'import { start } from "./page.js";\nstart();\n',
    "page.js": 'import { left } from "./left.js";\nimport { right, more } from "./right.js";\n'
    "export async function start() {\n  left(right);\n}\n",
    "left.js": 'import { base } from "./base.js";\nexport function left() {}\nconst own = base;\n',
    "right.js": 'import { base } from "./base.js";\nexport const right = 1;\n'
    "export class more {}\n",
    "base.js": "// export is a word here\nexport const base = 3;\n",
    "alone.js": "export const alone = 1;\n",
}


def program(**changed: str) -> str:
    modules = DIAMOND | {f"{name}.js": text for name, text in changed.items()}
    return assembled(modules.__getitem__)


def refused(**changed: str) -> str:
    with pytest.raises(AssertionError) as caught:
        program(**changed)
    return str(caught.value)


def test_modules_come_after_those_they_import_and_once() -> None:
    text = program()
    names = re.findall(r"^// (\w+\.js)$", text, re.MULTILINE)
    assert names == ["base.js", "left.js", "right.js", "page.js", "boot.js"]
    assert "import" not in text and text.count("export") == text.count("// export is a word") == 1
    assert "async function start() {\n  left(right);\n}" in text
    assert "class more {}" in text and "const base = 3;" in text


def test_the_order_is_always_the_same() -> None:
    assert program() == program()


def test_a_cycle_is_an_error_that_names_it() -> None:
    text = refused(base='import { left } from "./left.js";\nexport const base = 3;\n')
    assert text.startswith("modules import each other: ")
    assert "base.js -> left.js -> base.js" in text or "left.js -> base.js -> left.js" in text


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ('import start from "./page.js";', "boot.js:1: this import has another form"),
        ('import { start as go } from "./page.js";', "boot.js:1: this import has another form"),
        ('import * as page from "./page.js";', "this import has another form"),
        ('import { start } from "https://x.org/page.js";', "this import has another form"),
        ("import { start }\n", "this import has another form"),
        ("export default 3;", "boot.js:1: this export has another form"),
        ("export { a };", "this export has another form"),
        (
            'import { stop } from "./page.js";',
            "boot.js imports stop, which page.js does not export",
        ),
        ('import { own } from "./left.js";', "boot.js imports own, which left.js does not export"),
        (
            'import { start } from "./page.js";\nconst own = 1;\n',
            "own is declared in boot.js and in left.js",
        ),
        ("const text = '</SCRIPT>';", "boot.js has '</SCRIPT'"),
        ("const text = '<!--';", "boot.js has '<!--'"),
        ("const text = 1;\r\n", "boot.js has '\\r'"),
    ],
)
def test_modules_that_cannot_be_joined_are_errors(source: str, told: str) -> None:
    assert told in refused(boot=source)


def test_the_libraries_are_those_of_the_manifest() -> None:
    found = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.parent != VENDOR
    }
    assert found == MANIFEST["sha256"]
    versions = [(one["name"], one["version"]) for one in MANIFEST["packages"]]
    assert versions == [("katex", "0.19.1"), ("uplot", "1.6.32")]


def test_the_libraries_load_nothing() -> None:
    for path in VENDOR.rglob("*.css"):
        outside = re.findall(r"url\((?!data:font/woff2;base64,)[^)]*\)|@import", path.read_text())
        assert outside == []


def test_every_module_of_the_page_is_in_it() -> None:
    inside = set(re.findall(r"^// ([\w-]+\.js)$", assets().program, re.MULTILINE))
    assert inside == {path.name for path in PAGE.glob("*.js")}


def test_every_style_sheet_of_the_page_is_in_it() -> None:
    assert set(STYLES) == {path.name for path in PAGE.glob("*.css")}
    for name in STYLES:
        assert (PAGE / name).read_text("utf-8") in assets().styles


@pytest.mark.slow
def test_every_rule_is_about_something_that_the_page_makes() -> None:
    program = "\n".join(path.read_text("utf-8") for path in PAGE.glob("*.js"))
    lines = {f"{line}-{part}" for line in LINES for part in ("line", "head")}
    for name in STYLES:
        rules = re.sub(r"\{[^{}]*\}", "{}", (PAGE / name).read_text("utf-8"))
        for word in set(re.findall(r"[.#]([a-z][\w-]*)", rules)) - lines:
            made = re.search(rf"(?<![\w-]){word}(?![\w-])", program)
            assert made or word.startswith(("katex", "u-")), f"{name}: nothing makes {word}"


def test_colours_are_named_once() -> None:
    for name in STYLES:
        text = (PAGE / name).read_text("utf-8")
        if name != "colours.css":
            assert re.findall(r"#[0-9a-f]{3,8}\b|rgb\(", text) == [], name
    every = "".join((PAGE / name).read_text("utf-8") for name in STYLES)
    for variable in set(re.findall(r"^ *(--[\w-]+):", (PAGE / "colours.css").read_text(), re.M)):
        assert f"var({variable}" in every or variable in assets().program, variable


def test_the_same_part_of_every_page_is_small() -> None:
    parts = assets()
    texts = [parts.skeleton, parts.styles, *parts.libraries, parts.program, parts.licences]
    assert sum(len(text.encode()) for text in texts) < MOST_NBYTES
    assert "Khan Academy" in parts.licences and "Leon Sorokin" in parts.licences
