"""Steps with state of the objective's own take what their reports say, to the byte."""

import numpy as np
import pytest
from executors import WITHIN
from measured_memory import CALLS, EXACT, aligned_nbytes, arrays_nbytes, constants_nbytes, peaks_of

import chainrule as cr
from chainrule import float64
from chainrule.schedule.records import ALIGNMENT

pytestmark = pytest.mark.usefixtures("only_what_numpy_sees")
ROWS = 96


def network(
    x: float64["n 16"],
    W: float64["16 24"],
    mean: float64["24"],
    var: float64["24"],
    slow: float64["16 24"],
    training=True,
):
    h, mean, var = cr.batch_norm(x @ W, mean, var, training=training)
    J = np.mean(np.tanh(h) ** 2)
    return J, {"mean": mean, "var": var, "slow": 0.9 * slow + 0.1 * W}


def begun(executor):
    step = cr.training_step(
        network, "W", cr.sgd(0.1, momentum=0.9), state=("mean", "var", "slow"), executor=executor
    )
    W = np.random.default_rng(1).standard_normal((16, 24))
    state = {"mean": np.zeros(24), "var": np.ones(24), "slow": W}
    return step, {"W": W, **state}, np.random.default_rng(2).standard_normal((ROWS, 16))


@WITHIN
def test_a_step_takes_what_is_said(executor):
    step, given, x = begun(executor)
    state, report = step.init(given), step.memory(n=ROWS)
    there = arrays_nbytes(dict(state)) + x.nbytes + constants_nbytes(report)
    expected = report.main.peak_nbytes - there + aligned_nbytes(report, recycled_results=False)
    peaks = peaks_of(lambda: lambda: step(state, x=x))
    looks = [executor == "native" and not number for number in range(CALLS)]
    numbers = [8 * len(step.scalars) * looking for looking in looks]
    assert [peak - more - expected for peak, more in zip(peaks, numbers, strict=True)] == EXACT


@WITHIN
def test_a_step_in_parts_takes_what_is_said(executor):
    """But for the alignment of the sums and copies, and the numbers of the optimizer."""
    step, given, x = begun(executor)
    parts = step.micro_batched(3)
    state, memory = parts.init(given), parts.memory(n=ROWS)
    there = arrays_nbytes(dict(state)) + x.nbytes
    blocks = [memory.accumulating, memory.updating]
    expected = memory.peak_nbytes - there
    expected += sum(aligned_nbytes(one, recycled_results=False) for one in blocks)
    for peak in peaks_of(lambda: lambda: parts(state, x=x)):
        assert 0 <= peak - expected <= 3 * ALIGNMENT


@WITHIN
def test_prediction_takes_what_is_said_of_the_step(executor):
    step, given, x = begun(executor)
    report = step.memory(n=ROWS, predict="h", executor=executor)
    graph = step.evaluation
    assert report.prediction.parts["carried state"] == 8 * 2 * 24  # without the average
    predicted = cr.predict(step, step.init(given), {"x": x}, "h", executor=executor)
    assert predicted.shape == (ROWS, 24) and "slow" not in report.predicting.names
    assert "training" not in graph.arguments
