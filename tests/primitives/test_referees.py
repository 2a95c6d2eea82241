"""First and second derivatives of every differentiable primitive equal PyTorch's and autograd's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import referees
from derivatives import first, floats_of, put_floats, second

from chainrule.primitives.primitive import Flat
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing import sample_arrays
from chainrule.testing.samples import cases

DIFFERENTIABLE = [p for p in PRIMITIVES if not isinstance(p.derivative, Flat)]

# Both sides compute in float64 by similar formulas; what separates them is a few roundings of
# numbers of the size of the largest one.
CLOSE = 1e-12


def tried(primitive, sample):
    """Whether the sample has float64 inputs and a float64 result: others have their own tests."""
    return sample.smooth and any(a.dtype.kind == "f" for a in sample_arrays(sample))


CASES = [case for case in cases(DIFFERENTIABLE) if tried(*case[1:])]
EVERY_CASE = pytest.mark.parametrize(
    ("primitive", "sample"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)


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
@EVERY_CASE
def test_pytorch_agrees(primitive, sample):
    torch = pytest.importorskip("torch")
    entry = referees.TORCH[primitive.name]
    if isinstance(entry, str):
        pytest.skip(entry)

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

    compare(primitive, sample, derivatives_of)


def tuple_of_arrays(value, once, twice):
    return as_array(value), list(map(as_array, once)), list(map(as_array, twice))


def as_array(value):
    # force: PyTorch keeps symbolic zeros without storage
    return value.numpy(force=True) if hasattr(value, "numpy") else np.asarray(value)


@EVERY_CASE
def test_autograd_agrees(primitive, sample):
    autograd = pytest.importorskip("autograd")
    entry = referees.AUTOGRAD[primitive.name]
    if isinstance(entry, str):
        pytest.skip(entry)
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

    compare(primitive, sample, derivatives_of)
