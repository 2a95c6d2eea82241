"""Installs what the tests in tests/browser drive: Chromium, Firefox, Playwright and axe-core.

    .venv-test/bin/python scripts/browsers.py

Browsers come from Debian's or Ubuntu's packages, where this is run by root; Playwright, which
drives the browser that is there and brings none, is installed for the Python that runs this; and
axe-core (npm, MPL-2.0, for the tests alone) goes into .browser-test.  What cannot be installed is
named, and the exit status is 1; the tests that need it are then skipped.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from npm import Package, files_of

ROOT = Path(__file__).resolve().parents[1]
# Of each the first that the distribution has.  The headless shell is Chromium, twice as quick.
BROWSERS = (("chromium-headless-shell", "chromium"), ("firefox-esr", "firefox"))
INSTALL = ("--yes", "--quiet", "--no-install-recommends")
AXE = Package(
    "axe-core",
    "4.14.1",
    "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
)
AXE_FOLDER = ROOT / ".browser-test"


def main() -> int:
    """0 where all is there at the end."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    parts = {"browsers": install_browsers, "playwright": install_playwright, "axe-core": fetch_axe}
    status = 0
    for name, install in parts.items():
        missing = install()
        print(f"{name}: {missing or 'there'}", flush=True)
        status = 1 if missing else status
    return status


def install_browsers() -> str:
    """Has apt install the browsers that are missing; what remains to be done, or ''."""
    wanted = [names for names in BROWSERS if shutil.which(names[0]) is None]
    if not wanted:
        return ""
    if shutil.which("apt-get") is not None and os.geteuid() == 0:
        _apt("update", "--quiet")
        for names in wanted:
            any(_apt("install", *INSTALL, name) for name in names)
    missing = [names for names in BROWSERS if not any(map(shutil.which, names))]
    commands = (f"apt-get install {' or '.join(names)}" for names in missing)
    return f"missing; as root: {'; '.join(commands)}" if missing else ""


def _apt(*arguments: str) -> bool:
    """Whether apt-get did it."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(["apt-get", *arguments], env=quiet, check=False).returncode == 0


def install_playwright() -> str:
    """Has pip install the extra `browser`; what remains to be done, or ''."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["optional-dependencies"]["browser"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *wanted]
    done = subprocess.run(command, check=False)
    return "" if done.returncode == 0 else f"failed: {' '.join(command)}"


def fetch_axe() -> str:
    """Fetches axe-core, if it is not there; what went wrong, or ''."""
    target = AXE_FOLDER / f"axe-{AXE.version}.min.js"
    if target.exists():
        return ""
    try:
        content = files_of(AXE)["axe.min.js"]
    except OSError as error:
        return f"failed: {AXE.url}: {error}"
    AXE_FOLDER.mkdir(exist_ok=True)
    target.write_bytes(content)
    return ""


if __name__ == "__main__":
    sys.exit(main())
