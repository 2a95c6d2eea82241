"""Puts bytecode beside the Python for the browser, which would else compile it at each start.

Pyodide itself makes it, under Node: bytecode is that of one version of Python.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = 300
STANDARD, SITE = "python312.zip/", "python3.12/site-packages/"
NAMED = ".cpython-312.pyc"
# Where a message may show a line of them.
SHOWN = ("chainrule/", "explaining.py", "catalogue.py", "optree.py")


def add(folder: Path, programs: Path) -> None:
    """Adds to the archives in `folder` the bytecode of what explaining `programs` loads.

    Without Node they stay as they are: Python then takes twice as long to start.
    """
    node = shutil.which("node")
    if node is None:
        print("there is no node (https://nodejs.org): no bytecode, so the playground starts later")
        return
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "bytecode.zip")
        command = [node, HERE / "bytecode.mjs", folder, HERE / "compiling.py", programs, out]
        subprocess.run(command, check=True, timeout=SECONDS)
        with zipfile.ZipFile(out) as archive:
            made = {name: archive.read(name) for name in archive.namelist()}
    for name, place in (("python_stdlib.zip", STANDARD), ("packages.zip", SITE)):
        own = {one.removeprefix(place): made[one] for one in made if one.startswith(place)}
        _write(folder / name, own)


def _write(path: Path, bytecode: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path) as archive:
        before = [(one, archive.read(one)) for one in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for information, content in before:
            for name, data in files(information.filename, content, bytecode):
                entry = zipfile.ZipInfo(name, information.date_time)
                entry.compress_type = zipfile.ZIP_DEFLATED
                out.writestr(entry, data)


def files(name: str, content: bytes, bytecode: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """What an archive has of a file: itself, and its bytecode where there is some.

    Bytecode takes the place of a source that nobody is shown.
    """
    if name not in bytecode:
        return [(name, content)]
    if not name.startswith(SHOWN):
        return [(f"{name}c", bytecode[name])]
    folder, _, file = name.rpartition("/")
    cached = f"{folder}/__pycache__/" if folder else "__pycache__/"
    return [(name, content), (cached + file.removesuffix(".py") + NAMED, bytecode[name])]
