"""Builds the site: pages from the Markdown, reports of examples, the library in the browser.

    python website/build.py FOLDER

writes FOLDER/VERSION, a static site that fetches nothing from elsewhere, and beside it what the
chooser of versions reads (versions.json) and a page that leads to the newest.  scripts/website.py
makes the environment that this runs in, and serves the folder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import landmarks
import reports
import runtime
import vendored
from navigation import Entry, sections
from staging import DOCS, stage

HERE = Path(__file__).resolve().parent
LEAD = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={place}/index.html">
<title>chainrule</title>
<a href="{place}/index.html">chainrule {place}</a>
"""


def build(folder: Path) -> Path:
    """Writes the site of this version into `folder`, and returns where it begins."""
    name = version("chainrule")
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        with timed("pages"):
            stage([DOCS / "index.md", *DOCS.rglob("*.md")], work / "pages")
        with timed("reports"):
            reports.write(work / "pages")
        with timed("scripts"):
            write_assets(work / "pages" / "assets")
            shutil.copytree(HERE / "pages", work / "pages", dirs_exist_ok=True)
        (work / "zensical.toml").write_text(configuration(sections()), encoding="utf-8")
        with timed("Zensical"):
            run_zensical(work)
            landmarks.correct(work / "site")
        place = folder / name
        shutil.rmtree(place, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(work / "site", place)
    write_versions(folder, name)
    return place


def write_assets(target: Path) -> None:
    """Writes styles and scripts, the programs of the playground, and Python for the browser."""
    shutil.copytree(HERE / "assets", target)
    vendored.write(target / "vendored")
    programs = [asdict(program) | {"text": program.text} for program in reports.PROGRAMS]
    (target / "programs.json").write_text(json.dumps(programs), encoding="utf-8")
    try:
        runtime.write(target / "python", HERE / "browser", HERE / "programs")
    except runtime.Unavailable as problem:
        print(f"the playground and cells cannot run: NumPy for the browser: {problem}")


@contextmanager
def timed(part: str) -> Iterator[None]:
    """Says how long a part took."""
    begin = perf_counter()
    yield
    print(f"{part:12} {perf_counter() - begin:5.1f} s", flush=True)


def configuration(entries: list[Entry]) -> str:
    """zensical.toml with the navigation."""
    text = (HERE / "zensical.toml").read_text(encoding="utf-8")
    nav = ",\n  ".join(entry.as_toml() for entry in entries)
    return text.replace("[project]\n", f"[project]\nnav = [\n  {nav},\n]\n", 1)


def run_zensical(work: Path) -> None:
    """Makes `work`/site of `work`/pages; SystemExit with what Zensical said where it failed."""
    command = [sys.executable, "-m", "zensical", "build", "--clean"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not (work / "site" / "index.html").exists():
        raise SystemExit(f"Zensical failed:\n{done.stdout}{done.stderr}")
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "arning" in line]
    print(*complaints, sep="\n", end="\n" if complaints else "")


def write_versions(folder: Path, name: str) -> None:
    """The list that the chooser of versions reads, newest first, and the page that leads there."""
    found = [path.name for path in folder.iterdir() if (path / "sitemap.xml").exists()]
    numbers = sorted(found, key=lambda one: [int(part) for part in one.split(".")], reverse=True)
    data = [{"version": one, "title": one, "aliases": []} for one in numbers]
    (folder / "versions.json").write_text(json.dumps(data) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(LEAD.format(place=numbers[0]), encoding="utf-8")


if __name__ == "__main__":
    print(build(Path(sys.argv[1]).resolve()))
