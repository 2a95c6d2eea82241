"""Corrects what the theme leaves unnamed in the pages: landmarks, empty heads of tables.

Screen readers stumble over both, and axe-core says so.  What the theme makes only in the browser,
`assets/start.js` names.
"""

from __future__ import annotations

import re
from pathlib import Path

EMPTY_HEAD = re.compile(r"<th((?: [^>]*)?)></th>")
# The path to a page is a landmark of the same name as the navigation.
PATH = '<nav class="md-path" aria-label="Navigation"'
NAMED_PATH = '<nav class="md-path" aria-label="Path"'


def correct(place: Path) -> None:
    """Rewrites the pages below a folder; reports are whole, and allow no other bytes."""
    for page in place.rglob("*.html"):
        if page.parent == place / "reports":
            continue
        html = page.read_text(encoding="utf-8")
        page.write_text(corrected(html), encoding="utf-8")


def corrected(html: str) -> str:
    """A page whose landmarks have names of their own, and whose empty heads are cells."""
    return EMPTY_HEAD.sub(r"<td\1></td>", html.replace(PATH, NAMED_PATH))
