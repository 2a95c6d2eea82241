"""Programs that run and are warned of; their docstrings are the whole texts."""

# ruff: noqa: E501  (a docstring is the message, line by line)

import os
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
from provoking import provokes

import chainrule as cr
from chainrule import errors
from chainrule.disk import cache
from chainrule.exchange.from_onnx.blocks import Block
from chainrule.exchange.from_onnx.call import Call
from chainrule.exchange.from_onnx.importing import dequantised
from chainrule.machine_code.kernel import Compiled
from chainrule.testing import check_gradients
from chainrule.train.loop.history import History, read


@provokes(errors.BroadcastWarning)
def a_column_of_predictions_with_a_row_of_targets():
    """
    pred (float64[4, 1]) with y (float64[4]) is float64[4, 4]: each element of the one meets every element of the other, and all of these pairs count in J
      where: FILE:LINE, in a_column_of_predictions_with_a_row_of_targets.<locals>.objective
        J = cr.squared_error(pred, y)
            ^^^^^^^^^^^^^^^^^^^^^^^^^
      try: write y[:, None] or pred[:, 0], if row i belongs to row i;
           if all pairs are meant, say so in this expression: x[:, None]
    """

    def objective(x, w, y):
        pred = x @ w
        J = cr.squared_error(pred, y)
        return J

    graph = cr.trace(objective, np.ones((4, 2)), np.ones((2, 1)), np.ones(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.backward(graph, wrt="w")


@provokes(errors.SizeTextWarning)
def a_decision_by_the_text_of_a_size():
    """
    the text of the size n is made while tracing, and is the same in every run
      where: FILE:LINE, in a_decision_by_the_text_of_a_size.<locals>.objective
        return np.sum(x) if f"{x.shape[0]}" == "2" else np.sum(x * x)
                            ^^^^^^^^^^^^^^^
      try: decide by sizes and not by their text: how they compare becomes a condition
    """

    def objective(x):
        return np.sum(x) if f"{x.shape[0]}" == "2" else np.sum(x * x)

    cr.trace(objective, cr.float64["n"])


@provokes(errors.CacheWarning)
def a_cache_that_cannot_be_a_folder():
    """
    compiled code and plans are not kept on disk: a_file/below cannot be opened (Not a directory)
      try: set CHAINRULE_CACHE_DIR to a folder of your own, or CHAINRULE_CACHE=0 to do without
    """

    with TemporaryDirectory() as place:
        (Path(place) / "a_file").touch()
        below = str(Path(place) / "a_file" / "below")
        wanted = {cache.SWITCH: "1", cache.FOLDER: below}
        unedited = patch.object(cache, "_generator", lambda: "the files as they were imported")
        with patch.dict(os.environ, wanted), unedited, warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                cache.load("key", Compiled, lambda _: True)
            except errors.CacheWarning as warning:
                raise errors.CacheWarning(str(warning).replace(f"{place}/", "")) from None


@provokes(errors.DamagedCheckpointWarning)
def a_checkpoint_with_a_wrong_byte():
    """
    the checkpoint step-000000001.safetensors is damaged: the checksum differs; passed over
    """

    def objective(w: cr.float64[()]):
        return w * w

    step = cr.training_step(objective, wrt="w", optimizer=cr.sgd(0.1))
    state = step.init(w=1.0)
    with TemporaryDirectory() as place, cr.Checkpoints(place, step) as checkpoints:
        checkpoints.save(state)
        step(state)
        path = checkpoints.save(state)
        path.write_bytes(path.read_bytes()[:-1] + b"!")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                checkpoints.load()
            except errors.DamagedCheckpointWarning as warning:
                text = str(warning).replace(f"{place}/", "")
                raise errors.DamagedCheckpointWarning(text) from None


@provokes(errors.IdleStageWarning)
def more_stages_than_there_is_work_for():
    """
    of 5 stages of objective, 4 compute nothing (1 to 4): their ranks wait for the others
      try: stages=1
    """

    def objective(x: cr.float64["n 2"], W: cr.float64["2 2"]):
        J = np.mean(x @ W)
        return J

    step = cr.training_step(objective, "W", cr.sgd(0.1), executor="reference")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.parallel(step, micro_batches=2, stages=5).memory(n=4)


@provokes(errors.HistoryWarning)
def a_history_that_is_gone():
    """
    the history no_such_run/history.jsonl is gone: 1 lines; it begins anew with the next line
    """

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(Path("no_such_run/history.jsonl"), History([{"step": 1}]).note())


@provokes(errors.FrozenRandomWarning)
def a_random_number_that_is_a_constant():
    """
    np.random.normal draws while objective is traced: its numbers are constants of the graph, the same in every run
      where: FILE:LINE, in a_random_number_that_is_a_constant.<locals>.objective
        return np.sum(x * np.random.normal(size=4))
                          ^^^^^^^^^^^^^^^^
      try: cr.random draws in every run, with a key that is an argument: cr.random.fold_in(key, step)
           is another one in each step; or draw before the call, and pass the array
    """

    def objective(x):
        return np.sum(x * np.random.normal(size=4))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.trace(objective, np.ones(4))


@provokes(errors.QuantisedWeightsWarning)
def weights_that_are_stored_as_integers():
    """
    1 quantised array of <net.onnx> read as floats, and trained as such
    """

    known = {"w8": np.ones((2, 2), np.int8), "scale": np.array(0.5, np.float32)}
    call = Call("DequantizeLinear", "", "", {}, ("w8", "scale"), ("w",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dequantised(Block("net", (), ("w",), known, (call,), frozenset()), "<net.onnx>")


@provokes(errors.KinkWarning)
def a_gradient_that_is_checked_at_a_kink():
    """
    smooth is checked at a kink of absolute: the derivative there is a convention, and the second one need not be that of either side
      where: FILE:LINE, in a_gradient_that_is_checked_at_a_kink.<locals>.smooth
        return np.sum(np.abs(x) * np.log1p(np.abs(x)))
                      ^^^^^^^^^
      try: move the point away from it; docs/conventions.md lists the conventions
    """

    def smooth(x):
        return np.sum(np.abs(x) * np.log1p(np.abs(x)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_gradients(smooth, np.array([0.0, 1.0]), order=2)


@provokes(errors.PrecisionWarning)
def a_number_of_numpys_that_widens():
    """
    J is computed in float64, though its parameters are float32: in scores a value of float32 meets a number of float64 of NumPy's
      where: FILE:LINE, in a_number_of_numpys_that_widens.<locals>.objective
        scores = x @ W / np.sqrt(4)
                 ^^^^^^^^^^^^^^^^^^
      try: a number of Python's keeps float32: float(...), math.sqrt(...); or cast: np.float32(...), x.astype(np.float32)
    """

    def objective(x: cr.float32["n 4"], W: cr.float32["4 4"]):
        scores = x @ W / np.sqrt(4)
        J = np.mean(scores**2)
        return J

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.training_step(objective, "W", cr.sgd(0.1))


@provokes(errors.BatchStatisticsWarning)
def a_prediction_that_normalises_by_its_batch():
    """
    h of objective is predicted with the mean and variance of each batch, as in training: a row depends on the others
      where: FILE:LINE, in a_prediction_that_normalises_by_its_batch.<locals>.objective
        h, _, _ = cr.batch_norm(x @ W, None, None, training=True)
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      try: give the objective an argument training=True, and pass it on: cr.batch_norm(..., training=training);
           evaluation and prediction then take the running statistics
    """

    def objective(x: cr.float64["n 2"], W: cr.float64["2 2"]):
        h, _, _ = cr.batch_norm(x @ W, None, None, training=True)
        J = np.mean(h**2)
        return J

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.predict(objective, {"W": np.eye(2)}, {"x": np.eye(2)}, "h")


@provokes(errors.CastWarning)
def parameters_in_float64():
    """
    W, b of objective are given in float64, and cast to float32
      where: FILE:LINE, in parameters_in_float64.<locals>.objective
        def objective(x: cr.float32["n 2"], W: cr.float32["2 2"], b: cr.float32["2"]):
      try: np.asarray(W, np.float32) says so beforehand, or annotate float64 to compute in it
    """

    def objective(x: cr.float32["n 2"], W: cr.float32["2 2"], b: cr.float32["2"]):
        J = np.mean((x @ W + b) ** 2)
        return J

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.training_step(objective, ("W", "b"), cr.sgd(0.1)).init(W=np.eye(2), b=np.ones(2))
