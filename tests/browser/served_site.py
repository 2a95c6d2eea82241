"""The built site, served on this machine to the tests that open it."""

from __future__ import annotations

import functools
import http.server
import sys
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


class Server(http.server.ThreadingHTTPServer):
    """Says nothing of a browser that is closed while it still loads something."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served() -> Iterator[str]:
    """The address of the newest version of the site."""
    handler = functools.partial(Quiet, directory=str(SITE))
    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        version = (SITE / "index.html").read_text(encoding="utf-8").split("url=")[1].split("/")[0]
        yield f"http://127.0.0.1:{server.server_port}/{version}/"
        server.shutdown()
