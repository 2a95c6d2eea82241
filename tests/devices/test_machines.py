"""Two machines: a job over a cable, and what its ranks do when that is pulled.

The machines are network namespaces, the cable is a pair of virtual interfaces.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import mpi_program
import pytest
from jobs import HOST_AND_PID, is_running, needs_mpi

from chainrule.devices import launcher

DEADLINE = 2.0
ADDRESSES = ("10.213.77.1", "10.213.77.2")
# Called as ssh is: options, an address, a command.  It runs that on the machine with the address.
STAND_IN = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
number=${1##*.}
shift
exec ip netns exec NAME-$number sh -c "$*"
"""


CAPTURED: Any = {"capture_output": True, "text": True, "check": False}


def of_root(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[str]:
    """The common part of the names of two machines with a cable; NAME-1 and NAME-2."""
    name = f"chainrule{os.getpid()}"
    if not shutil.which("ip"):
        pytest.skip("there is no ip: no machines can be made of namespaces")
    try:
        for number in "12":
            of_root("ip", "netns", "add", f"{name}-{number}")
        ends = [f"c{os.getpid()}-{number}" for number in "12"]
        of_root("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for number, end, address in zip("12", ends, ADDRESSES, strict=True):
            of_root("ip", "link", "set", end, "netns", f"{name}-{number}")
            within = ["ip", "-n", f"{name}-{number}"]
            of_root(*within, "link", "set", end, "name", "cable")
            of_root(*within, "addr", "add", f"{address}/24", "dev", "cable")
            for one in ("cable", "lo"):
                of_root(*within, "link", "set", one, "up")
    except subprocess.CalledProcessError as error:
        _remove(name)
        pytest.skip(f"namespaces are not allowed here: {error.stderr.strip()}")
    yield name
    _remove(name)


def _remove(name: str) -> None:
    for number in "12":
        subprocess.run(["ip", "netns", "del", f"{name}-{number}"], **CAPTURED)


def job(name: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A job of mpiexec on the first machine, with a rank on each."""
    stand_in = folder / "ssh"
    stand_in.write_text(STAND_IN.replace("NAME", name))
    stand_in.chmod(0o755)
    start = [launcher.mpiexec(), "-launcher", "ssh", "-launcher-exec", str(stand_in)]
    by_cable = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "cable", "FI_PROVIDER": "tcp"}
    ranks = ["-hosts", ",".join(ADDRESSES), "-n", "2", sys.executable, str(mpi_program.__file__)]
    with (folder / "errors").open("w") as errors:
        return subprocess.Popen(
            ["ip", "netns", "exec", f"{name}-1", *start, *ranks, *arguments],
            env={**os.environ, **by_cable, "CHAINRULE_DEADLINE": str(DEADLINE)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


@pytest.mark.slow
@needs_mpi
def test_where_the_cable_is_pulled_both_sides_end(machines: str, tmp_path: Path) -> None:
    process = job(machines, tmp_path, "fail", "steps")
    assert process.stdout is not None
    printed = ""
    try:
        while printed.count("step 9") < 2:  # over the cable, and with a rank on each side
            line = process.stdout.readline()
            assert line, printed + (tmp_path / "errors").read_text()
            printed += line
        pids = [int(one) for one in re.findall(r"pid (\d+)", printed)]
        assert len(pids) == 2 and all(map(is_running, pids))
        of_root("ip", "-n", f"{machines}-1", "link", "set", "cable", "down")
        pulled = time.monotonic()
        while any(map(is_running, pids)) and time.monotonic() < pulled + 15:
            time.sleep(0.05)
        assert not any(map(is_running, pids))
        assert DEADLINE * 0.9 < time.monotonic() - pulled < DEADLINE + 5
    finally:
        process.kill()
        process.communicate(timeout=20)
        for one in subprocess.run(
            ["ip", "netns", "pids", f"{machines}-2"], **CAPTURED
        ).stdout.split():
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(int(one), signal.SIGKILL)
    errors = (tmp_path / "errors").read_text()
    assert re.search(rf"rank 0 {HOST_AND_PID} .* nothing within 2 s", errors), errors
