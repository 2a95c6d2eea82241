"""Training: forward, backward and update as one graph, and the arrays that outlive its runs."""

from chainrule.train.optimizers import Optimizer, StateArray, sgd
from chainrule.train.state import State
from chainrule.train.step import TrainingStep, training_step

__all__ = ["Optimizer", "State", "StateArray", "TrainingStep", "sgd", "training_step"]
