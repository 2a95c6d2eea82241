"""Makes, and uses again, the virtual environment in which a script of this folder does its work.

Only the standard library, and syntax that an old Python can read well enough to say what is wrong.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)


def require_python():
    """Ends the program with advice where the running Python is too old for the package."""
    if sys.version_info < OLDEST:
        found = ".".join(str(part) for part in sys.version_info[:3])
        needed = ".".join(str(part) for part in OLDEST)
        raise SystemExit(
            f"chainrule needs Python {needed} or newer, and {sys.executable} is {found}.\n"
            f"Start this script with a newer one, for example: python{needed} {sys.argv[0]}"
        )


def python_in(folder):
    """The Python of the virtual environment `folder`, as a path."""
    return ROOT / folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def prepare(folder, extras="", python=sys.executable):
    """The Python of the virtual environment `folder`, with this package and `extras` installed.

    `folder` is relative to the repository; the package is installed in place (editable).  What is
    there is used again as long as `pyproject.toml` and `python` are the same; an environment that
    somebody else made in `folder` is kept, and only installed into.
    """
    place = ROOT / folder
    inner = python_in(folder)
    stamp = place / "chainrule-installed.txt"
    wanted = f"{python}\n{extras}\n{_sha256(ROOT / 'pyproject.toml')}\n"
    found = stamp.read_text(encoding="utf-8") if stamp.exists() else ""
    if found == wanted and _runs(inner):
        return inner
    other_python = found != "" and found.splitlines()[0] != python
    if other_python or not _runs(inner):
        print(f"making the virtual environment {folder} with {python}", flush=True)
        _call(
            [python, "-m", "venv", "--clear", str(place)],
            "On Debian and Ubuntu, Python's venv is a package of its own: apt install python3-venv",
        )
    print(f"installing chainrule{extras} into {folder}", flush=True)
    pip_install = [str(inner), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _call(  # bytecode is made of what is imported, then: a third of what there is
        [*pip_install, "--no-compile", "--editable", f".{extras}"],
        "pip's message is above. The first call needs a connection to the Python Package Index.",
    )
    stamp.write_text(wanted, encoding="utf-8")
    return inner


def _runs(python):
    return python.exists() and subprocess.run([str(python), "-c", ""], check=False).returncode == 0


def _call(command, advice):
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise SystemExit(f"failed: {' '.join(command)}\n{advice}")


def _sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()
