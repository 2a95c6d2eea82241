"""A program that is started and killed again and again, without its imports again and again.

`python killer.py FILE FUNCTION BEFORE` imports the file and calls BEFORE, once; for each list of
arguments that it reads it forks a process that calls FUNCTION with them, and says how that ended.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ENDED = "ended"


class Ended(NamedTuple):
    """How it ended: by a kill, or by itself without an error; and what it had printed."""

    was_killed: bool
    lines: list[str]


class Killer:
    """Starts one fork of the program after another, and ends them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._pid = 0

    def start(self, *arguments: Any) -> None:
        """Run the function in a process of its own."""
        self._say(json.dumps([str(one) if isinstance(one, Path) else one for one in arguments]))
        self._pid = int(self.line())

    def line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.endswith("\n"), f"the output of the program ended, after {line!r}"
        return line.rstrip("\n")

    def kill(self) -> None:
        """SIGKILL, which changes nothing where it is done."""
        os.kill(self._pid, signal.SIGKILL)

    def end(self) -> Ended:
        """Wait for its end."""
        self._say("")
        lines = list(iter(self.line, ENDED))
        status = int(self.line())
        assert status in (0, -signal.SIGKILL), f"it ended with {status}"
        return Ended(status != 0, lines)

    def killed_after(self, count: int, seconds: float, *arguments: Any) -> list[int]:
        """Start it, and kill it some time after it has printed so many numbers: all it printed."""
        self.start(*arguments)
        lines = [self.line() for _ in range(count)]
        time.sleep(seconds)
        self.kill()
        ended = self.end()
        assert ended.was_killed
        return [int(line) for line in (*lines, *ended.lines)]

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


@contextmanager
def killer_of(file: str, function: str, before: str) -> Iterator[Killer]:
    """For a function of a file; what another one imports and finds out is there in each fork."""
    command = [sys.executable, __file__, file, function, before]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    # Unbuffered, Python writes a line and its end one after the other: a kill may come between.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        yield Killer(process)
        assert process.stdin is not None
        process.stdin.close()


def _serve(file: str, function: str, before: str) -> None:
    sys.path.insert(0, str(Path(file).parent))
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    getattr(module, before)()
    call = getattr(module, function)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            status = 1
            try:
                print(os.getpid(), flush=True)
                call(*json.loads(line))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        sys.stdin.readline()  # until then its number is not given to another process
        print(f"{ENDED}\n{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
