"""Modules of PyTorch in bfloat16 come in as they are."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr

pytestmark = [pytest.mark.peers, pytest.mark.slow]
torch = pytest.importorskip("torch")
BF16 = cr.bfloat16.dtype


def test_a_network_has_its_values_but_for_a_rounding():
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.norm = torch.nn.Embedding(11, 8), torch.nn.LayerNorm(8)
            self.mixed = torch.nn.Conv1d(8, 8, 3, padding=1)
            self.scores = torch.nn.Linear(8, 5)

        def forward(self, t):
            x = self.embedding(t)
            x = x + self.mixed(self.norm(x).transpose(1, 2)).transpose(1, 2)
            return torch.softmax(self.scores(torch.nn.functional.gelu(x)), -1)

    torch.manual_seed(0)
    module = Network().bfloat16().eval()
    t = torch.randint(0, 11, (2, 6))
    expected = module(t).detach().float().numpy()
    model = cr.from_torch(module, t)
    got = model(t.numpy())
    assert got.dtype == BF16
    assert all(one.dtype == BF16 for one in model.parameters.values())
    assert np.max(np.abs(got.astype(np.float32) - expected)) <= 2**-7 * np.max(expected)
