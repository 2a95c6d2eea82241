"""`from_torch` gives the graph that NumPy would: names, scopes, lines, values and refusals."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import InputError, UnsupportedError

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.peers


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        h = self.conv1(x)
        h = torch.relu(self.norm(h))
        return self.drop(h)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(Block(4))
        self.heads = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.fc = nn.Linear(4, 6)

    def forward(self, x: Any) -> Any:
        h = self.layer1(x)
        z = h.mean((2, 3))
        for head in self.heads:
            z = head(z)
        a, b = self.fc(z).chunk(2, -1)
        return torch.cat([a, nn.functional.gelu(b)], -1).softmax(-1)


@pytest.fixture(scope="module")
def net() -> Any:
    torch.manual_seed(0)
    return Net().double().eval()


@pytest.fixture(scope="module")
def model(net: Any) -> cr.Model:
    return cr.from_torch(net, cr.float64["n 3 6 6"])


def arrays(net: Any) -> dict[str, Any]:
    return {name: one.detach().numpy().copy() for name, one in net.named_parameters()}


def test_parameters_and_state_have_the_names_and_values_of_the_state_dict(net: Any, model: Any):
    assert {**model.parameters, **model.buffers}.keys() == net.state_dict().keys()
    for name, array in {**model.parameters, **model.buffers}.items():
        np.testing.assert_array_equal(array, net.state_dict()[name].numpy())
    assert [*model.parameters] == [name for name, _ in net.named_parameters()]
    assert "layer1.0.norm.running_mean" in model.buffers


def test_values_have_the_names_of_the_variables_and_the_scopes_of_the_submodules(model: Any):
    graph = model.graph
    names = [name for name, node in graph.names.items() if node.inputs]
    assert names == ["layer1.0.h", "h", "layer1.0.h_1", "z", "z_1", "z_2", "a", "b", "out"]
    assert graph.inputs[0].name == "x"
    (n, *rest) = graph["x"].shape
    assert str(n) == "n" and rest == [3, 6, 6]
    paths = {scope.path for node in graph.nodes for scope in node.origin.scopes}
    assert {"layer1", "layer1.0", "layer1.0.conv1", "heads.0", "heads.1", "fc"} <= paths


def test_origins_are_lines_of_forward(model: Any):
    node = model.graph["layer1.0.h"]
    assert "h = self.conv1(x)" in node.origin.describe()
    assert node.origin.describe().startswith(__file__)


def test_values_and_gradients_are_pytorchs(net: Any, model: Any):
    x = np.random.default_rng(0).standard_normal((5, 3, 6, 6))
    weights = np.random.default_rng(1).standard_normal((5, 6))

    def objective(x: Any, parameters: Any) -> Any:
        return np.sum(model(x, parameters) * weights)

    value, gradients = cr.value_and_grad(objective, wrt="parameters")(x, model.parameters)
    theirs = (net(torch.from_numpy(x)) * torch.from_numpy(weights)).sum()
    np.testing.assert_allclose(value, theirs.item(), rtol=1e-12)
    found = torch.autograd.grad(theirs, [*net.parameters()])
    for (name, _), other in zip(net.named_parameters(), found, strict=True):
        np.testing.assert_allclose(gradients[name], other.numpy(), rtol=1e-9, atol=1e-12)


def test_a_model_computes_with_plain_arrays_and_as_a_part_of_a_program(net: Any, model: Any):
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 6))
    expected = net(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(model(x), expected, rtol=1e-12)
    np.testing.assert_allclose(model(x=x, parameters=model.parameters), expected, rtol=1e-12)

    def twice(x: Any, parameters: Any) -> Any:
        first = model(x, parameters)
        second = model(2 * x, parameters)
        return first + second

    graph = cr.trace(twice, x, parameters=model.parameters)
    assert {"first", "second", "Net.z_2", "Net_1.z_2"} <= {*graph.names}


def test_in_train_mode_statistics_come_back_as_state(net: Any):
    net = Net().double().train()
    net.layer1[0].drop.p = 0.0
    model = cr.from_torch(net, cr.float64["n 3 6 6"])
    x = np.random.default_rng(0).standard_normal((4, 3, 6, 6))
    out, state = model(x, model.parameters, model.buffers)
    np.testing.assert_allclose(out, net(torch.from_numpy(x)).detach().numpy(), rtol=1e-12)
    for name, array in state.items():
        np.testing.assert_allclose(array, net.state_dict()[name].numpy(), rtol=1e-12)
    assert state["layer1.0.norm.num_batches_tracked"] == 1
    assert "layer1.0.norm.running_var_next" in model.graph.names


def test_a_model_has_both_modes(net: Any, model: Any):
    x = np.random.default_rng(0).standard_normal((4, 3, 6, 6))
    trained = model(x, model.parameters, model.buffers, key=cr.random.key(0), training=True)
    assert trained[1]["layer1.0.norm.num_batches_tracked"] == 1
    assert model.train().training and model.train() is model.train() and model.eval() is model
    assert not any(one.training for one in net.modules())
    with pytest.raises(InputError, match=r"draws random numbers \(1 operation"):
        model(x, training=True)
    np.testing.assert_array_equal(model.train().eval()(x), model(x))


def test_dropout_takes_a_key():
    module = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.25)).train()
    model = cr.from_torch(module, torch.zeros(1000, 2))
    x = np.ones((1000, 2), np.float32)
    out = model(x, key=cr.random.key(1))
    kept = out != 0
    assert abs(kept.mean() - 0.375) < 0.05
    np.testing.assert_allclose(out[kept], 1 / 0.375, rtol=1e-6)
    np.testing.assert_array_equal(out, model(x, key=cr.random.key(1)))
    assert np.any(out != model(x, key=cr.random.key(2)))
    with pytest.raises(InputError, match=r"draws random numbers \(2 operations"):
        model(x)


def test_tied_weights_are_one_parameter():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(5, 3)
            self.head = nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens: Any) -> Any:
            return self.head(self.embed(tokens))

    torch.manual_seed(0)
    module = Tied().double()
    model = cr.from_torch(module, torch.zeros(2, 4, dtype=torch.int64))
    assert [*model.parameters] == ["embed.weight"]
    tokens = np.arange(8).reshape(2, 4) % 5
    gradient = cr.grad(lambda w: np.sum(model(tokens, {"embed.weight": w}) ** 2))
    (module(torch.from_numpy(tokens)) ** 2).sum().backward()
    ours = gradient(model.parameters["embed.weight"])
    np.testing.assert_allclose(ours, module.embed.weight.grad.numpy(), rtol=1e-10)


def test_inputs_may_be_containers_and_keywords():
    class Several(nn.Module):
        def forward(self, pair: Any, *, scale: Any, shift: Any = None) -> Any:
            return {"sum": pair["b"] + scale * pair["a"], "shape": pair["a"].shape[0]}

    given = {"b": np.ones(3), "a": np.arange(3.0)}
    model = cr.from_torch(Several(), (given,), {"scale": np.array(2.0)})
    found = model(given, scale=np.array(3.0))
    np.testing.assert_allclose(found["sum"], 1 + 3 * np.arange(3.0))
    assert found["shape"] == 3


def test_dynamic_shapes_are_named_as_torch_takes_them():
    class Product(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return (x @ y).reshape(x.shape[0] * 2, -1)

    examples = (torch.zeros(4, 3), torch.zeros(3, 6))
    model = cr.from_torch(Product(), examples, dynamic_shapes=({0: "rows"}, None))
    assert str(model.inputs["x"].shape[0]) == "rows"
    x, y = np.ones((5, 3), np.float32), np.ones((3, 6), np.float32)
    assert model(x, y).shape == (10, 3)


def test_what_does_not_fit_is_refused_with_names(model: Any):
    with pytest.raises(InputError, match=r"x is float64\[2, 3, 6, 7\], and the exported program"):
        model(np.zeros((2, 3, 6, 7)))
    with pytest.raises(InputError, match="x is float32"):
        model(np.zeros((2, 3, 6, 6), np.float32))
    with pytest.raises(InputError, match=r"fc\.bias is missing"):
        parameters = {k: v for k, v in model.parameters.items() if k != "fc.bias"}
        model(np.zeros((2, 3, 6, 6)), parameters)
    with pytest.raises(InputError, match="takes x, got nothing"):
        model()
    with pytest.raises(InputError, match=r"takes a torch\.nn\.Module, got function"):
        cr.from_torch(lambda x: x, np.zeros(3))


def test_unknown_operators_are_refused_all_at_once_with_lines_and_counts():
    class Unknown(nn.Module):
        def forward(self, x: Any) -> Any:
            h = torch.special.bessel_j0(x)
            z = torch.special.bessel_j0(h)
            return torch.special.airy_ai(z)

    with pytest.raises(UnsupportedError) as caught:
        cr.from_torch(Unknown(), torch.zeros(3))
    text = str(caught.value)
    assert "Unknown uses 2 operators of PyTorch without a counterpart here" in text
    assert re.search(r"bessel_j0 \(2 times\)\n.*h = torch\.special\.bessel_j0\(x\)", text)
    assert "return torch.special.airy_ai(z)" in text


def test_what_torch_cannot_export_says_so():
    class Branch(nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(UnsupportedError, match=r"torch\.export cannot export Branch"):
        cr.from_torch(Branch(), torch.zeros(3))


def test_complex_results_are_refused_by_name():
    class Complex(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.fft.fft(x)

    with pytest.raises(UnsupportedError, match=r"a result of dtype torch\.complex64"):
        cr.from_torch(Complex(), torch.zeros(4))


def test_complex_numbers_within_a_program_are_pairs():
    class Filter(nn.Module):
        def forward(self, x: Any) -> Any:
            spectrum = torch.fft.rfft(x)
            return torch.fft.irfft(spectrum * (0.5 + 0.25j), n=x.shape[-1]) + spectrum.abs().sum()

    x = np.random.default_rng(0).standard_normal((2, 7))
    expected = Filter()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(cr.from_torch(Filter(), x)(x), expected, rtol=1e-12)


def test_without_pytorch_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"needs PyTorch.*\n.*pip install torch"):
        cr.from_torch(object(), np.zeros(3))
