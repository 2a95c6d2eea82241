"""Writes docs/screenshots: the pages that docs/report.md and docs/memory-budget.md make.

    python scripts/make_screenshots.py

scripts/browsers.py installs what is needed.  Fonts are those of the machine, so the bytes are too.
"""

import contextlib
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "docs"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "browser"))
from browser_options import ARGUMENTS, find_chromium
from pages import ROOT, run_page

FOLDER = ROOT / "docs" / "screenshots"
BUDGET = "#tab=budget&budget=33000000&open=scope+0+from+0"
# Name, the page and its file, colours, what the address says.
SCREENSHOTS = [
    ("report_page.png", "report.md", "report.html", "light", "#value=dJ%2Fdh"),
    ("report_page_dark.png", "report.md", "report.html", "dark", "#step=9&value=h"),
    ("report_page_budget.png", "memory-budget.md", "budgets.html", "light", BUDGET),
]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), sync_playwright() as p:
        for made_by in dict.fromkeys(one for _, one, *_ in SCREENSHOTS):
            run_page(ROOT / "docs" / made_by)
        browser = p.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        for name, _, file, colours, address in SCREENSHOTS:
            page = browser.new_page(viewport={"width": 1200, "height": 780}, color_scheme=colours)
            page.goto(Path(file).resolve().as_uri() + address)
            page.wait_for_selector("html[data-ready=true]", state="attached")
            page.wait_for_timeout(500)
            page.screenshot(path=FOLDER / name)
            print(f"{FOLDER / name}: {(FOLDER / name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
