"""Fetches what the site's own scripts use, each file pinned by its hash: pan and zoom, an editor.

The editor is CodeMirror as its packages publish it: modules, which an import map leads to, so that
nothing has to be bundled.  A new version: `npm view NAME version dist.integrity`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts"))
from npm import Package, files_of  # noqa: E402

CACHE = ROOT / ".website" / "fetched"
PANZOOM = Package(
    "@panzoom/panzoom",
    "4.6.2",
    "sha512-Zn3B5/hwa6eYIPRSKX0xf2clv8nviTX8AnAU5kU/EugiTDhG41ya2wlBqYrZJYCWQROr/5XkWObZhIkepi89qw==",
)
# The file of each package that its name stands for when it is imported.
EDITOR = {
    Package(
        "@codemirror/state",
        "6.7.6",
        "sha512-kAz+AncRtKuIknedxT1bq4XwXv4UowhbkHU1myPrtVb/jZtImWuV5BXzv5vK6i3kYACsdiZiQKFQQ5Mq7elW8w==",
    ): "dist/index.js",
    Package(
        "@codemirror/view",
        "6.43.15",
        "sha512-HHsfpqFeHyXLs983pSRe38Xajs0vFWZQ2BuX0m7Ki8w3jZ5iD8cuR3lBz2/5/X53Dhf32SBHKh6rtSTB6tKeGw==",
    ): "dist/index.js",
    Package(
        "@codemirror/language",
        "6.13.1",
        "sha512-zfvU2r3TyylQLMj/te+5CnQ0rSqZi8B1oTCBbQkagcLW4Xc6imab6qN+pEJhsuNOLaJqiRyBXp9UhWA1DhVvDw==",
    ): "dist/index.js",
    Package(
        "@codemirror/streamparser",
        "6.0.0",
        "sha512-JTFPF6xrfjt0mnfGPgzcLiMwYmvIyNaoizp8BYzv8FE8KrT6GBGDZ190rtt+O7Wke3gG/MFHyiY9YGNeimof4w==",
    ): "dist/index.js",
    Package(
        "@codemirror/commands",
        "6.11.1",
        "sha512-O/4hG3SC1YwcmQ0d2UVNDs+AsaNWd1iHVxbTeEBuqH+6bExAiPK3iS/BvpY6rZGURALv4ZD3sIgcCmRvw3ehBg==",
    ): "dist/index.js",
    Package(
        "@codemirror/autocomplete",
        "6.20.4",
        "sha512-yF8RhOf2SXlg00+qtupzLhrglcas61boqaONiNcbPIebHCpJocpqTBA6dyrtUrQO47hqyTdeob/3XnYilT7TaQ==",
    ): "dist/index.js",
    Package(
        "@codemirror/lang-python",
        "6.2.1",
        "sha512-IRjC8RUBhn9mGR9ywecNhB51yePWCGgvHfY1lWN/Mrp3cKuHr0isDKia+9HnvhiWNnMpbGhWrkhuWOc09exRyw==",
    ): "dist/index.js",
    Package(
        "@lezer/python",
        "1.1.19",
        "sha512-MhQIURHRytsNzP/YXnqpYKW6la6voAH3kyplTOOiCdjyFY6cWWGFVmYVdHIPrElqSDf4iCDktQCockB9FxuhzQ==",
    ): "dist/index.js",
    Package(
        "@lezer/lr",
        "1.4.12",
        "sha512-On9HU4oMMiHPMkQDgoTnGahjgG5n/MkN38CgG77sMraKLL+3JBbeQNi1FcCXV9QRqwF9/BUXP3caHyJC1fBOTQ==",
    ): "dist/index.js",
    Package(
        "@lezer/common",
        "1.5.5",
        "sha512-Pw7PVCndruF1pb3ebCxpSVpkMHSDjwRCLcTRw+RizUKco5QbWylwq2g4lnG/RYN7yTTQDXE9F77MwtkAyphrjg==",
    ): "dist/index.js",
    Package(
        "@lezer/highlight",
        "1.2.5",
        "sha512-O1GMVKgtf5YspFaRzpmqkVgMtIk2HG9uMAbH6wdAIdNh3TVzCsch/+cRi+6l2//UGDKe6NB9BW3cvuR5ezMQ0w==",
    ): "dist/index.js",
    Package(
        "style-mod",
        "4.1.5",
        "sha512-WQ2llCZa9sZSkJA+aOwpg5DkfbAXFKGh//t3MRTBeruFiSBC+GXUmbBzrw3bXyboCWAbtCW9InDfBsXrRD/rAg==",
    ): "src/style-mod.js",
    Package(
        "w3c-keyname",
        "2.2.8",
        "sha512-dpojBhNsCNN7T82Tm7k26A6G9ML3NkhDsnw9n/eoxSRlVBB4CEtIQ/KTCLI2Fwf3ataSXRhYFkQi3SlnFwPvPQ==",
    ): "index.js",
    Package(
        "crelt",
        "1.0.7",
        "sha512-aK6BbWfhf4U/wCcLHKPJl/xa6VkVstRaPywWtMKGwuOLc/wZTyQYuoxgvZnNsBvv7Kg3YTBQYYBCggcviQczuA==",
    ): "index.js",
    Package(
        "@marijn/find-cluster-break",
        "1.0.4",
        "sha512-Wy0V7+SGUjnF9/TkiM1hKVDPj7jKXduPNboMVtHTA8dySMURWqfg/JZ9E2Sq8JgSJmkl7k7Qe9FLeMSrSraWmQ==",
    ): "src/index.js",
}
KATEX = ROOT / "src/chainrule/explain/report/vendor/katex"


def write(target: Path) -> None:
    """Writes the scripts, and `imports.json`, the import map of the editor, into the folder."""
    target.mkdir(parents=True, exist_ok=True)
    (target / "panzoom.js").write_bytes(files_of(PANZOOM, CACHE)["dist/panzoom.min.js"])
    for name in ("katex.min.js", "katex.min.css"):
        (target / name).write_bytes((KATEX / name).read_bytes())
    imports = {}
    for package, entry in EDITOR.items():
        name = f"{package.name.replace('@', '').replace('/', '-')}.js"
        (target / name).write_bytes(files_of(package, CACHE)[entry])
        imports[package.name] = f"./assets/vendored/{name}"
    (target / "imports.json").write_text(json.dumps(imports), encoding="utf-8")
