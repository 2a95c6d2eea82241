"""How Chromium is started: without a sandbox of its own, and silent on the network."""

import shutil

# The headless shell opens pages in half the time; not every distribution has it.
PROGRAMS = ("chromium-headless-shell", "chromium")

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--no-wasm-tier-up",  # Pyodide is not opened for long enough
]


def find_chromium() -> str | None:
    """Where Chromium is."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)
