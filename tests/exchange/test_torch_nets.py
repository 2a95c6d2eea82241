"""Whole networks of PyTorch, brought in: twenty steps of training end where PyTorch's end."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from measured_memory import EXACT, error_of_runs

import chainrule as cr

torch = pytest.importorskip("torch")
torch_nets = pytest.importorskip("torch_nets")

pytestmark = [pytest.mark.peers]

STEPS, RATE, CLOSE = 20, 0.05, 1e-10
GENERATOR = np.random.default_rng(0)
IMAGES = (GENERATOR.standard_normal((4, 3, 16, 16)),)
TOKENS = (GENERATOR.integers(0, 32, (3, 8)),)
SEQUENCES = (GENERATOR.standard_normal((3, 4, 3)),)
PAIRS = (GENERATOR.standard_normal((2, 4, 8)), GENERATOR.standard_normal((2, 3, 8)))


class Net(NamedTuple):
    """How to make it, what it takes, and a submodule that its picture has."""

    make: Callable[[], Any]
    inputs: tuple[np.ndarray, ...]
    submodule: str


NETS = {
    "ResNet": Net(lambda: torch_nets.ResNet(4, (1, 1)), IMAGES, "layer2.0.downsample"),
    "MobileNet": Net(lambda: torch_nets.MobileNet(4, 2), IMAGES, "features.4.block.6"),
    "ConvNeXt": Net(lambda: torch_nets.ConvNeXt(4, 1), IMAGES, "stages.0"),
    "ViT": Net(lambda: torch_nets.ViT(8, 1), IMAGES, "layers.0"),
    "GPT": Net(lambda: torch_nets.GPT(depth=2), TOKENS, "h.1.attn.c_attn"),
    "Transformer": Net(torch_nets.Seq2Seq, PAIRS, "transformer.decoder.layers.0.multihead_attn"),
    "LSTM": Net(torch_nets.Recurrent, SEQUENCES, "rnn"),
    "GRU": Net(lambda: torch_nets.Recurrent(kind="GRU"), SEQUENCES, "rnn"),
}
EVERY_NET = pytest.mark.parametrize("name", NETS)


class Training:
    """A network, the model of it, and an objective with labels."""

    def __init__(self, net: Net) -> None:
        torch.manual_seed(0)
        self.module = net.make().double().train()
        self.inputs = net.inputs
        self.model = cr.from_torch(self.module, net.inputs)
        shape = np.shape(self.model(*net.inputs))
        self.labels = np.random.default_rng(1).integers(0, shape[-1], shape[:-1])

    def objective(self, parameters: Any, state: Any, inputs: Any, labels: Any) -> Any:
        logits, state = self.model(*inputs, parameters, state)
        J = cr.cross_entropy(logits, labels)
        return J, state

    def pytorch(self, module: Any) -> Any:
        logits = module(*map(torch.from_numpy, self.inputs))
        labels = torch.from_numpy(self.labels)
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


@cache
def training_of(name: str) -> Training:
    """Exported once: to export a network takes longer than all else here."""
    return Training(NETS[name])


@pytest.mark.slow
@EVERY_NET
def test_twenty_steps_are_pytorchs(name: str):
    """Objective, parameters and running statistics, in float64."""
    training = training_of(name)
    module = copy.deepcopy(training.module)
    slopes_of = cr.value_and_grad(training.objective, wrt="parameters", has_aux=True)
    step = cr.compile(slopes_of, executor="reference")  # traced once
    parameters, state = training.model.parameters, training.model.buffers
    optimizer = torch.optim.SGD(module.parameters(), RATE)
    for _ in range(STEPS):
        (J, state), slopes = step(parameters, state, training.inputs, training.labels)
        parameters = {name: one - RATE * slopes[name] for name, one in parameters.items()}
        optimizer.zero_grad()
        loss = training.pytorch(module)
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(J, loss.item(), rtol=CLOSE)
    theirs = module.state_dict()
    for name, array in {**parameters, **state}.items():
        other = theirs[name].numpy()
        near = CLOSE * max(float(np.max(np.abs(other))), 1e-3)
        np.testing.assert_allclose(array, other, rtol=CLOSE, atol=near, err_msg=name)


@pytest.mark.slow
@EVERY_NET
def test_memory_is_predicted_to_the_byte_and_the_picture_has_the_submodules(name: str):
    training = training_of(name)

    def objective(parameters: Any, inputs: Any, labels: Any) -> Any:
        return training.objective(parameters, training.model.buffers, inputs, labels)[0]

    given = {
        "parameters": training.model.parameters,
        "inputs": training.inputs,
        "labels": training.labels,
    }
    graph = cr.backward(cr.trace(objective, **given), wrt="parameters")
    assert error_of_runs(graph, {}, given, "outputs", "reference") == EXACT
    alone = training.model.graph
    paths = {scope.path for node in alone.nodes for scope in node.origin.scopes}
    submodule = NETS[name].submodule
    assert submodule in paths
    title = submodule.rpartition(".")[2]
    assert title in alone.draw(fold="none").mermaid().replace("#95;", "_")
