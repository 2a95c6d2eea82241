"""Whole networks of PyTorch, brought in: twenty steps of training end where PyTorch's end."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from executors import WITHIN, needs_jax, needs_native
from measured_memory import EXACT, aligned_nbytes, arrays_nbytes, constants_nbytes, peaks_of

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


@dataclass(frozen=True, eq=False)
class Net:
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
OF_EACH_KIND = ("MobileNet", "GPT", "LSTM")  # convolutions, attention, a loop


def marked(name: str, executor: str = "native") -> list[Any]:
    """Native code for each kind of network, the reference for one."""
    chosen = {"native": OF_EACH_KIND, "reference": OF_EACH_KIND[-1:]}
    return [] if name in chosen.get(executor, ()) else [pytest.mark.exhaustive]


EVERY_NET = pytest.mark.parametrize(
    "net", [pytest.param(NETS[name], marks=marked(name), id=name) for name in NETS]
)
EVERY_NET_AND_EXECUTOR = pytest.mark.parametrize(
    ("net", "executor"),
    [
        pytest.param(
            NETS[name], executor, marks=[*marks, *marked(name, executor)], id=f"{name}-{executor}"
        )
        for name in NETS
        for executor, marks in (("reference", []), ("native", [needs_native]), ("xla", [needs_jax]))
    ],
)


@functools.cache
def exported(net: Net) -> tuple[Any, cr.Model]:
    """The network, which no test changes, and the model of it: to export takes a second."""
    torch.manual_seed(0)
    module = net.make().double().train()
    return module, cr.from_torch(module, net.inputs)


class Training:
    """A network, the model of it, and an objective with labels."""

    def __init__(self, net: Net) -> None:
        module, self.model = exported(net)
        self.module, self.inputs = copy.deepcopy(module), net.inputs
        shape = np.shape(self.model(*net.inputs))
        self.labels = np.random.default_rng(1).integers(0, shape[-1], shape[:-1])
        self.batch = {"inputs": self.inputs, "labels": self.labels}
        self.arrays = {"parameters": self.model.parameters, "buffers": self.model.buffers}

    def objective(
        self, inputs: Any, labels: Any, parameters: Any, buffers: Any, training: bool = True
    ) -> Any:
        logits, buffers = self.model(*inputs, parameters, buffers, training=training)
        J = cr.cross_entropy(logits, labels)
        return J, {"buffers": buffers}

    def step(self, executor: str) -> cr.TrainingStep:
        return cr.training_step(
            self.objective,
            "parameters",
            cr.sgd(RATE),
            state="buffers",
            executor=executor,
            **self.batch,
            **self.arrays,
        )

    def pytorch(self) -> Any:
        logits = self.module(*map(torch.from_numpy, self.inputs))
        labels = torch.from_numpy(self.labels)
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


@pytest.mark.slow
@EVERY_NET_AND_EXECUTOR
def test_twenty_steps_are_pytorchs(net: Net, executor: str):
    """Objective, parameters and running statistics, in float64; and the evaluation behind them."""
    training = Training(net)
    step = training.step(executor)
    state = step.init(training.arrays)
    optimizer = torch.optim.SGD(training.module.parameters(), RATE)
    for _ in range(STEPS):
        J = step(state, training.batch)
        optimizer.zero_grad()
        loss = training.pytorch()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(J, loss.item(), rtol=CLOSE)
    theirs = training.module.state_dict()
    for name, array in {**state["parameters"], **state["buffers"]}.items():
        other = theirs[name].numpy()
        near = CLOSE * max(float(np.max(np.abs(other))), 1e-3)
        np.testing.assert_allclose(array, other, rtol=CLOSE, atol=near, err_msg=name)
    training.module.eval()
    graph = step.evaluation
    found = graph.run({**dict(state), **training.batch}, executor=executor)["J"]
    np.testing.assert_allclose(found, training.pytorch().item(), rtol=CLOSE)


@pytest.mark.slow
@pytest.mark.usefixtures("only_what_numpy_sees")
@WITHIN  # what XLA takes is no memory of NumPy
@EVERY_NET
def test_memory_of_a_step_is_predicted_to_the_byte(net: Net, executor: str):
    training = Training(net)
    step = training.step(executor)
    state, report = step.init(training.arrays), step.memory()
    there = arrays_nbytes(dict(state)) + arrays_nbytes(training.batch) + constants_nbytes(report)
    expected = report.main.peak_nbytes - there + aligned_nbytes(report, recycled_results=False)
    peaks = peaks_of(lambda: lambda: step(state, training.batch))
    # A call looks at arguments in containers, and then has the optimizer's numbers in arrays.
    numbers = 8 * len(step.scalars) * (executor == "native")
    assert [peak - numbers - expected for peak in peaks] == EXACT


@pytest.mark.slow
@EVERY_NET
def test_the_picture_has_the_submodules(net: Net):
    graph = Training(net).model.graph
    paths = {scope.path for node in graph.nodes for scope in node.origin.scopes}
    assert net.submodule in paths
    title = net.submodule.rpartition(".")[2]
    assert title in graph.draw(fold="none").mermaid().replace("#95;", "_")
