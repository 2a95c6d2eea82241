"""Models that PyTorch's exporter writes: PyTorch's numbers, for all sizes; and they train."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.peers, pytest.mark.slow]
pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

import chainrule as cr  # noqa: E402


class Images(torch.nn.Module):
    """Convolutions of all kinds, normalisations, resizing."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.c1 = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.bn = nn.BatchNorm2d(8)
        self.c2 = nn.Conv2d(8, 8, 3, groups=4, dilation=2, padding=2)
        self.up = nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1)
        self.gn = nn.GroupNorm(2, 4)
        self.fc = nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        functional = torch.nn.functional
        x = torch.relu(self.bn(self.c1(x)))
        x = x + functional.silu(self.c2(x))
        x = self.gn(self.up(x))
        x = functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.fc(functional.gelu(x))


class Words(torch.nn.Module):
    """Recurrent layers and a layer of a transformer over a sequence whose length is fixed."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.e = nn.Embedding(11, 8)
        self.l = nn.LSTM(8, 6, bidirectional=True, batch_first=True)
        self.g = nn.GRU(12, 6, batch_first=True)
        layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
        self.t = nn.TransformerEncoder(layer, 1)
        self.o = nn.Linear(6, 11)

    def forward(self, x: Any) -> Any:
        h, _ = self.l(self.e(x))
        h, _ = self.g(h)
        return self.o(self.t(h))


def exported(net: Any, x: Any, axes: dict[int, str]) -> cr.Model:
    torch.manual_seed(0)
    for one in net.parameters():
        torch.nn.init.normal_(one, std=0.3)  # else the exporter keeps equal layers once
    file = io.BytesIO()
    options: Any = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": axes}}
    torch.onnx.export(net.eval(), (x,), file, dynamo=False, opset_version=17, **options)
    return cr.from_onnx(file.getvalue())


IMAGES = torch.randn(2, 3, 16, 12)
WORDS = torch.randint(0, 11, (3, 7))
CASES = [(Images, IMAGES, {0: "n", 2: "h", 3: "w"}), (Words, WORDS, {0: "n"})]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("net", "x", "axes"), CASES, ids=["images", "words"])
def test_an_exported_model(net: Any, x: Any, axes: dict[int, str]) -> None:
    net = net()
    model = exported(net, x, axes)
    assert model.graph.sizes == tuple(axes.values())
    other = x[:1, ..., :6] if x.ndim == 4 else x[:2]
    for one in (x, other):
        wanted = net(one).detach().numpy()
        for executor in ("reference", "native"):
            run = model.graph.run({**model.parameters, "x": one.numpy()}, executor=executor)
            np.testing.assert_allclose(run["y"], wanted, rtol=1e-4, atol=1e-5)

    def objective(params: Any, x: Any) -> Any:
        J = np.mean(model(x, parameters=params) ** 2)
        return J

    graph = cr.backward(cr.trace(objective, params=model.parameters, x=x.numpy()), wrt="params")
    found = graph.run(params=model.parameters, x=x.numpy())
    (net(x) ** 2).mean().backward()
    for name, one in net.named_parameters():
        if name in model.parameters:
            gradient = found[f"dJ/d(params[{name!r}])"]
            np.testing.assert_allclose(gradient, one.grad.numpy(), rtol=1e-3, atol=1e-5)
