"""Variants of PyTorch's database OpInfo as modules, brought in by `from_torch` and compared."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import chainrule as cr
from chainrule.graph.dtypes import is_bfloat16

torch = pytest.importorskip("torch")
database = pytest.importorskip("torch.testing._internal.common_methods_invocations")
common_utils = pytest.importorskip("torch.testing._internal.common_utils")
samples_made = pytest.importorskip("torch.testing._internal.opinfo.core")

CLOSE = 1e-9  # sums of the samples' hundreds of terms
SAMPLES, MOST = 5, 15  # the first ones, and of those behind them only such as have elements
# Results whose columns or rows have a sign that no definition fixes are compared squared.
SIGNS = {"linalg.eigh": (1,), "linalg.svd": (0, 2), "svd": (0, 2)}


def label(op: Any) -> str:
    """The name of a variant: norm-nuc of the operation norm."""
    return op.name + (f"-{op.variant_test_name}" if op.variant_test_name else "")


DIFFERENTIABLE = [
    op for op in database.op_db if op.supports_autograd and torch.float64 in op.dtypes
]


def samples_of(op: Any) -> Iterator[Any]:
    """The samples of a variant, in float64."""
    torch.manual_seed(0)
    # PyTorch keeps the stack for a GPU that has not begun (6 ms each), and looks for a unittest.
    with (
        mock.patch.object(torch.cuda, "manual_seed_all", lambda seed: None),
        mock.patch.object(torch.xpu, "manual_seed_all", lambda seed: None),
        mock.patch.object(torch.mtia, "manual_seed_all", lambda seed: None),
        mock.patch.object(samples_made, "extract_test_fn", lambda: None),
        mock.patch.object(common_utils, "extract_test_fn", lambda: None),
    ):
        yield from op.sample_inputs("cpu", torch.float64, requires_grad=True)


class Place(int):
    """The place of a tensor among the inputs of a module."""


def _placed(value: Any, found: list[Any]) -> Any:
    if isinstance(value, torch.Tensor):
        found.append(value)
        return Place(len(found) - 1)
    if isinstance(value, (list, tuple)):
        parts = [_placed(one, found) for one in value]
        return parts if type(value) is list else tuple(parts)
    if isinstance(value, dict):
        return {key: _placed(one, found) for key, one in value.items()}
    return value


def _filled(value: Any, tensors: Any) -> Any:
    if isinstance(value, Place):
        return tensors[value]
    if isinstance(value, (list, tuple)):
        return type(value)([_filled(one, tensors) for one in value])
    if isinstance(value, dict):
        return {key: _filled(one, tensors) for key, one in value.items()}
    return value


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _flat(item)]
    return [value] if isinstance(value, torch.Tensor) else []


class Called(torch.nn.Module):
    """One call of an operation, as a module of its tensors."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__()
        self.tensors: list[Any] = []
        self.op = op
        self.args = _placed((sample.input, *sample.args), self.tensors)
        self.options = _placed(dict(sample.kwargs), self.tensors)
        self.is_hermitian = "hermitian" in op.gradcheck_wrapper.__name__

    def forward(self, *tensors: Any) -> Any:
        tensors = tuple(one.clone() for one in tensors)  # some operations write into arguments
        args, options = _filled(self.args, tensors), _filled(self.options, tensors)
        function = self.op.get_op()
        if self.is_hermitian:
            results = _flat(self.op.gradcheck_wrapper(function, *args, **options))
        else:
            results = _flat(function(*args, **options))
        results = [
            torch.view_as_real(one.resolve_conj()) if one.is_complex() else one for one in results
        ]
        signs = SIGNS.get(self.op.name, ())
        return tuple(one * one if place in signs else one for place, one in enumerate(results))


def compared(op: Any, count: int = SAMPLES) -> int:
    """Compare the first samples, and more if these are empty; how many numbers it were."""
    numbers = further = 0
    for place, sample in enumerate(samples_of(op)):
        if place >= count:
            if numbers or further >= MOST:
                break
            if isinstance(sample.input, torch.Tensor) and not sample.input.numel():
                continue
            further += 1
        numbers += compare(op, sample)
    return numbers


def compare(op: Any, sample: Any) -> int:
    """Value and gradients of one sample on both sides; how many numbers were compared.

    Raises UnsupportedError where from_torch refuses the module.
    """
    module = Called(op, sample)
    tensors = [one.detach().requires_grad_(one.requires_grad) for one in module.tensors]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = module(*tensors)
        model = cr.from_torch(module, tuple(one.detach() for one in tensors))
    arrays = [one.detach().numpy() for one in tensors]
    wrt = [place for place, one in enumerate(tensors) if one.requires_grad]
    generator = np.random.default_rng(0)
    active = [place for place, one in enumerate(theirs) if one.requires_grad]
    weights = {place: generator.standard_normal(tuple(theirs[place].shape)) for place in active}

    def objective(*given: Any) -> Any:
        results = model(*given)
        total = sum((np.sum(results[i] * w) for i, w in weights.items()), 0.0)
        return total + 0.0 * np.sum(given[wrt[0]]) if wrt else total, results

    if not wrt or not active:
        return _agree("value", model(*arrays), theirs)
    run = cr.value_and_grad(objective, wrt=tuple(wrt), has_aux=True, executor="reference")
    (_, values), gradients = run(*arrays)
    count = _agree("value", values, theirs)
    total = sum((theirs[i] * torch.from_numpy(np.asarray(w))).sum() for i, w in weights.items())
    leaves = [tensors[place] for place in wrt]
    found = torch.autograd.grad(total, leaves, allow_unused=True)
    found = [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]
    return count + _agree("gradient", gradients, found)


def _agree(what: str, ours: Any, theirs: Any) -> int:
    count = 0
    assert len(ours) == len(theirs), f"{what}: {len(ours)} arrays, PyTorch has {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        one, other = np.asarray(one), other.detach()
        if other.dtype == torch.bfloat16:  # which NumPy has not
            assert is_bfloat16(one.dtype), f"{what}: {one.dtype}, PyTorch has bfloat16"
            one, other = one.astype(np.float32), other.float()
        other = other.numpy(force=True)
        assert one.shape == other.shape, f"{what}: {one.shape}, PyTorch has {other.shape}"
        assert one.dtype == other.dtype, f"{what}: {one.dtype}, PyTorch has {other.dtype}"
        finite = np.abs(other[np.isfinite(other)])
        near = CLOSE * max(1.0, float(np.max(finite, initial=0.0)))
        np.testing.assert_allclose(one, other, rtol=CLOSE, atol=near, err_msg=what)
        count += finite.size
    return count
