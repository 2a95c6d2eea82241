"""`load_weights` reads files of `torch.save`, and says what to do where it cannot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import DataFileError

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.peers


@pytest.fixture
def module() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_state_dict_is_read_by_name(module: Any, tmp_path: Path, zipped: bool):
    path = tmp_path / "net.pt"
    torch.save(module.state_dict(), path, _use_new_zipfile_serialization=zipped)
    found = cr.load_weights(path)
    assert list(found) == list(module.state_dict())
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(found[name], tensor.numpy())
        assert found[name].dtype == tensor.numpy().dtype


def test_what_is_read_are_the_parameters_of_a_model(module: Any, tmp_path: Path):
    torch.save(module.state_dict(), tmp_path / "net.pt")
    module.eval()
    model = cr.from_torch(module, cr.float32["n 3"])
    found = cr.load_weights(tmp_path / "net.pt")
    parameters = {name: found[name] for name in model.parameters}
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(model(x, parameters), model(x))


def test_tensors_in_containers_are_named_by_path_and_bfloat16_is_widened(tmp_path: Path):
    held = {
        "model": {"w": torch.ones(2, dtype=torch.bfloat16)},
        "steps": [torch.tensor(3)],
        "lr": 1,
    }
    torch.save(held, tmp_path / "all.pt")
    found = cr.load_weights(tmp_path / "all.pt")
    assert list(found) == ["model.w", "steps.0"]
    assert found["model.w"].dtype == np.float32 and found["steps.0"] == 3


def test_saved_weights_go_back_to_pytorch_by_their_names(module: Any, tmp_path: Path):
    safetensors = pytest.importorskip("safetensors.torch")
    model = cr.from_torch(module.eval(), cr.float32["n 3"])
    cr.save_weights(tmp_path / "net.safetensors", {**model.parameters, **model.buffers})
    other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    other.load_state_dict(safetensors.load_file(tmp_path / "net.safetensors"))
    np.testing.assert_array_equal(other[0].weight.detach(), module[0].weight.detach())


def test_a_whole_module_is_refused(module: Any, tmp_path: Path):
    torch.save(module, tmp_path / "net.pt")
    with pytest.raises(DataFileError, match=r"does not read .* with weights_only=True") as caught:
        cr.load_weights(tmp_path / "net.pt")
    assert "torch.save(module.state_dict(), path)" in str(caught.value)


def test_a_file_without_tensors_is_refused(tmp_path: Path):
    torch.save({"lr": 0.1}, tmp_path / "net.pt")
    with pytest.raises(DataFileError, match="has no tensors"):
        cr.load_weights(tmp_path / "net.pt")


def test_a_damaged_file_is_refused(module: Any, tmp_path: Path):
    path = tmp_path / "net.pt"
    torch.save(module.state_dict(), path)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DataFileError, match="PyTorch does not read"):
        cr.load_weights(path)


def test_without_pytorch_the_message_says_what_to_do(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    torch.save(module.state_dict(), tmp_path / "net.pt")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DataFileError, match=r"is a file of torch\.save") as caught:
        cr.load_weights(tmp_path / "net.pt")
    assert "safetensors.torch.save_file" in str(caught.value)
