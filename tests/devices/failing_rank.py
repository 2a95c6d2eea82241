"""A rank that trains until it, or another one, fails: what `failures.py` runs as a job.

    failing_rank.py FOLDER HOW VICTIM SECONDS PLAN EXECUTOR

Each is JSON.  Without pytest, which every rank would have to import.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import training_program
from training_program import RANK, made

from chainrule.devices import splitting

# By how many ranks there are; of `xla`, all are devices of one program.
PLANS = {
    "reference": {2: ["two stages"], 3: ["three stages"]},
    "xla": {2: ["two replicas", "two shards", "a sharded optimizer"]},
}
APART = ("other graph", "other version")
EVERY = 3  # steps, between checkpoints


def note_failure(folder: str) -> None:
    """When it was, in a file: what is printed at the end of a job may be lost."""
    Path(f"{folder}.failing").write_text(str(time.time()))


def fail(how: str, folder: str) -> None:
    """In the thread that calls it: the main one, or another one."""
    note_failure(folder)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "a signal":
        os.kill(os.getpid(), signal.SIGTERM)
    if how == "os._exit":
        os._exit(0)
    if how == "sleep":
        time.sleep(30)
    if how == "sys.exit":
        sys.exit(0)
    if how == "full disk":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
    if how.startswith("raise"):
        raise ValueError("planted")


def rank(folder: str, how: str, victim: int, seconds: float, plan: str, executor: str) -> None:
    """Trains until a failure ends it; `victim` fails so many seconds after its first steps, or is
    apart from the others from the beginning on."""
    random = training_program.cr.random.key(1)
    due, timer = float("inf"), None

    def batches(epoch: int) -> Any:
        nonlocal due, timer
        rows = training_program.data(training_program.ROWS, 1)
        for batch in training_program.cr.data.minibatches(rows, 24, random, epoch=epoch):
            if timer is not None:
                timer.start()
                timer = None
            if time.monotonic() > due:  # what only the main thread can do
                due = float("inf")
                fail(how, folder)
            yield batch

    options = {"folder": folder, "data": batches, "save_every": EVERY, "log_every": None}
    if how in APART:
        print(f"pid {os.getpid()}\n", end="", flush=True)
        note_failure(folder)
    if how == "other version" and victim == RANK:
        splitting.VERSION = "0.0.7"
    parts = 12 if how == "other graph" and victim == RANK else 6
    trainer = made(plan, of=executor, parts=parts, **options)
    trainer.fit(1)
    print(f"pid {os.getpid()}\n", end="", flush=True)  # in one write: ranks share the pipe
    if victim == RANK:
        if how in ("raise", "sys.exit", "sleep", "full disk"):
            due = time.monotonic() + seconds
        elif not how.startswith("launcher"):
            timer = threading.Timer(seconds, fail, (how, folder))
    trainer.fit(1_000_000)


if __name__ == "__main__":
    rank(*map(json.loads, sys.argv[1:]))
