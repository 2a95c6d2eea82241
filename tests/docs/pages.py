"""The blocks of a Markdown page, and its Python run as one file; `python tests/docs/pages.py`
writes what the blocks print into the pages, and the pictures that they save beside them."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import shutil
import sys
import tempfile
import types
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import numpy as np

from chainrule.execute import executors, overhead

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src" / "chainrule").rglob("*.md")),
]
FENCED = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\((?!https?:)(?P<target>[^)\s]+)\)")
NEEDS = re.compile(r"^<!-- needs: (?P<packages>[\w ]+) -->$", re.MULTILINE)
REASON = re.compile(r"<!-- not run: .{10,}? -->\n\Z")


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string (`python`, `python no-run`, `text`, `sh`, ...), its text and
    the span of the text in the page; `before` is what stands between it and the block above."""

    info: str
    text: str
    start: int
    end: int
    before: str

    @property
    def is_run(self) -> bool:
        """Whether the block is Python that the page promises to work."""
        return self.info == "python"

    @property
    def follows_directly(self) -> bool:
        """Whether only blank lines separate it from the block above."""
        return not self.before.strip()


@dataclass(frozen=True)
class Ran:
    """A Python block that was run: what it printed, and the block that promises what it prints."""

    block: Block
    printed: str
    promise: Block | None


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found = []
    above = 0
    for match in FENCED.finditer(text):
        found.append(
            Block(
                match["info"].strip(),
                match["text"],
                match.start("text"),
                match.end("text"),
                text[above : match.start()],
            )
        )
        above = match.end()
    return found


def needed(page: Path) -> list[str]:
    """The optional packages without which the programs of a page cannot run."""
    found = NEEDS.search(page.read_text(encoding="utf-8"))
    return found["packages"].split() if found else []


def run_page(page: Path) -> list[Ran]:
    """Run the Python blocks of a page, in order and in one namespace.

    They are run as one file that has the page's name, so that messages show the lines that a
    reader has who copied all blocks into `tutorial.py`.  Executors that a page registers are gone
    afterwards.
    """
    two = patch.object(overhead, "blas_threads", lambda: 2)  # as the pages show it
    with np.printoptions(), patch.dict(executors._registered), two:
        return _run_blocks(page)


def _run_blocks(page: Path) -> list[Ran]:
    found = blocks(page.read_text(encoding="utf-8"))
    name = f"{page.stem.lower()}.py"
    module = types.ModuleType(page.stem.lower())
    source = ""
    ran = []
    for index, block in enumerate(found):
        if not block.is_run:
            continue
        padding = "\n" * source.count("\n")
        source += block.text + "\n"
        lines = source.splitlines(keepends=True)
        linecache.cache[name] = (len(source), None, lines, name)
        code = compile(padding + block.text, name, "exec", dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, vars(module))
        after = found[index + 1] if index + 1 < len(found) else None
        promised = after is not None and after.info == "text" and after.follows_directly
        ran.append(Ran(block, printed.getvalue(), after if promised else None))
    return ran


def stripped(text: str) -> str:
    """The text without blanks at the ends of its lines."""
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def pictures(page: Path) -> list[Path]:
    """The images that the page shows.  The page saves each under its name in the current folder."""
    text = page.read_text(encoding="utf-8")
    return [page.parent / match["target"] for match in IMAGE.finditer(text)]


def write_outputs(page: Path) -> None:
    """Put what each block printed into the text block after it, and pictures in their places.

    A page whose packages are not installed stays as it is.
    """
    missing = [package for package in needed(page) if find_spec(package) is None]
    if missing:
        print(f"left as it is, without {', '.join(missing)}: {page.name}")
        return
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for ran in reversed(run_page(page)):
            if ran.promise is not None:
                text = text[: ran.promise.start] + stripped(ran.printed) + text[ran.promise.end :]
        for picture in pictures(page):
            picture.parent.mkdir(exist_ok=True)
            shutil.copyfile(picture.name, picture)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for chosen in [Path(name) for name in sys.argv[1:]] or PAGES:
        write_outputs(chosen.resolve())
