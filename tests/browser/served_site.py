"""The built site, served on this machine to the tests that open it."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SITE = Path(__file__).resolve().parents[2] / ".website" / "site"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, and writes nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served() -> Iterator[str]:
    """The address of the newest version of the site."""
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        version = (SITE / "index.html").read_text(encoding="utf-8").split("url=")[1].split("/")[0]
        yield f"http://127.0.0.1:{server.server_port}/{version}/"
        server.shutdown()
