"""What decides gradients in a module of PyTorch, and is no operator, is kept or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import UnsupportedError

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.peers


class Teacher(torch.nn.Module):
    """Parts without gradients, parts with gradients in these, and an average of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.register_buffer("average", torch.zeros(3, 3))

    @torch.no_grad()
    def target(self, x: Any) -> Any:
        h = torch.tanh(self.a(x))
        with torch.enable_grad():
            k = self.b(x).view(-1, 3)
        self.average.lerp_(self.a.weight, 0.1)
        return h, k, k * 2

    def forward(self, x: Any) -> Any:
        h, k, still = self.target(x)
        y = self.b(h) * self.a(x) + x @ self.average
        return y, k + still


class Hidden(Teacher):
    """Rules of its own: all are to be named at once."""

    def __init__(self) -> None:
        super().__init__()
        self.b.weight.register_hook(lambda g: g * 2)

    def forward(self, x: Any) -> Any:
        h = self.a(x)
        if h.requires_grad:
            h.register_hook(lambda g: g * 2)
        y = Rounded.apply(h)
        with torch.no_grad():
            h[0].mul_(2)
        return self.b(h) + y


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.round()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def test_nothing_goes_back_through_no_grad_and_both_modes_have_the_arrays_of_the_first():
    torch.manual_seed(0)
    net = Teacher().double()
    x = torch.randn(4, 3, dtype=torch.float64)
    model = cr.from_torch(net, (x,))

    def objective(x: Any, parameters: Any, buffers: Any) -> Any:
        (y, k), buffers = model(x, parameters, buffers)
        return np.sum(np.sin(y)) + np.sum(np.sin(k)), buffers

    run = cr.value_and_grad(objective, wrt="parameters", has_aux=True, executor="reference")
    (J, buffers), gradients = run(x.numpy(), model.parameters, model.buffers)
    y, k = net(x)
    wanted = torch.sin(y).sum() + torch.sin(k).sum()
    wanted.backward()
    np.testing.assert_allclose(J, wanted.item(), rtol=1e-12)
    for name, parameter in net.named_parameters():
        np.testing.assert_allclose(gradients[name], parameter.grad, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(buffers["average"], net.average, rtol=1e-12)
    with torch.no_grad():
        net.a.weight.zero_()
    evaluated = model.eval()
    for name, array in {**model.parameters, **model.buffers}.items():
        assert {**evaluated.parameters, **evaluated.buffers}[name] is array
    where = [one for one in model.graph.nodes if "stop_gradient" in str(one.primitive)]
    origins = {one.origin.describe().partition("\n")[0] for one in where}
    assert any(__file__ in one and "in target" in one for one in origins), origins


def test_rules_that_no_operator_has_are_refused_all_at_once():
    with pytest.raises(UnsupportedError) as caught:
        cr.from_torch(Hidden(), torch.zeros(2, 3))
    said = str(caught.value)
    for what in (
        "from_torch: Hidden uses 4 operators",
        "a hook on the gradient of b.weight",
        "a hook on a gradient (register_hook)\n",
        "torch.autograd.Function Rounded, which has a derivative of its own",
        "mul_ under no_grad, into a value that has a gradient",
        "in forward: y = Rounded.apply(h)",
        "in forward: h.register_hook(lambda g: g * 2)",
        "in forward: h[0].mul_(2)",
    ):
        assert what in said, said
    assert torch.autograd.Function.apply.__func__.__module__ == "torch.autograd.function"
