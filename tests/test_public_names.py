"""The names of the package: each is listed on docs/api.md, and another one is told the nearest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.numpy.elsewhere import ELSEWHERE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
ROW = re.compile(r"^\| `(?:cr\.)?(?P<name>\w+)[^|]*` \| (?P<text>.+) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str]]:
    return [(match["name"], match["text"]) for match in ROW.finditer(PAGE.read_text("utf-8"))]


def test_every_public_name_has_one_line_on_the_page() -> None:
    names = [name for name, _ in rows() if name in cr.__all__]
    assert sorted(names) == sorted(cr.__all__)


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    assert cr.__version__ == project["version"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "crossentropy",
            "module 'chainrule' has no attribute 'crossentropy'; perhaps cross_entropy",
        ),
        ("Adam", "module 'chainrule' has no attribute 'Adam': cr.adam"),
        (
            "jit",
            "module 'chainrule' has no attribute 'jit': cr.compile(f) compiles once for each "
            "combination of argument types",
        ),
        ("tanh", "module 'chainrule' has no attribute 'tanh': write np.tanh, which is traced"),
        ("psi", "module 'chainrule' has no attribute 'psi': cr.digamma"),
        ("zeros", "module 'chainrule' has no attribute 'zeros': write np.zeros"),
        ("ones", "module 'chainrule' has no attribute 'ones': write np.ones"),
        ("detach", "module 'chainrule' has no attribute 'detach': cr.stop_gradient(x)"),
        (
            "Tensor",
            "module 'chainrule' has no attribute 'Tensor': np.ndarray, which np.array makes",
        ),
        ("xyz", "module 'chainrule' has no attribute 'xyz'"),
        ("__wrapped__", "module 'chainrule' has no attribute '__wrapped__'"),
    ],
)
def test_a_name_that_is_not_there_is_explained(name: str, text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(cr, name)
    assert str(caught.value) == text


# What PyTorch computes where a hint is a formula that stands for its function.
PYTORCH = {
    "l1_loss": "F.l1_loss(x, y)",
    "smooth_l1_loss": "F.smooth_l1_loss(x, y, beta=beta)",
    "huber_loss": "F.huber_loss(x, y, delta=delta)",
    "kl_div": "F.kl_div(x, y.exp(), reduction='mean')",
    "topk": "torch.topk(x, k).values",
    "top_k": "torch.topk(x, k).values",
    "cummax": "torch.cummax(x, axis).values",
    "cummin": "torch.cummin(x, axis).values",
    "gather": "torch.gather(x, axis, indices)",
    "index_select": "torch.index_select(x, axis, chosen)",
    "masked_fill": "x.masked_fill(mask, value)",
    "clamp": "torch.clamp(x, low, high)",
    "cat": "torch.cat([x, y], dim=axis)",
    "permute": "torch.permute(x, axes)",
    "unsqueeze": "torch.unsqueeze(x, axis)",
    "mm": "torch.mm(x, y)",
    "normalize": "F.normalize(x, dim=axis)",
    "cosine_similarity": "F.cosine_similarity(x, y, dim=axis)",
    "rsqrt": "torch.rsqrt(x)",
    "lerp": "torch.lerp(x, y, weight)",
    "relu6": "F.relu6(x)",
    "hardtanh": "F.hardtanh(x)",
    "mish": "F.mish(x)",
    "softmin": "F.softmin(x, dim=-1)",
    "softsign": "F.softsign(x)",
}
NUMBERS = {"k": 2, "axis": 1, "axes": (1, 0), "low": -0.3, "high": 0.8, "value": -2.0}
NUMBERS |= {"weight": 0.3, "beta": 0.7, "delta": 0.6}


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
@pytest.mark.parametrize("name", PYTORCH)
def test_a_formula_that_stands_elsewhere_gives_pytorchs_numbers_and_gradient(name: str) -> None:
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 3, 3))
    x, y = (abs(x), abs(y)) if name == "rsqrt" else (x, y)
    arrays = {"indices": np.array([[2, 0], [1, 1], [0, 2]]), "chosen": np.array([2, 0, 2])}
    arrays["mask"] = x > 0.2

    def ours(x: Any, y: Any) -> Any:
        y = np.exp(y) if name == "kl_div" else y
        here = {"np": np, "cr": cr, "x": x, "y": y, **arrays, **NUMBERS}
        return np.sum(np.sin(eval(ELSEWHERE[name], here)))

    value, gradient = cr.value_and_grad(ours, wrt="x")(x, y)
    leaf = torch.tensor(x, requires_grad=True)
    tensors = {key: torch.tensor(array) for key, array in arrays.items()}
    there = {"torch": torch, "F": torch.nn.functional, "x": leaf, "y": torch.tensor(y)}
    expected = eval(PYTORCH[name], {**there, **tensors, **NUMBERS}).sin().sum()
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-12)
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_what_stands_elsewhere_names_what_is_here() -> None:
    for hint in ELSEWHERE.values():
        for name in re.findall(r"cr\.(\w+)", hint):
            assert hasattr(cr, name), hint


@pytest.mark.parametrize(
    ("room", "name", "hint"),
    [
        (cr.nn, "relu", ": write chainrule.relu"),
        (cr.nn, "Linear", ""),
        (cr.numpy, "sum", ": write numpy.sum, NumPy's own is traced"),
        (cr.numpy, "summ", ""),
    ],
)
def test_rooms_named_as_in_other_libraries_say_what_to_write(
    room: Any, name: str, hint: str
) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(room, name)
    assert str(caught.value) == f"module '{room.__name__}' has no attribute {name!r}{hint}"
