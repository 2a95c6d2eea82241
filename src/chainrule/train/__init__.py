"""Training: forward, backward and update as one graph, and the state between steps."""

from chainrule.train.optimizer import Optimizer, StateArray, scaled
from chainrule.train.optimizers import adam, adamw, rmsprop, sgd
from chainrule.train.schedule import Schedule
from chainrule.train.state import State
from chainrule.train.step import TrainingStep, training_step

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
