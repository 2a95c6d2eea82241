"""Refreshes src/chainrule/explain/report/vendor: KaTeX and uPlot, which report pages contain.

    python scripts/vendor.py

Needs a connection to the npm registry, and the standard library.  A new version: change its number
and its integrity below (`npm view katex@0.19.1 dist.integrity`), and run it.  Prints what changed;
the SHA-256 of every file goes into manifest.json, which a test compares.
"""

import base64
import hashlib
import json
import re
from pathlib import Path

from npm import Package, files_of

FOLDER = Path(__file__).resolve().parents[1] / "src/chainrule/explain/report/vendor"
KATEX = Package(
    "katex",
    "0.19.1",
    "sha512-jG8uKntjSEcm2EpQOh0XturpPuuC9r3Sq5HLHdsFdWZT27E672SF19QEi+of0/YeOy15lDgRhKvr5614uRrEfA==",
)
UPLOT = Package(
    "uplot",
    "1.6.32",
    "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
)
# What equations use: \mathbb, \mathcal, \mathbf, \mathit, \mathrm, bold symbols, and tall brackets.
FONTS = (
    "AMS-Regular",
    "Caligraphic-Regular",
    "Main-Bold",
    "Main-Italic",
    "Main-Regular",
    "Math-BoldItalic",
    "Math-Italic",
    "Size1-Regular",
    "Size2-Regular",
    "Size3-Regular",
    "Size4-Regular",
)
FACE = re.compile(r"@font-face\{[^}]*?url\((?P<file>fonts/KaTeX_(?P<name>[\w-]+)\.woff2)\)[^}]*\}")
SOURCES = re.compile(r"src:[^;}]*")


def main() -> None:
    """Writes the files and the manifest, and prints what became of each."""
    katex, uplot = files_of(KATEX), files_of(UPLOT)
    contents = {
        "katex/LICENSE": katex["LICENSE"],
        "katex/katex.min.js": katex["dist/katex.min.js"],
        "katex/katex.min.css": with_fonts(katex["dist/katex.min.css"].decode(), katex).encode(),
        "uplot/LICENSE": uplot["LICENSE"],
        "uplot/uPlot.iife.min.js": uplot["dist/uPlot.iife.min.js"],
        "uplot/uPlot.min.css": uplot["dist/uPlot.min.css"],
    }
    manifest = {
        "packages": [
            {"name": one.name, "version": one.version, "url": one.url, "integrity": one.integrity}
            for one in (KATEX, UPLOT)
        ],
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    contents["manifest.json"] = (json.dumps(manifest, indent=2) + "\n").encode()
    for name, content in contents.items():
        print(f"{name:25} {len(content):7} bytes  {write(FOLDER / name, content)}")
    for path in sorted(FOLDER.rglob("*")):
        name = path.relative_to(FOLDER).as_posix()
        if path.is_file() and name not in contents and path.suffix != ".md":
            print(f"{name:25} is not of these packages: remove it")


def with_fonts(css: str, files: dict[str, bytes]) -> str:
    """The style sheet with the fonts in FONTS in it as data: URIs, and without the other fonts."""
    found = set()

    def face(match: re.Match[str]) -> str:
        if match["name"] not in FONTS:
            return ""
        found.add(match["name"])
        data = base64.b64encode(files["dist/" + match["file"]]).decode()
        source = f'src:url(data:font/woff2;base64,{data}) format("woff2")'
        return SOURCES.sub(lambda _: source, match[0])

    result = FACE.sub(face, css)
    outside = re.search(r"url\((?!data:)[^)]*\)", result)
    if found != set(FONTS) or outside:
        raise SystemExit(
            f"katex.min.css is not as it was: fonts {sorted(set(FONTS) - found)} are missing, "
            f"and it still loads {outside and outside[0]}"
        )
    return result


def write(path: Path, content: bytes) -> str:
    """Writes a file, and says what became of it: new, changed, or the same."""
    before = path.read_bytes() if path.exists() else None
    if before == content:
        return "same"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return "new" if before is None else "changed"


if __name__ == "__main__":
    main()
