"""Two trainings do not write into one folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from trainings import lines, trainer

from chainrule.errors import StateError

HOLDS = """
import sys
from chainrule.train.checkpoints.lock import FolderLock
from pathlib import Path
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_a_folder_in_which_another_process_trains_is_refused(tmp_path: Path):
    made = trainer(folder=tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        for provoke in (lambda: trainer(folder=tmp_path), lambda: made.fit(1)):
            with pytest.raises(
                StateError, match=f"in use by another training: process {other.pid}"
            ):
                provoke()
        other.kill()
    made.fit(1)


def test_two_trainers_of_one_folder_do_not_write_over_each_other(tmp_path: Path):
    one, other = trainer(folder=tmp_path), trainer(folder=tmp_path)
    one.fit(1)
    with pytest.raises(StateError, match=r"there is another training in .* meanwhile"):
        other.fit(1)
    one.fit(2)
    assert [line["step"] for line in lines(tmp_path)] == [13, 26]
