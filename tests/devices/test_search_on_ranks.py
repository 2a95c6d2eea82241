"""The ranks of a job that search for a plan choose the same one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jobs import needs_mpi

JOB = """
import hashlib, sys
sys.path.insert(0, {folder!r})
import chainrule as cr
from parallel_models import case

step, weights, batch = case("network", "adamw", "reference")
split = cr.parallel(step, cr.Devices.cpu(2, memory=4200), batch=24, ways=1, replicas=1)
state = split.init(weights)
for _ in range(3):
    split(state, batch)
whole = split.collect(state)
digest = hashlib.sha256(b"".join(whole[name].tobytes() for name in sorted(whole)))
line = f"{{split.ranks}} {{split.candidates[0].words}} {{digest.hexdigest()}}\\n"
sys.stdout.write(line)  # at once: another rank writes, too
"""


@pytest.mark.slow
@needs_mpi
def test_the_ranks_of_a_job_choose_alike(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(JOB.format(folder=str(Path(__file__).parent)))
    alone = [sys.executable, str(path)]
    job = [sys.executable, "-m", "chainrule", "run", "-n", "2", str(path)]
    first, both = (
        subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        for command in (alone, job)
    )
    assert both.splitlines() == 2 * first.splitlines()
    assert first.startswith("2 2 stages x 1 replica, ")
