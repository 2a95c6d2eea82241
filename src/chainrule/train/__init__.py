"""Training: forward, backward and update as one graph, and the state between steps."""

from chainrule.train.optimizers.optimizer import Optimizer, StateArray, scaled
from chainrule.train.optimizers.optimizers import adam, adamw, rmsprop, sgd
from chainrule.train.optimizers.schedule import Schedule
from chainrule.train.step.making import training_step
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep

__all__ = [
    "Optimizer",
    "Schedule",
    "State",
    "StateArray",
    "TrainingStep",
    "adam",
    "adamw",
    "rmsprop",
    "scaled",
    "sgd",
    "training_step",
]
