"""Everything in the documentation that looks like a program runs, and prints what it says."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pages import PAGES, REASON, ROOT, Block, blocks, needed, pictures, run_page, stripped

from chainrule.cli import main
from chainrule.machine_code.target import host_target, native_refusal

EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:|#|mailto:)(?P<target>[^)#\s]+)(?:#[^)\s]*)?\)")
LONG = {"devices.md", "memory-budget.md"}  # pages that take seconds
LANES = " 16 lanes"
WORDS = {
    "git",
    "cd",
    "pip",
    "ruff",
    "pyrefly",
    "mpiexec",
}  # commands that need not be installed here


def has_avx512() -> bool:
    """Whether native code for this machine would use AVX-512."""
    return native_refusal() is None and host_target().has_avx512


def marked(page: Path) -> Any:
    """Slow pages, and those that need an optional package, which `peers` are run with."""
    marks = [pytest.mark.slow] if page.name in LONG else []
    marks += [pytest.mark.peers] if needed(page) else []
    return pytest.param(page, marks=marks)


@pytest.mark.parametrize(
    "page",
    [marked(page) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_python_block_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in needed(page):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHAINRULE_EXECUTOR", raising=False)  # as readers have it
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", "2")  # plans are shown for two
    for ran in run_page(page):
        if ran.promise is not None and LANES in ran.promise.text and not has_avx512():
            continue  # a plan is that of the machine, and shown for one with AVX-512
        if ran.promise is None:
            assert ran.printed == "", (
                f"{page.name} does not show what this prints:\n{ran.block.text}"
            )
        else:
            assert stripped(ran.printed) == stripped(ran.promise.text)
    for picture in pictures(page):
        made = tmp_path / picture.name
        assert made.exists(), f"{page.name} shows {picture.name} and does not save it"
        assert made.read_bytes() == picture.read_bytes(), f"{picture.name} is not what it makes now"


def test_every_picture_is_shown_by_a_page() -> None:
    shown = {picture.resolve() for page in PAGES for picture in pictures(page)}
    assert set((ROOT / "docs" / "pictures").iterdir()) == shown


@EVERY_PAGE
def test_python_that_is_not_run_has_a_reason(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.info.startswith("python") and not block.is_run:
            assert block.info == "python no-run", f"{page.name}: ```{block.info}"
            assert REASON.search(block.before), f"{page.name}: no reason before:\n{block.text}"


@pytest.mark.filterwarnings("ignore:Setuptools is replacing distutils:UserWarning")  # by torch
@EVERY_PAGE
def test_every_shell_command_exists(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        assert block.info not in {"bash", "shell", "console"}, "commands are fenced ```sh"
        if block.info == "sh":
            for words in commands(block):
                assert problem(words) is None, f"{page.name}: {shlex.join(words)}: {problem(words)}"


@EVERY_PAGE
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in reversed(blocks(text)):
        text = text[: block.start] + text[block.end :]
    for match in LINK.finditer(text):
        assert (page.parent / match["target"]).exists(), f"{page.name} links to {match['target']}"


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / match["target"]).resolve() for match in LINK.finditer(index)}
    pages = {path for path in PAGES if path.parent.name in {"docs", "decisions"}}
    assert pages - linked == {ROOT / "docs" / "index.md"}


def commands(block: Block) -> list[list[str]]:
    """The words of each command of a shell block."""
    found = []
    for line in block.text.replace("\\\n", " ").splitlines():
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), "&&"]:
            if word in {"&&", "||", "|", ";"}:
                found += [words] if words else []
                words = []
            else:
                words.append(word)
    return found


def problem(words: list[str]) -> str | None:
    """Why a command cannot work, or None."""
    command, rest = Path(words[0]).name, words[1:]
    if command == "chainrule":
        return unknown_options(rest)
    if command.startswith("python") or command == "bash":
        if rest[:1] == ["-m"]:
            return None if importlib.util.find_spec(rest[1]) else f"no module {rest[1]}"
        if rest[0] == "scripts/demo.py":  # its options are those of `chainrule train`
            return unknown_options(["train", *rest[1:]])
        return None if (ROOT / rest[0]).is_file() else f"no file {rest[0]}"
    return None if command in WORDS or shutil.which(command) else f"no command {command}"


def unknown_options(words: list[str]) -> str | None:
    """What `chainrule SUBCOMMAND --help` does not know of a command."""
    names = [word for word in words if not word.startswith("-")][:1]
    status, text = help_of(*names)
    if status != 0:
        return f"`chainrule {' '.join(names)} --help` ends with {status}"
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    missing = {option for option in options if not re.search(rf"(?<!\S){option}\b", text)}
    return f"unknown {', '.join(sorted(missing))}" if missing else None


@cache
def help_of(*names: str) -> tuple[int, str]:
    """The exit status and the text of `chainrule NAMES --help`."""
    done = CliRunner().invoke(main, [*names, "--help"])
    return done.exit_code, done.stdout


# Faults planted in the checks themselves ------------------------------------------------------


def page_with(tmp_path: Path, text: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def test_a_block_that_prints_something_else_is_found(tmp_path: Path) -> None:
    page = page_with(tmp_path, "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    (ran,) = run_page(page)
    assert ran.promise is not None and stripped(ran.printed) != stripped(ran.promise.text)


def test_a_text_block_after_other_words_is_no_promise(tmp_path: Path) -> None:
    page = page_with(tmp_path, "```python\nprint(2)\n```\nAnd then:\n```text\n3\n```\n")
    assert [ran.promise for ran in run_page(page)] == [None]


@pytest.mark.parametrize(
    "line",
    [
        "chainrule tarin",
        "chainrule train --epohcs 3",
        "python3 scripts/demo.py --epohcs 3",
        "python3 scripts/tset.py",
        "cd x && bash .ci/rnu",
        "python -m chainrulez",
        "chianrule train",
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    assert any(problem(words) for words in commands(Block("sh", line, 0, 0, "")))
