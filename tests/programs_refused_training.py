"""Programs whose training is refused, with the whole message."""

import numpy as np
from provoking import provokes

import chainrule as cr
from chainrule import errors, float64
from chainrule.examples.digits import Settings, begin, train_epoch


@provokes(errors.StateError)
def a_state_that_two_steps_use():
    """
    a step began on a state while another step was still running on it
      try: one thread steps a state; let the others wait, or init states of their own
    """

    def objective(w: float64[()]):
        return w * w

    step = cr.training_step(objective, wrt="w", optimizer=cr.sgd(0.1))
    state = step.init(w=1.0)
    state.is_stepping = True
    step(state)


@provokes(errors.DivergenceError)
def a_training_that_diverges():
    """
    training diverged: the objective is nan at step 2 (epoch 1)
      try: a learning rate smaller than 1e+200, or a weight decay smaller than 1
    """
    settings = Settings(learning_rate=1e200, weight_decay=1.0, epochs=1)
    train_epoch(begin(settings), 1)


@provokes(errors.NonFiniteError)
def a_trainer_that_diverges():
    """
    training diverged: the objective is inf in step 2 (epoch 2, batch 1)
      try: the state is as it was after step 1, before the bad one: trainer.state
    """

    def objective(x: float64["n 1"], w: float64["1"]):
        J = np.mean((x @ w) ** 2)
        return J

    data = {"x": np.ones((4, 1))}
    given = {"data": data, "batch_size": 4, "progress": False, "executor": "reference"}
    try:
        cr.Trainer(objective, {"w": np.ones(1)}, cr.sgd(1e200), **given).fit(9)
    except errors.NonFiniteError as error:  # then come the lines of its diagnosis
        assert error.diagnosis is not None and str(error.diagnosis)[:12] == "(x @ w) ** 2"
        raise errors.NonFiniteError(error.what.partition("\n")[0], hint=error.hint) from None
