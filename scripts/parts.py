"""Runs pytest in several processes, each with its part of the files, and tells what came of all.

Each process imports and collects its own files alone, and sends nothing: for many small tests that
takes a third less than workers that one process gives the tests to.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

NO_TESTS_COLLECTED = 5  # pytest's exit status
# "== 1 failed, 20 passed, 3 deselected in 4.50s ==", or the same without a frame
SUMMARY = re.compile(r"=* ?(?P<counts>(?:\d+ [a-z]+(?:, )?)+) in [\d.]+s(?: \([\d:]+\))? ?=*")
# Of the files that take long: about how many seconds, in the quick tier and in the others.
LONG_FILES = Path("tests", "long_files.txt")
USUAL = 0.3  # seconds of another file
COUNT = re.compile(r"(\d+) ([a-z]+)")
ONE = {"errors": "error", "warnings": "warning"}


def run_in_parts(command, arguments, folder, count=None, *, quick=True):
    """The exit status of pytest, `command`, with `arguments` in `folder`: the first that is not 0.

    What the arguments name is parted: files and tests as they are, folders into their files.
    Without one that is the folder "tests".  `quick` says which tier this is: what takes long in one
    need not in others.  The output of the first part is shown as it comes, that of the others
    afterwards, and then one last line for all, as pytest's own.
    """
    named = [one for one in arguments if _is_path(one, folder)]
    options = [one for one in arguments if one not in named]
    targets = [file for one in named or ["tests"] for file in _files(one, folder)]
    usual = _cores() if quick else _cores() * 3 // 2  # which wait for browsers and ranks
    shares = _shares(targets, _seconds(folder, quick), count or usual)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        parts = [_Part([*command, *options, *share], folder) for share in shares]
        for number, part in enumerate(parts):
            part.start(Path(scratch, str(number)) if number else None)
        try:
            totals = sum((part.shown() for part in parts), Counter())
        finally:  # Ctrl-C goes to all: each ends by itself
            for part in parts:
                part.process.wait()
    print(_last_line(totals, time.perf_counter() - begin), flush=True)
    statuses = [part.status for part in parts if part.status != NO_TESTS_COLLECTED]
    return next((one for one in statuses if one), 0) if statuses else NO_TESTS_COLLECTED


class _Part:
    """One process of pytest, which may write into a file until it is its turn to be shown."""

    def __init__(self, command, folder):
        self.command, self.folder, self.file = command, folder, None
        self.status = 0

    def start(self, file):
        self.file = file
        options = {"cwd": self.folder, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
        if file is None:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, **options)
            return
        with open(file, "w") as out:
            self.process = subprocess.Popen(self.command, stdout=out, **options)

    def shown(self):
        """Shows its output but for the last line; how many tests ended in which way."""
        if self.file is not None:
            self.process.wait()
        with self.process.stdout or open(self.file, encoding="utf-8", errors="replace") as lines:
            found = _show(lines)
        self.status = self.process.wait()
        if not found and self.status not in (0, NO_TESTS_COLLECTED):
            print(f"a part of the tests ended with {self.status}, before it was done", flush=True)
        return found


def _show(lines):
    totals = Counter()
    for line in lines:
        summary = SUMMARY.fullmatch(re.sub(r"\x1b\[\d*m", "", line).strip())
        if summary is None:
            print(line, end="", flush=True)
            continue
        for number, what in COUNT.findall(summary["counts"]):
            totals[ONE.get(what, what)] += int(number)
    return totals


def _last_line(totals, seconds):
    counts = ", ".join(f"{n} {what}{_ending(n, what)}" for what, n in totals.items())
    return f" {counts or 'no tests ran'} in {seconds:.2f}s ".center(100, "=")


def _ending(number, what):
    return "s" if number != 1 and what in ONE.values() else ""


def _is_path(argument, folder):
    return not argument.startswith("-") and (folder / argument.partition("::")[0]).exists()


def _files(target, folder):
    found = sorted((folder / target).rglob("test_*.py")) if "::" not in target else []
    return [str(one.relative_to(folder)) for one in found] or [target]


def _seconds(folder, quick):
    if not (folder / LONG_FILES).exists():
        return {}
    lines = (folder / LONG_FILES).read_text(encoding="utf-8").splitlines()
    return {file: float(seconds[not quick]) for *seconds, file in map(str.split, lines)}


def _shares(targets, seconds, count):
    """The targets for each part: the longest first, each to who has least so far.

    Every other part goes through its own backwards: files of one folder wait for the same things
    (browsers; ranks, which spin), and should not do so in all parts at once.
    """
    shares = [[] for _ in range(min(count, len(targets)))]
    totals = [0.0] * len(shares)
    weights = {one: seconds.get(one.partition("::")[0], USUAL) for one in targets}
    for one in sorted(targets, key=weights.__getitem__, reverse=True):
        least = totals.index(min(totals))
        totals[least] += weights[one]
        shares[least].append(one)
    return [
        sorted(share, key=targets.index, reverse=bool(number % 2))
        for number, share in enumerate(shares)
    ]


def _cores():
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
