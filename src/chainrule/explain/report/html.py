"""From data to a page: one HTML file with everything inside, which loads nothing else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from html import escape
from typing import Any

from chainrule.explain.report.assets import assets
from chainrule.graph.words import printable
from chainrule.version import VERSION

SENTENCE = "This report is drawn by a program inside the page: allow JavaScript to see it."


def page_html(data: Mapping[str, Any]) -> str:
    """The page that shows `data` (`chainrule.report/1`); the same data gives the same text."""
    parts = assets()
    scripts = [f"<script>{text}</script>" for text in parts.libraries]
    scripts.append(f'<script type="module">{parts.program}</script>')
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy((*parts.libraries, parts.program))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="chainrule {VERSION}">
<meta name="color-scheme" content="light dark">
<title>{escape(printable(data["title"]))}</title>
<link rel="icon" href="data:,">
<!-- This page contains the following libraries.

{parts.licences}-->
<style>{parts.styles}</style>
</head>
<body>
<noscript><p>{SENTENCE}</p></noscript>
{parts.skeleton}
<script type="application/octet-stream;base64" id="data">{packed(data)}</script>
{"".join(scripts)}
</body>
</html>
"""


def policy(scripts: tuple[str, ...]) -> str:
    """What the browser allows the page: these scripts, and nothing from elsewhere."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in scripts]
    allowed = " ".join(f"'sha256-{one.decode()}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


def packed(data: Mapping[str, Any]) -> str:
    """The data as JSON, gzip, base64; numbers that are not finite are a ValueError."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("ascii"), mtime=0)).decode()
