"""Firefox without a driver program: its own remote control, Marionette, over a socket.

The protocol is `LENGTH:[0, id, command, parameters]`, answered by `LENGTH:[1, id, error, result]`
(https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html).
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 60.0  # until it has to have started, or answered

# Everything that it would do by itself over the network, or on a first run.
PREFERENCES = {
    "marionette.port": 0,
    "app.update.disabledForTesting": True,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
    "toolkit.telemetry.enabled": False,
}


class Firefox:
    """One window; `script` runs JavaScript in it and returns what that returns."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.stream = self.socket.makefile("rb")
        self.sent = 0
        self._receive()  # its greeting
        self("WebDriver:NewSession", capabilities={})
        self("WebDriver:SetTimeouts", script=SECONDS * 1000, pageLoad=SECONDS * 1000)

    def __call__(self, command: str, **parameters: Any) -> Any:
        """Send a command and return its result; RuntimeError where Firefox calls it an error."""
        self.sent += 1
        message = json.dumps([0, self.sent, command, parameters]).encode()
        self.socket.sendall(str(len(message)).encode() + b":" + message)
        _, _, error, result = self._receive()
        if error is not None:
            raise RuntimeError(f"{command}: {error['error']}: {error['message']}")
        return result

    def open(self, url: str) -> None:
        self("WebDriver:Navigate", url=url)

    def script(self, body: str) -> Any:
        return self("WebDriver:ExecuteScript", script=body, args=[])["value"]

    def press(self, selector: str, keys: str) -> None:
        """Type into an element, with the events of real keys."""
        found = self("WebDriver:FindElement", using="css selector", value=selector)["value"]
        self("WebDriver:ElementSendKeys", id=next(iter(found.values())), text=keys)

    def click(self, selector: str) -> None:
        found = self("WebDriver:FindElement", using="css selector", value=selector)["value"]
        self("WebDriver:ElementClick", id=next(iter(found.values())))

    def close(self) -> None:
        self("Marionette:Quit", flags=["eForceQuit"])
        self.stream.close()
        self.socket.close()

    def _receive(self) -> Any:
        length = b""
        while (digit := self.stream.read(1)) not in (b":", b""):
            length += digit
        if not length:
            raise RuntimeError("Firefox ended the connection")
        return json.loads(self.stream.read(int(length)))


@contextmanager
def firefox(program: str, profile: Path) -> Iterator[Firefox]:
    """A Firefox without a window on the screen, with a new profile in an empty folder."""
    lines = [f"user_pref({json.dumps(n)}, {json.dumps(v)});" for n, v in PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(lines), encoding="utf-8")
    arguments = ["--headless", "--no-remote", "--marionette", "--profile", str(profile)]
    started = subprocess.Popen(
        [program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        window = Firefox(_port(profile / "MarionetteActivePort", started))
        yield window
        window.close()
        started.wait(SECONDS)
    finally:
        if started.poll() is None:
            started.kill()
            started.wait()


def _port(file: Path, started: subprocess.Popen[bytes]) -> int:
    """The port that Firefox writes down once it listens."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and started.poll() is None:
        if file.exists() and (text := file.read_text().strip()):
            return int(text)
        time.sleep(0.05)
    raise RuntimeError(f"Firefox did not start: status {started.poll()}")
