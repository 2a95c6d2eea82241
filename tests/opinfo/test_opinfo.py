"""Values, first and second derivatives equal PyTorch's on every sample of its database OpInfo."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import opinfo_elementwise
import opinfo_excluded
import opinfo_movement
import opinfo_networks
import opinfo_products
import opinfo_reductions
import pytest

import chainrule as cr

torch = pytest.importorskip("torch")
database = pytest.importorskip("torch.testing._internal.common_methods_invocations")

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),  # what PyTorch will change
    pytest.mark.filterwarnings("ignore:Using torch:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.qr:UserWarning"),
    pytest.mark.filterwarnings("ignore:Using padding:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.searchsorted:UserWarning"),
]

TABLE: dict[str, Callable[..., Any]] = {
    **opinfo_elementwise.TABLE,
    **opinfo_reductions.TABLE,
    **opinfo_movement.TABLE,
    **opinfo_products.TABLE,
    **opinfo_networks.TABLE,
}
EXCLUDED = opinfo_excluded.NAMES
NAMESPACES = (np, np.linalg, cr)

# Sums of the samples' hundreds of terms; decompositions get what their conditions ask for.
CLOSE = 1e-9


def own_name(name: str) -> str:
    """PyTorch's name without its module: relu of nn.functional.relu."""
    return name.rpartition(".")[2]


def is_ours(name: str) -> bool:
    """Whether NumPy, its linalg or chainrule has a function of this name."""
    module = name.rpartition(".")[0]
    if name.startswith("_") or module not in ("", "linalg", "nn.functional"):
        return False
    spaces = {"": NAMESPACES, "linalg": (np.linalg,), "nn.functional": (cr,)}[module]
    return any(callable(getattr(space, own_name(name), None)) for space in spaces)


OPERATIONS = [op for op in database.op_db if op.name in TABLE and torch.float64 in op.dtypes]


# Results by place whose columns or rows have a sign that no definition fixes.
SIGNS = {"linalg.eigh": (1,), "linalg.svd": (0, 2)}


def leaves_of(value: Any, found: list[Any]) -> Any:
    """The value with each float tensor replaced by its place in `found`, others as arrays."""
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.float64 and value.requires_grad:
            found.append(value)
            return Leaf(len(found) - 1)
        return value.detach().numpy()
    if isinstance(value, (list, tuple)):
        return type(value)([leaves_of(item, found) for item in value])
    if isinstance(value, dict):
        return {key: leaves_of(item, found) for key, item in value.items()}
    return value


def shown(value: Any) -> str:
    """An argument as a message has it: of tensors the shape."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(shown, value))}]"
    return repr(value)


class Leaf(int):
    """The place of a float tensor among the arguments that are differentiated."""


def filled(value: Any, arrays: Any) -> Any:
    """The inverse of `leaves_of`."""
    if isinstance(value, Leaf):
        return arrays[value]
    if isinstance(value, (list, tuple)):
        return type(value)([filled(item, arrays) for item in value])
    if isinstance(value, dict):
        return {key: filled(item, arrays) for key, item in value.items()}
    return value


def flat(value: Any) -> list[Any]:
    """The arrays of a result, containers taken apart."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


class Compared:
    """One sample of one operation, on both sides."""

    def __init__(self, op: Any, sample: Any) -> None:
        self.op, self.sample = op, sample
        self.leaves: list[Any] = []
        given = (sample.input, *sample.args)
        self.given = leaves_of(given, self.leaves), leaves_of(dict(sample.kwargs), self.leaves)
        self.arrays = [leaf.detach().numpy() for leaf in self.leaves]
        self.is_hermitian = "hermitian" in self.op.gradcheck_wrapper.__name__
        seed = zlib.crc32(f"{op.name}{[a.shape for a in self.arrays]}".encode())
        self.generator = np.random.default_rng(seed)

    def ours(self, *arrays: Any) -> list[Any]:
        args, kwargs = filled(self.given[0], arrays), filled(self.given[1], arrays)
        if self.is_hermitian:
            args = (args[0] + np.swapaxes(args[0], -1, -2), *args[1:])
        return self.without_signs(flat(TABLE[self.op.name](*args, **kwargs)))

    def without_signs(self, values: list[Any]) -> list[Any]:
        """The results where their sign is one's own choice (of singular vectors), squared."""
        places = SIGNS.get(self.op.name, ())
        return [value * value if i in places else value for i, value in enumerate(values)]

    def check(self) -> int:
        """Compare; the highest order that was compared."""
        call = self.op.gradcheck_wrapper if self.is_hermitian else lambda op, *a, **k: op(*a, **k)
        given = (self.sample.input, *self.sample.args)
        theirs = flat(call(self.op.get_op(), *given, **self.sample.kwargs))
        theirs = [value for value in theirs if isinstance(value, torch.Tensor)]
        theirs = self.without_signs(theirs)
        if not self.leaves:
            agree([np.asarray(value) for value in self.ours()], theirs, "value")
            return 0
        floats = [i for i, value in enumerate(theirs) if value.dtype == torch.float64]
        weights = {i: self.generator.standard_normal(tuple(theirs[i].shape)) for i in floats}
        wrt = range(len(self.arrays))

        def objective(*arrays: Any) -> Any:
            values = self.ours(*arrays)
            total = sum((np.sum(values[i] * weights[i]) for i in floats), 0.0 * np.sum(arrays[0]))
            return total, values

        first = cr.value_and_grad(objective, wrt=wrt, has_aux=True, executor="reference")
        (_, values), gradients = first(*self.arrays)
        agree([np.asarray(value) for value in values], theirs, "value")
        active = [i for i in floats if theirs[i].requires_grad]
        if not (self.op.supports_autograd and active):
            return 0
        total = sum((theirs[i] * torch.from_numpy(np.asarray(weights[i]))).sum() for i in active)
        again = self.op.supports_gradgrad
        found = torch.autograd.grad(total, self.leaves, create_graph=again, allow_unused=True)
        found = zeros_for_none(found, self.leaves)
        agree(gradients, found, "gradient")
        if not again:
            return 1
        moves = [self.generator.standard_normal(array.shape) for array in self.arrays]

        def along(*arrays: Any) -> Any:
            parts = cr.grad(objective, wrt=wrt, has_aux=True)(*arrays)[0]
            return sum(np.sum(part * move) for part, move in zip(parts, moves, strict=True))

        seconds = cr.grad(along, wrt=wrt, executor="reference")(*self.arrays)
        total = sum(
            (g * torch.from_numpy(np.asarray(m))).sum() for g, m in zip(found, moves, strict=True)
        )
        if total.requires_grad:
            found = torch.autograd.grad(total, self.leaves, allow_unused=True)
        else:
            found = [None] * len(self.leaves)
        found = zeros_for_none(found, self.leaves)
        if self.op.name in opinfo_excluded.NAN_ALLOWED:
            pairs = zip(seconds, found, strict=True)
            seconds = [
                np.where(np.isnan(other.numpy(force=True)), np.nan, one) for one, other in pairs
            ]
        agree(seconds, found, "second derivative")
        return 2


