"""`load_weights` reads files of `torch.save`, and says what to do where it cannot."""

from __future__ import annotations

import sys
import zipfile
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


def test_what_is_read_are_the_parameters_of_a_model_and_they_go_back_by_name(
    module: Any, tmp_path: Path
):
    safetensors = pytest.importorskip("safetensors.torch")
    torch.save(module.state_dict(), tmp_path / "net.pt")
    module.eval()
    model = cr.from_torch(module, cr.float32["n 3"])
    found = cr.load_weights(tmp_path / "net.pt")
    parameters = {name: found[name] for name in model.parameters}
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(model(x, parameters), model(x))
    cr.save_weights(tmp_path / "net.safetensors", {**model.parameters, **model.buffers})
    other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    other.load_state_dict(safetensors.load_file(tmp_path / "net.safetensors"))
    np.testing.assert_array_equal(other[0].weight.detach(), module[0].weight.detach())


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


def _cyclic() -> Any:
    held: dict[str, Any] = {"w": torch.zeros(1)}
    held["again"] = held
    return held


def _doubled() -> Any:
    held: Any = torch.zeros(1)
    for _ in range(40):
        held = [held, held]
    return held


EVIL = {
    "repeated": (lambda: {"w": torch.zeros(1).expand(1 << 40)}, "repeat their numbers: from w on"),
    "shared": (
        lambda: dict.fromkeys("abcdefghijkl", torch.zeros(9999)),
        "from i on they take more",
    ),
    "cyclic": (_cyclic, "hold themselves"),
    "doubled": (_doubled, "or more than 999 parts"),
    "one name": (lambda: {"a": {"b": torch.zeros(1)}, "a.b": torch.ones(1)}, "are called 'a.b'"),
    "program": (lambda: {"w": torch.nn.ReLU()}, "it holds torch.nn.modules.activation.ReLU, and"),
}


@pytest.mark.parametrize("name", EVIL)
def test_a_small_file_that_means_much_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("chainrule.data.torch_file._MOST", 999)
    monkeypatch.setattr("chainrule.data.torch_file._ALWAYS", 0)
    make, said = EVIL[name]
    torch.save(make(), tmp_path / "net.pt")
    with pytest.raises(DataFileError, match=said):
        cr.load_weights(tmp_path / "net.pt")


def test_a_packed_archive_is_refused(tmp_path: Path):
    torch.save({"w": torch.zeros(1 << 20)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "net.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    with pytest.raises(DataFileError, match=r"has [\d,]+ bytes and claims to hold 4,19"):
        cr.load_weights(tmp_path / "net.pt")


def test_bfloat16_of_safetensors_is_widened(tmp_path: Path):
    safetensors = pytest.importorskip("safetensors.torch")
    held = {"b": torch.tensor([1.5, -2.0, 3e38]).bfloat16().reshape(3, 1), "a": torch.ones(2)}
    safetensors.save_file(held, tmp_path / "net.safetensors")
    found = cr.load_weights(tmp_path / "net.safetensors")
    for name, tensor in held.items():
        np.testing.assert_array_equal(found[name], tensor.float().numpy())
    safetensors.save_file({"w": torch.ones(2).to(torch.float8_e5m2)}, tmp_path / "net.safetensors")
    with pytest.raises(DataFileError, match=r"w of .* is of type F8_E5M2"):
        cr.load_weights(tmp_path / "net.safetensors")


def test_without_pytorch_the_message_says_what_to_do(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    torch.save(module.state_dict(), tmp_path / "net.pt")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DataFileError, match=r"is a file of torch\.save") as caught:
        cr.load_weights(tmp_path / "net.pt")
    assert "safetensors.torch.save_file" in str(caught.value)
