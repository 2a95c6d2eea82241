"""How large report pages are, how soon they are there, and how smoothly they move, in Chromium.

    python benchmarks/report_page.py [--runs 5] [--pages mlp large]

The pages are those of tests/browser/report_pages.py; scripts/browsers.py installs what is needed.
Every start is that of a new browser with an empty profile: the seconds from the beginning of the
navigation to the first frame after which the page is drawn, and listens.  Frames a second are
counted while the mouse drags the graph about, then while its wheel zooms; and again with scopes
unfolded.  Aims: the network under 1.5 MB and 1 s, 20,000 nodes under 1 s, at least 50 frames a
second.
"""

import argparse
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "browser"))
from browser_options import ARGUMENTS, find_chromium
from report_pages import PAGES

MOVES = 120
UNFOLDED = 4  # scopes, one inside the other
COUNT_FRAMES = """() => {
  window.frames_seen = [];
  const count = (now) => { window.frames_seen.push(now); requestAnimationFrame(count); };
  requestAnimationFrame(count);
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="browsers to start [5]")
    parser.add_argument("--pages", nargs="+", default=["mlp", "large"], choices=sorted(PAGES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        for name in options.pages:
            path = Path(folder) / f"{name}.html"
            begin = time.perf_counter()
            report = PAGES[name]()
            middle = time.perf_counter()
            report.save(path)
            end = time.perf_counter()
            print(f"{name}: {path.stat().st_size / 1e6:.2f} MB", end="")
            print(f", data in {middle - begin:.2f} s, file in {end - middle:.2f} s", flush=True)
            ready = sorted(start_of(playwright, path) for _ in range(options.runs))
            print(f"  ready in {statistics.median(ready):.2f} s", end="")
            print(f" (median of {len(ready)}, {ready[0]:.2f} to {ready[-1]:.2f})", flush=True)
            for what, rate, longest in motion_of(playwright, path):
                print(f"  {what}: {rate:.0f} frames/s, longest {longest:.0f} ms", flush=True)


def browser_of(playwright):
    program = find_chromium()
    return playwright.chromium.launch(executable_path=program, args=ARGUMENTS)


def start_of(playwright, path: Path) -> float:
    """Seconds from the beginning of the navigation to the mark that `boot.js` sets."""
    browser = browser_of(playwright)
    try:
        page = opened(browser, path)
        return page.evaluate("performance.getEntriesByName('ready')[0].startTime") / 1000
    finally:
        browser.close()


def opened(browser, path: Path):
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=true]", state="attached", timeout=60_000)
    return page


def motion_of(playwright, path: Path) -> list[tuple[str, float, float]]:
    """Frames a second, and the longest time between two, while the graph is dragged and zoomed."""
    browser = browser_of(playwright)
    try:
        page = opened(browser, path)
        page.evaluate(COUNT_FRAMES)
        found = moved(page, "as it opens")
        for _ in range(UNFOLDED):
            closed = page.locator("#outline-tree [aria-expanded=false] .twisty")
            if closed.count():
                closed.first.click()
                page.wait_for_timeout(200)
        page.locator("#fit").click()
        page.wait_for_timeout(1000)
        boxes = page.locator("#graph .node").count()
        return found + moved(page, f"unfolded, {boxes} boxes in sight")
    finally:
        browser.close()


def moved(page, what: str) -> list[tuple[str, float, float]]:
    """Drag and zoom once."""
    box = page.locator("#graph").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    found = []
    page.mouse.move(x, y)
    rate_of(page)
    page.mouse.down()
    for move in range(MOVES):
        page.mouse.move(x + 200 * ((move % 40) / 20 - 1), y + 80 * ((move % 30) / 15 - 1))
    page.mouse.up()
    found.append((f"{what}, dragged", *rate_of(page)))
    for move in range(MOVES):
        page.mouse.wheel(0, -60 if move % 20 < 12 else 60)
    found.append((f"{what}, zoomed", *rate_of(page)))
    return found


def rate_of(page) -> tuple[float, float]:
    """Of the frames since it was asked last."""
    times = page.evaluate("() => window.frames_seen.splice(0)")
    if len(times) < 2:
        return 0.0, 0.0
    gaps = [after - before for before, after in pairwise(times)]
    return 1000 * len(gaps) / (times[-1] - times[0]), max(gaps)


if __name__ == "__main__":
    main()
