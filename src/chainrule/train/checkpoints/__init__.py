"""Checkpoints: saves a training so that it resumes after the process was killed."""

from chainrule.train.checkpoints.file import Checkpoint
from chainrule.train.checkpoints.folder import Checkpoints

__all__ = ["Checkpoint", "Checkpoints"]
