"""Layers and losses of PyTorch come in as this library's own functions, with PyTorch's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional

pytestmark = pytest.mark.peers

RECURRENT = {
    "LSTM": ("LSTM", {}),
    "LSTM with projection, both directions": (
        "LSTM",
        {"proj_size": 2, "num_layers": 2, "bidirectional": True},
    ),
    "LSTM without biases, batch first": ("LSTM", {"bias": False, "batch_first": True}),
    "GRU of two layers": ("GRU", {"num_layers": 2}),
    "RNN of relu": ("RNN", {"nonlinearity": "relu"}),
}
OF_EACH_KIND = ("LSTM with projection, both directions", "GRU of two layers", "RNN of relu")


class Layer(nn.Module):
    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.rnn = getattr(nn, kind)(3, 4, **options)

    def forward(self, x: Any) -> Any:
        out, last = self.rnn(x)
        return (out, *last) if isinstance(last, tuple) else (out, last)


def compare(module: Any, x: np.ndarray, model: cr.Model) -> None:
    """Values, and the gradients of the parameters."""
    ours, theirs = model(x), module(torch.from_numpy(x))
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(np.shape(one)) for one in ours]

    def objective(parameters: Any) -> Any:
        return sum(np.sum(a * w) for a, w in zip(model(x, parameters), weights, strict=True))

    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-10, atol=1e-12)
    gradients = cr.grad(objective)(model.parameters)
    sum((b * torch.from_numpy(w)).sum() for b, w in zip(theirs, weights, strict=True)).backward()
    for name, one in module.named_parameters():
        np.testing.assert_allclose(gradients[name], one.grad.numpy(), rtol=1e-9, atol=1e-12)


def marked(name: str) -> Any:
    marks = () if name in OF_EACH_KIND else pytest.mark.exhaustive
    return pytest.param(*RECURRENT[name], marks=marks, id=name)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), [marked(name) for name in RECURRENT])
def test_a_recurrent_layer_is_a_loop_of_any_length(kind: str, options: Any):
    torch.manual_seed(0)
    module = Layer(kind, **options).double()
    model = cr.from_torch(module, cr.float64["t n 3"])
    assert set(model.graph.sizes) == {"t", "n"}
    assert "scan" in {node.primitive.name for node in model.graph.nodes}
    compare(module, np.random.default_rng(1).standard_normal((5, 2, 3)), model)


@pytest.mark.slow
def test_dropout_between_recurrent_layers_takes_a_key():
    model = cr.from_torch(Layer("GRU", num_layers=3, dropout=0.5), np.zeros((2, 1, 3), np.float32))
    x = np.ones((2, 1, 3), np.float32)
    assert model.draws == 1 and model.eval().draws == 0
    first, second = (model(x, key=cr.random.key(seed))[0] for seed in (0, 1))
    assert np.any(first != second)


def test_pytorch_is_left_as_it_was():
    before = torch.ctc_loss, "lstm" in vars(torch._VF)
    cr.from_torch(nn.LSTM(3, 4), np.zeros((2, 1, 3), np.float32))
    assert (torch.ctc_loss, "lstm" in vars(torch._VF)) == before


class Aligned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 5)

    def forward(self, x: Any) -> Any:
        log_probs = self.fc(x).log_softmax(-1)
        targets = torch.tensor([1, 2, 3, 3, 4])
        return (functional.ctc_loss(log_probs, targets, (6, 5), (2, 3)),)


@pytest.mark.slow
def test_a_loss_of_alignments():
    torch.manual_seed(0)
    module = Aligned().double()
    x = np.random.default_rng(1).standard_normal((6, 2, 3))
    compare(module, x, cr.from_torch(module, x))


class Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(7, 3, mode="mean", padding_idx=0)

    def forward(self, x: Any) -> Any:
        tokens = (x.abs() * 3).long().clamp(0, 6)
        return (self.bag(tokens),)


@pytest.mark.slow
def test_bags_of_embeddings():
    torch.manual_seed(0)
    module = Bags().double()
    model = cr.from_torch(module, cr.float64["n 4"])
    compare(module, np.random.default_rng(1).standard_normal((5, 4)), model)


class Switches(nn.Module):
    """SegNet's: what was largest goes back to its place."""

    def forward(self, x: Any) -> Any:
        y, places = functional.max_pool2d(x, 3, 2, 1, return_indices=True)
        z, others = functional.adaptive_max_pool2d(x, (2, 3), return_indices=True)
        return y, places.double(), z, others.double()


@pytest.mark.slow
def test_places_of_the_largest_elements():
    x = np.random.default_rng(1).standard_normal((2, 3, 7, 8))
    model = cr.from_torch(Switches(), cr.float64["n 3 7 8"])
    for one, other in zip(model(x), Switches()(torch.from_numpy(x)), strict=True):
        np.testing.assert_array_equal(one, other.numpy())
