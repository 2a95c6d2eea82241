"""A step, and the checkpoints of its training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpointing import step_of

import chainrule as cr
from chainrule.train.checkpoints import Checkpoints


@pytest.fixture
def step() -> cr.TrainingStep:
    return step_of()


@pytest.fixture
def checkpoints(tmp_path: Path, step: cr.TrainingStep) -> Iterator[Checkpoints]:
    with Checkpoints(tmp_path / "run", step) as found:
        yield found
