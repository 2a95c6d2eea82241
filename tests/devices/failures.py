"""Random failures of random ranks at random moments: `failures.py 100 [SEED [EXECUTOR]]`.

Each must end all ranks in time, with the right exit code and the right words, and leave no process,
no shared memory, and checkpoints from which one process goes on.  In time: but for what processes
of the job wait for a core, which others have.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import failing_rank
import numpy as np
from failing_rank import PLANS
from jobs import HOST_AND_PID, command, is_running, shared
from training_program import BATCH, ROWS, data, made

import chainrule as cr
from chainrule.errors import StateError
from chainrule.train.checkpoints import Checkpoints
from chainrule.train.checkpoints.lock import FolderLock

NEAR = 1e-9  # of numbers of a program: its sums have other orders
DEADLINES = {"reference": 2.0, "xla": 10.0}  # seconds; ranks wait while others compile
RANK_PROGRAM = str(Path(failing_rank.__file__))


@dataclass(frozen=True)
class Kind:
    """A way to fail, and what must be seen: the exit code, a text, and after how many seconds, or
    so many more than the deadline."""

    code: int
    text: str
    seconds: float = 2.0
    is_hang: bool = False


KILLED = f"^rank RANK {HOST_AND_PID} of \\d was killed, or left by os._exit"
TRACED = r"^Traceback (.*\n)+.*ValueError: planted\n(.*\n)*\(on rank RANK of \d\)"
WAITS = rf"^rank \d {HOST_AND_PID} .* nothing within \d+ s\n  try: look at what that rank does"
ENDED = rf"StateError: rank \d {HOST_AND_PID} .* but rank RANK {HOST_AND_PID} has ended"
TOLD = 5.0  # seconds that ranks have after a signal, to save
OTHER = rf"InputError: rank \d {HOST_AND_PID} takes another step than rank 0"
KINDS = {
    "kill": Kind(70, KILLED),
    "os._exit": Kind(70, KILLED),
    "raise": Kind(70, TRACED),
    "raise in thread": Kind(70, TRACED),
    "sys.exit": Kind(70, ENDED, 4.0),
    "stop": Kind(70, WAITS, 5.0, True),
    "sleep": Kind(70, WAITS, 5.0, True),
    "full disk": Kind(70, r"DataFileError: .* cannot be written: .*File too large", 60.0),
    "a signal": Kind(143, "", TOLD),
    "launcher killed": Kind(-9, ""),
    "launcher told": Kind(143, "", TOLD),
    "other graph": Kind(70, OTHER, 60.0),
    "other version": Kind(70, OTHER + r"(.*\n)* .*0\.0\.7", 60.0),
}


class Queue:
    """Looks how long processes of a job are ready to run while others have the cores.

    Linux counts that; elsewhere it is 0.
    """

    def __init__(self, launcher: int, ranks: list[int]) -> None:
        self.launcher, self.ranks = launcher, ranks
        self.seen = [(time.time(), {pid: _queued(pid) or 0.0 for pid in (launcher, *ranks)})]
        threading.Thread(target=self._look, daemon=True).start()

    def seconds(self, after: float) -> float:
        """The launcher's since a moment, and the most of a rank's: one waits for the other."""
        before = [found for moment, found in self.seen if moment <= after]
        first, last = (before or [self.seen[0][1]])[-1], self.seen[-1][1]
        found = {pid: last[pid] - first[pid] for pid in last}
        return found[self.launcher] + max(found[pid] for pid in self.ranks)

    def _look(self) -> None:
        now: dict[int, float] = self.seen[0][1]
        while now:
            time.sleep(0.02)
            found = {pid: _queued(pid) for pid in self.seen[0][1]}
            now = {pid: one for pid, one in found.items() if one is not None}
            self.seen.append((time.time(), {**self.seen[-1][1], **now}))


def _queued(pid: int) -> float | None:
    """The seconds that the first thread of a process has waited for a core; None if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return None


def _is_free(folder: Path) -> bool:
    """Whether nobody holds the folder: who is killed does until its threads are gone."""
    try:
        FolderLock(folder).release()
    except StateError:
        return False
    return True


def states(plan: str, steps: int) -> dict[int, dict[str, np.ndarray]]:
    """The arrays of a training without failures, by steps."""
    trainer, found = made(plan, save_every=None, log_every=None, validation=None), {}
    random = cr.random.key(1)
    epoch = 0
    while trainer.state.steps < steps:
        epoch += 1
        rows = data(ROWS, 1)
        for batch in cr.data.minibatches(rows, BATCH, random, epoch=epoch):
            trainer._made.step(trainer.state, batch)
            found[trainer.state.steps] = {**trainer.state}
    return found


