"""Batch normalisation and averages of weights equal PyTorch's, step for step."""

import numpy as np
import pytest
from trainings import EXECUTORS

import chainrule as cr
from chainrule import float64

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")

STEPS, RTOL = 20, 1e-10
STATE = ("mean", "var")


def dense(
    x: float64["n 5"],
    y: float64["n 3"],
    W: float64["5 6"],
    g: float64["6"],
    b: float64["6"],
    V: float64["6 3"],
    mean: float64["6"],
    var: float64["6"],
    training=True,
):
    h, mean, var = cr.batch_norm(x @ W, mean, var, g, b, training=training)
    o = np.maximum(h, 0) @ V
    J = np.mean((o - y) ** 2)
    return J, {"mean": mean, "var": var}


def convolutional(
    x: float64["n 2 5 5"],
    y: float64["n 3"],
    W: float64["6 2 3 3"],
    g: float64["6"],
    b: float64["6"],
    V: float64["6 3"],
    mean: float64["6"],
    var: float64["6"],
    training=True,
):
    h, mean, var = cr.batch_norm(cr.conv2d(x, W), mean, var, g, b, training=training)
    o = np.mean(np.maximum(h, 0), axis=(2, 3)) @ V
    J = np.mean((o - y) ** 2)
    return J, {"mean": mean, "var": var}


class Network(torch.nn.Module):
    def __init__(self, weights, first, norm):
        super().__init__()
        self.first, self.norm = first.double(), norm.double()
        self.last = torch.nn.Linear(6, 3, bias=False).double()
        with torch.no_grad():
            W = weights["W"] if weights["W"].ndim == 4 else weights["W"].T
            self.first.weight.copy_(torch.from_numpy(W.copy()))
            self.norm.weight.copy_(torch.from_numpy(weights["g"]))
            self.norm.bias.copy_(torch.from_numpy(weights["b"]))
            self.last.weight.copy_(torch.from_numpy(weights["V"].T.copy()))

    def forward(self, x):
        h = torch.relu(self.norm(self.first(x)))
        return self.last(h.mean((2, 3)) if h.ndim == 4 else h)


CASES = {
    "dense": (dense, (5, 6), (5,), lambda: torch.nn.Linear(5, 6, bias=False), "BatchNorm1d"),
    "convolutional": (
        convolutional,
        (6, 2, 3, 3),
        (2, 5, 5),
        lambda: torch.nn.Conv2d(2, 6, 3, bias=False),
        "BatchNorm2d",
    ),
}


@pytest.mark.slow
@pytest.mark.sweep(3)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", CASES)
def test_twenty_steps_with_batch_norm_are_those_of_pytorch(name, executor):
    objective, shape, row, first, norm = CASES[name]
    random = np.random.default_rng(7)
    weights = {
        "W": random.standard_normal(shape) / 3,
        "g": 1 + random.random(6),
        "b": random.standard_normal(6),
        "V": random.standard_normal((6, 3)),
    }
    peer = Network(weights, first(), getattr(torch.nn, norm)(6))
    adam = torch.optim.Adam(peer.parameters(), lr=0.01)
    step = cr.training_step(
        objective, tuple(weights), cr.adam(0.01), state=STATE, executor=executor
    )
    state = step.init(**weights, mean=np.zeros(6), var=np.ones(6))
    for number in range(STEPS):
        rows = 9 if number % 3 else 4
        x, y = random.standard_normal((rows, *row)), random.standard_normal((rows, 3))
        J = step(state, x=x, y=y)
        loss = torch.mean((peer(torch.from_numpy(x)) - torch.from_numpy(y)) ** 2)
        adam.zero_grad()
        loss.backward()
        adam.step()
        np.testing.assert_allclose(J, loss.item(), RTOL)
    given = peer.state_dict()
    found = {"mean": given["norm.running_mean"], "var": given["norm.running_var"]}
    found |= {"g": given["norm.weight"], "b": given["norm.bias"], "V": given["last.weight"].T}
    found["W"] = given["first.weight"].T if name == "dense" else given["first.weight"]
    for which, tensor in found.items():
        largest = np.abs(tensor.numpy()).max()
        np.testing.assert_allclose(state[which], tensor, RTOL, RTOL * largest, err_msg=which)
    peer.eval()
    x = random.standard_normal((5, *row))
    with torch.no_grad():
        wanted = peer(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(cr.predict(step, state, {"x": x}, "o"), wanted, 1e-9, 1e-12)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_average_of_weights_is_that_of_pytorch_one_step_later(executor):
    """The objective sees the parameters before the update, as they were after the last step."""

    def objective(x: float64["n 3"], y: float64["n"], w: float64["3"], slow: float64["3"]):
        J = np.mean((x @ w - y) ** 2)
        return J, {"slow": 0.9 * slow + 0.1 * w}

    random = np.random.default_rng(1)
    w = random.standard_normal(3)
    step = cr.training_step(objective, "w", cr.sgd(0.1), state="slow", executor=executor)
    state = step.init(w=w, slow=w)
    peer = torch.nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        peer.weight.copy_(torch.from_numpy(w[None]))
    averaging = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    slow = torch.optim.swa_utils.AveragedModel(peer, multi_avg_fn=averaging)
    slow.update_parameters(peer)  # the first call copies
    sgd = torch.optim.SGD(peer.parameters(), lr=0.1)
    for _ in range(STEPS):
        x, y = random.standard_normal((6, 3)), random.standard_normal(6)
        before = next(slow.parameters()).detach().clone().numpy()[0]
        step(state, x=x, y=y)
        loss = torch.mean((peer(torch.from_numpy(x))[:, 0] - torch.from_numpy(y)) ** 2)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        slow.update_parameters(peer)
        np.testing.assert_allclose(state["slow"], before, RTOL)
