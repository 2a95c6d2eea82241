"""One sample of PyTorch's database OpInfo on both sides: values, first and second derivatives."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import opinfo_excluded
import pytest

import chainrule as cr

torch = pytest.importorskip("torch")

# Sums of the samples' hundreds of terms; decompositions get what their conditions ask for.
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3}
Function = Callable[..., Any]

# Results by place whose columns or rows have a sign that no definition fixes.
SIGNS = {"linalg.eigh": (1,), "linalg.svd": (0, 2), "svd": (0, 2)}


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_leaf(value: Any) -> bool:
    """Whether PyTorch differentiates with respect to it."""
    return is_tensor(value) and value.dtype.is_floating_point and value.requires_grad


def tensors_of(value: Any) -> list[Any]:
    """The tensors in a container, in order."""
    if isinstance(value, dict):
        return tensors_of(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [one for item in value for one in tensors_of(item)]
    return [value] if is_tensor(value) else []


def leaves_of(value: Any, found: list[Any], belongs: Callable[[Any], bool]) -> Any:
    """The value, tensors that belong replaced by their place in `found`, others as arrays."""
    if isinstance(value, torch.Tensor):
        if belongs(value):
            found.append(value)
            return Leaf(len(found) - 1)
        return value.detach().numpy()
    if isinstance(value, (list, tuple)):
        return type(value)([leaves_of(item, found, belongs) for item in value])
    if isinstance(value, dict):
        return {key: leaves_of(item, found, belongs) for key, item in value.items()}
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
    """One sample of one operation, on both sides.

    `counts` has how many finite numbers were compared, by order: what compares nothing is seen.
    """

    def __init__(
        self,
        op: Any,
        function: Function,
        sample: Any,
        orders: int = 2,
        executor: str = "reference",
    ) -> None:
        self.op, self.function, self.sample, self.orders = op, function, sample, orders
        self.executor = executor
        self.leaves: list[Any] = []
        self.counts: Counter[int] = Counter()
        given = (sample.input, *sample.args)
        self.is_differentiated = any(map(is_leaf, tensors_of((given, dict(sample.kwargs)))))
        belongs = is_leaf if self.is_differentiated else is_tensor
        self.given = (
            leaves_of(given, self.leaves, belongs),
            leaves_of(dict(sample.kwargs), self.leaves, belongs),
        )
        self.arrays = [leaf.detach().numpy() for leaf in self.leaves]
        self.is_hermitian = "hermitian" in self.op.gradcheck_wrapper.__name__
        seed = zlib.crc32(f"{op.name}{[a.shape for a in self.arrays]}".encode())
        self.generator = np.random.default_rng(seed)

    def ours(self, *arrays: Any) -> list[Any]:
        args, kwargs = filled(self.given[0], arrays), filled(self.given[1], arrays)
        if self.is_hermitian:
            args = (args[0] + np.swapaxes(args[0], -1, -2), *args[1:])
        return self.without_signs(flat(self.function(*args, **kwargs)))

    def theirs(self) -> list[Any]:
        call = self.op.gradcheck_wrapper if self.is_hermitian else lambda op, *a, **k: op(*a, **k)
        given = (self.sample.input, *self.sample.args)
        found = flat(call(self.op.get_op(), *given, **self.sample.kwargs))
        found = [value for value in found if isinstance(value, torch.Tensor)]
        places = opinfo_excluded.RESULTS.get(self.op.name, range(len(found)))
        return self.without_signs([found[i] for i in places if i < len(found)])

    def without_signs(self, values: list[Any]) -> list[Any]:
        """The results where their sign is one's own choice (of singular vectors), squared."""
        places = SIGNS.get(self.op.name, ())
        return [value * value if i in places else value for i, value in enumerate(values)]

    def check(self) -> Counter[int]:
        """Compare all orders that both sides have; how many numbers were compared at each."""
        theirs = self.theirs()
        assert theirs, "PyTorch has no result that could be compared"
        if not self.is_differentiated:
            traced = cr.compile(self.ours, executor=self.executor)(*self.arrays)
            self.agree(0, traced, theirs, "value")
            return self.counts
        floats = [i for i, value in enumerate(theirs) if value.dtype.is_floating_point]
        weights = {i: self.generator.standard_normal(tuple(theirs[i].shape)) for i in floats}
        weights = {i: w.astype(self.arrays[0].dtype) for i, w in weights.items()}
        wrt = range(len(self.arrays))

        def objective(*arrays: Any) -> Any:
            values = self.ours(*arrays)
            total = sum((np.sum(values[i] * weights[i]) for i in floats), 0.0 * np.sum(arrays[0]))
            return total, values

        active = [i for i in floats if theirs[i].requires_grad]
        again = self.op.supports_gradgrad and self.orders > 1
        if not (self.op.supports_autograd and active and again):
            first = cr.value_and_grad(objective, wrt=wrt, has_aux=True, executor=self.executor)
            (_, values), gradients = first(*self.arrays)
            self.agree(0, values, theirs, "value")
            if self.op.supports_autograd and active:
                self.agree(1, gradients, self.their_gradients(theirs, weights), "gradient")
            return self.counts
        moves = [self.generator.standard_normal(array.shape) for array in self.arrays]

        def along(*arrays: Any) -> Any:
            parts, values = cr.grad(objective, wrt=wrt, has_aux=True)(*arrays)
            pairs = zip(parts, moves, strict=True)
            return sum(np.sum(part * move) for part, move in pairs), (values, parts)

        # All orders in one graph, which is traced once.
        second = cr.grad(along, wrt=wrt, has_aux=True, executor=self.executor)
        seconds, (values, gradients) = second(*self.arrays)
        self.agree(0, values, theirs, "value")
        found = self.their_gradients(theirs, weights, again=True)
        self.agree(1, gradients, found, "gradient")
        self.check_second(seconds, found, moves)
        return self.counts

    def their_gradients(
        self, theirs: list[Any], weights: dict[int, Any], again: bool = False
    ) -> list[Any]:
        """PyTorch's, of the weighted sum of the results that have some."""
        pairs = [(theirs[i], torch.from_numpy(np.asarray(weights[i]))) for i in weights]
        total = sum((value * weight).sum() for value, weight in pairs if value.requires_grad)
        found = torch.autograd.grad(total, self.leaves, create_graph=again, allow_unused=True)
        return zeros_for_none(found, self.leaves)

    def check_second(self, seconds: Any, found: list[Any], moves: list[np.ndarray]) -> None:
        """The gradient of the gradient along a direction."""
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
        self.agree(2, seconds, found, "second derivative")

    def agree(self, order: int, ours: Any, theirs: Any, what: str) -> None:
        """Equal shapes and numbers, NaN where they have NaN; floats of their dtype."""
        assert len(ours) == len(theirs), f"{what}: {len(ours)} arrays, PyTorch has {len(theirs)}"
        close = CLOSE[self.leaves[0].dtype] if self.is_differentiated else CLOSE[torch.float64]
        close = max(close, *opinfo_excluded.CLOSE.get(self.op.name, {0: None}))
        for one, other in zip(ours, theirs, strict=True):
            one, other = np.asarray(one), other.detach().numpy(force=True)
            assert one.shape == other.shape, f"{what}: {one.shape}, PyTorch has {other.shape}"
            if other.dtype.kind == "f" and self.op.name not in opinfo_excluded.DTYPES:
                assert one.dtype == other.dtype, f"{what}: {one.dtype}, PyTorch has {other.dtype}"
            finite = np.abs(other[np.isfinite(other)])
            near = close * max(1.0, float(np.max(finite, initial=0.0)))
            np.testing.assert_allclose(one, other, rtol=close, atol=near, err_msg=what)
            self.counts[order] += finite.size


def zeros_for_none(gradients: Any, leaves: Any) -> list[Any]:
    """The gradients, zero where nothing depends on the leaf."""
    pairs = zip(gradients, leaves, strict=True)
    return [torch.zeros_like(leaf) if one is None else one for one, leaf in pairs]