def check(
    how: str,
    count: int,
    victim: int,
    seconds: float,
    folder: Path,
    plan: str = "two stages",
    executor: str = "reference",
) -> str:
    """What is wrong with how a job ended; empty for nothing."""
    kind, before, deadline = KINDS[how], shared(), DEADLINES[executor]
    within = kind.seconds + deadline * kind.is_hang
    arguments = map(json.dumps, [str(folder), how, victim, seconds, plan, executor])
    process = subprocess.Popen(
        command(count, RANK_PROGRAM, *arguments, deadline=deadline),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pids, began = [], float("nan")
    while len(pids) < count:
        line = process.stdout.readline()
        if not line:
            return f"never began: {process.communicate()[1]}"
        pids += map(int, re.findall(r"pid (\d+)", line))
    queue = Queue(process.pid, pids)
    if how.startswith("launcher"):
        time.sleep(seconds)
        began = time.time()
        process.send_signal(signal.SIGKILL if how == "launcher killed" else signal.SIGTERM)
    try:
        _, errors = process.communicate(timeout=within + 30)
    except subprocess.TimeoutExpired:
        process.terminate()
        return f"it did not end: {process.communicate(timeout=60)[1]}"
    ended = time.time()
    failing = Path(f"{folder}.failing")
    if failing.exists():
        began = float(failing.read_text())
    end = ended + within
    is_over = _within(end, lambda: not any(map(is_running, pids)))
    wrong = [] if is_over else ["processes stay"]
    if process.returncode != kind.code:
        wrong.append(f"exit code {process.returncode}")
    queued = queue.seconds(began + deadline * kind.is_hang)  # who waits for others often queues
    if not ended - began - queued < within:
        wrong.append(f"it took {ended - began:.2f} s, {queued:.2f} of them without a core")
    text = kind.text.replace("RANK", str(victim))
    if len(re.findall(text, errors, re.MULTILINE)) != 1 if text else errors:
        wrong.append("other words")
    left = shared() - before  # perhaps of another job, which runs at the same time
    wrong += [] if _within(end + 20, lambda: not left & shared()) else ["shared memory stays"]
    if is_over:
        wrong += [what for what in [_checkpoints(plan, executor, folder)] if what]
    return "; ".join(wrong) + (f"\n{errors}" if wrong else "")


def _within(end: float, holds: Callable[[], bool]) -> bool:
    """Whether something holds before a time."""
    while not holds():
        if time.time() > end:
            return False
        time.sleep(0.02)
    return True


def _checkpoints(plan: str, executor: str, folder: Path) -> str:
    """What is wrong with the newest checkpoint: it must be whole, and of the training."""
    if not folder.exists():
        return ""
    step = made(plan).step
    assert _within(time.time() + 5, lambda: _is_free(folder)), "the folder is held"
    with Checkpoints(folder, step) as checkpoints:
        paths, found = checkpoints.paths, checkpoints.load()
    if found is None or found.path != paths[-1]:
        return "the newest checkpoint is damaged"
    wanted = states(plan, found.steps)[found.steps] if found.steps else found.arrays
    for name, array in wanted.items():
        there = found.arrays[name]
        near = executor == "xla" and np.allclose(there, array, rtol=NEAR, atol=NEAR)
        if not near and there.tobytes() != array.tobytes():
            return f"the checkpoint of step {found.steps} is another one"
    return ""


def main(number: int, seed: int = 0, executor: str = "reference") -> int:
    """Tries so many; the number of those that ended otherwise than promised."""
    random, good, bad = np.random.default_rng(seed), Counter(), 0
    plans = PLANS[executor]
    for _ in range(number):
        how, count = str(random.choice(list(KINDS))), int(random.choice(list(plans)))
        plan = str(random.choice(plans[count]))
        victim = 0 if how == "full disk" else int(random.integers(count))
        seconds = float(random.uniform(0, 0.4))
        with tempfile.TemporaryDirectory() as folder:
            wrong = check(how, count, victim, seconds, Path(folder) / "run", plan, executor)
        if wrong:
            bad += 1
            what = f"{how} on rank {victim} of {count} ({plan}) after {seconds:.3f} s"
            print(f"{what}: {wrong}", flush=True)
        else:
            good[how] += 1
    print(f"{number - bad} of {number}: {dict(good)}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3]), *sys.argv[3:]))