def zeros_for_none(gradients: Any, leaves: Any) -> list[Any]:
    """The gradients, zero where nothing depends on the leaf."""
    pairs = zip(gradients, leaves, strict=True)
    return [torch.zeros_like(leaf) if one is None else one for one, leaf in pairs]


def agree(ours: Any, theirs: Any, what: str) -> None:
    """Equal shapes and numbers, NaN where they have NaN."""
    assert len(ours) == len(theirs), f"{what}: {len(ours)} arrays, PyTorch has {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        one, other = np.asarray(one), other.detach().numpy(force=True)
        assert one.shape == other.shape, f"{what}: {one.shape}, PyTorch has {other.shape}"
        finite = np.abs(other[np.isfinite(other)])
        close = CLOSE * max(1.0, float(np.max(finite, initial=0.0)))
        np.testing.assert_allclose(one, other, rtol=CLOSE, atol=close, err_msg=what)


def names_of(ops: Any) -> list[str]:
    return [op.name + (f"-{op.variant_test_name}" if op.variant_test_name else "") for op in ops]


COUNTS = {0: 0, 1: 0, 2: 0, "left out": 0}
SOME = 6  # samples of each operation; the slow tier has the others
EVERY_OPERATION = pytest.mark.parametrize("op", OPERATIONS, ids=names_of(OPERATIONS))


@EVERY_OPERATION
def test_samples_agree_at_orders_0_1_and_2(op: Any):
    assert compare(op, 0, SOME), "no sample was compared"


@pytest.mark.slow
@EVERY_OPERATION
def test_further_samples_agree_at_orders_0_1_and_2(op: Any):
    compare(op, SOME, None)


def compare(op: Any, begin: int, end: int | None) -> int:
    """Compare a part of the samples of an operation; how many it were."""
    compared = 0
    torch.manual_seed(0)
    attention = torch.nn.attention  # of which this kind alone has second derivatives
    with attention.sdpa_kernel(attention.SDPBackend.MATH):
        for sample in islice(samples_of(op), begin, end):
            try:
                COUNTS[Compared(op, sample).check()] += 1
            except Exception as error:
                given = (sample.input, *sample.args, *sample.kwargs.items())
                error.add_note(f"{op.name}({', '.join(shown(value) for value in given)})")
                raise
            compared += 1
    return compared


def samples_of(op: Any) -> Iterator[Any]:
    """The samples that are compared: without those left out for a reason."""
    for sample in op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd):
        if any(leave(op, sample) for leave, _ in opinfo_excluded.SAMPLES.get(op.name, ())):
            COUNTS["left out"] += 1
        else:
            yield sample


def test_every_operation_of_our_names_is_compared_or_excluded_with_a_reason():
    names = sorted({op.name for op in database.op_db if is_ours(op.name)})
    missing = [name for name in names if name not in TABLE and name not in EXCLUDED]
    assert not missing, f"add to the tables of tests/opinfo: {', '.join(missing)}"
    known = {op.name for op in database.op_db}
    assert not [name for name in (*TABLE, *EXCLUDED) if name not in known]
    assert not set(TABLE) & set(EXCLUDED)


def test_the_counts_are_printed(capsys: pytest.CaptureFixture[str]):
    with capsys.disabled():
        print(f"\nOpInfo: {len(OPERATIONS)} operations; samples by order compared: {COUNTS}")
