"""First and second derivatives of every differentiable primitive equal PyTorch's and autograd's."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import referees
from derivatives import first, floats_of, put_floats, second
from every_sample import for_every_sample

from chainrule.primitives.primitive import Flat
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing import sample_arrays

DIFFERENTIABLE = [p for p in PRIMITIVES if not isinstance(p.derivative, Flat)]

# Both sides compute in float64 by similar formulas; what separates them is a few roundings of
# numbers of the size of the largest one.
CLOSE = 1e-12


def tried(primitive, sample):
    """Whether the sample has float64 inputs and a float64 result: others have their own tests."""
    return sample.smooth and any(a.dtype.kind == "f" for a in sample_arrays(sample))


def compared_with(table):
    """A mark: the primitives for which the table has the same function, not a reason."""
    chosen = [p for p in DIFFERENTIABLE if callable(table.get(p.name))]
    return pytest.mark.parametrize("primitive", chosen, ids=lambda one: one.name)


@pytest.mark.parametrize("table", [referees.TORCH, referees.AUTOGRAD], ids=["torch", "autograd"])
def test_every_differentiable_primitive_has_a_referee_or_a_reason(table):
    missing = [p.name for p in DIFFERENTIABLE if p.name not in table]
    assert not missing, f"add to tests/primitives/referees.py: {', '.join(missing)}"


def test_every_differentiable_primitive_has_at_least_one_referee():
    for primitive in DIFFERENTIABLE:
        tables = (referees.TORCH, referees.AUTOGRAD)
        assert any(callable(table[primitive.name]) for table in tables), primitive.name


def seeds(arrays, shape):
    generator = np.random.default_rng(5)
    seed = np.asarray(generator.standard_normal(shape))
    return seed, [np.asarray(generator.standard_normal(x.shape)) for x in floats_of(arrays)]


def agree(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        scale = np.max(np.abs(other), initial=0)
        assert np.all(np.abs(one - other) <= CLOSE * max(scale, 1)), (one, other)


def compare(primitive, sample, derivatives_of):
    params = dict(sample.params)
    arrays = sample_arrays(sample, seed=3)
    out = np.asarray(primitive.evaluate(np, *arrays, **params))
    seed, directions = seeds(arrays, out.shape)
    value, once, twice = derivatives_of(arrays, seed, directions, params)
    agree([out], [value])
    agree(first(primitive, arrays, seed, **params), once)
    agree(second(primitive, arrays, seed, directions, **params), twice)


@pytest.mark.peers
@compared_with(referees.TORCH)
def test_pytorch_agrees(primitive):
    torch = pytest.importorskip("torch")
    entry: Any = referees.TORCH[primitive.name]

    def derivatives_of(arrays, seed, directions, params):
        tensors = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        floats = [t for t in tensors if t.requires_grad]
        value = entry(torch, *tensors, **params)
        once = torch.autograd.grad(
            value, floats, torch.tensor(seed), create_graph=True, materialize_grads=True
        )
        along = sum(torch.sum(g * torch.tensor(v)) for g, v in zip(once, directions, strict=True))
        twice = [torch.zeros_like(x) for x in floats]
        if along.requires_grad:
            twice = torch.autograd.grad(along, floats, materialize_grads=True)
        return tuple_of_arrays(value.detach(), [g.detach() for g in once], twice)

    for_every_sample(primitive, partial(compare, derivatives_of=derivatives_of), tried)


def tuple_of_arrays(value, once, twice):
    return as_array(value), list(map(as_array, once)), list(map(as_array, twice))


def as_array(value):
    # force: PyTorch keeps symbolic zeros without storage
    return value.numpy(force=True) if hasattr(value, "numpy") else np.asarray(value)


@pytest.mark.sweep(11)
@compared_with(referees.AUTOGRAD)
def test_autograd_agrees(primitive):
    autograd = pytest.importorskip("autograd")
    entry: Any = referees.AUTOGRAD[primitive.name]
    anp = autograd.numpy

    def derivatives_of(arrays, seed, directions, params):
        def value_at(floats):
            return entry(anp, *put_floats(arrays, floats), **params)

        def cotangents(floats):
            return autograd.make_vjp(value_at, 0)(floats)[0](seed)

        def along(floats):
            pairs = zip(cotangents(floats), directions, strict=True)
            return sum(anp.sum(g * v) for g, v in pairs)

        floats = floats_of(arrays)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Output seems independent of input")
            return tuple_of_arrays(
                value_at(floats), cotangents(floats), autograd.grad(along)(floats)
            )

    for_every_sample(primitive, partial(compare, derivatives_of=derivatives_of), tried)
