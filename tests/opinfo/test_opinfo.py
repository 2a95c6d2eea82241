"""Values, first and second derivatives equal PyTorch's on samples of its database OpInfo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import opinfo_activations
import opinfo_elementwise
import opinfo_excluded
import opinfo_images
import opinfo_indexing
import opinfo_losses
import opinfo_masked
import opinfo_movement
import opinfo_networks
import opinfo_products
import opinfo_reductions
import pytest
from executors import needs_jax
from opinfo_compared import Compared, shown

import chainrule as cr

torch = pytest.importorskip("torch")
database = pytest.importorskip("torch.testing._internal.common_methods_invocations")
common_utils = pytest.importorskip("torch.testing._internal.common_utils")
samples_made = pytest.importorskip("torch.testing._internal.opinfo.core")

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),  # what PyTorch will change
    pytest.mark.filterwarnings("ignore:Using torch:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.qr:UserWarning"),
    pytest.mark.filterwarnings("ignore:Using padding:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.searchsorted:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.triangular_solve:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.lu:UserWarning"),
    pytest.mark.filterwarnings("ignore:index_reduce:UserWarning"),
    pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning"),
    pytest.mark.filterwarnings("ignore:.nn.functional.upsample_:UserWarning"),
]

TABLE: dict[str, Callable[..., Any]] = {
    **opinfo_elementwise.TABLE,
    **opinfo_reductions.TABLE,
    **opinfo_movement.TABLE,
    **opinfo_indexing.TABLE,
    **opinfo_products.TABLE,
    **opinfo_activations.TABLE,
    **opinfo_networks.TABLE,
    **opinfo_images.TABLE,
    **opinfo_losses.TABLE,
    **opinfo_masked.TABLE,
}
EXCLUDED = opinfo_excluded.NAMES


def label(op: Any) -> str:
    """The name of a variant: norm-nuc of the operation norm."""
    return op.name + (f"-{op.variant_test_name}" if op.variant_test_name else "")


def dtype_of(op: Any) -> Any:
    """What its samples are made of: float64, or what it takes instead."""
    return next((t for t in (torch.float64, torch.int64, torch.bool) if t in op.dtypes), None)


def is_differentiable(op: Any) -> bool:
    return op.supports_autograd and torch.float64 in op.dtypes


def is_differentiable_twice(op: Any) -> bool:
    return is_differentiable(op) and op.supports_gradgrad


OPERATIONS = [
    op
    for op in database.op_db
    if op.name in TABLE and label(op) not in EXCLUDED and dtype_of(op) is not None
]
DIFFERENTIABLE = [op for op in OPERATIONS if is_differentiable(op)]
IN_FLOAT32 = [
    op
    for op in DIFFERENTIABLE
    if torch.float32 in op.dtypes and op.name not in opinfo_excluded.FLOAT32
]
COUNTS = {0: 0, 1: 0, 2: 0, "left out": 0}
SOME = 1  # samples of each operation
FURTHER = 2  # of the others, as far apart as they are: in the slow tier
SOME_IN_FLOAT32 = 1
EVERY_OPERATION = pytest.mark.parametrize("op", OPERATIONS, ids=map(label, OPERATIONS))
OF_EACH_FUNCTION = [id(op) for op in {TABLE[op.name]: op for op in OPERATIONS[::-1]}.values()]
ONE_OF_EACH = pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, marks=[] if id(op) in OF_EACH_FUNCTION else pytest.mark.exhaustive)
        for op in OPERATIONS
    ],
    ids=map(label, OPERATIONS),
)


@ONE_OF_EACH  # variants that are the same function here are in the exhaustive tier
def test_samples_agree_at_orders_0_1_and_2(op: Any):
    """The first few, and more until there is a number of each order."""
    check_samples(op, "reference")


@needs_jax
@pytest.mark.sweep(100)
@pytest.mark.slow
@EVERY_OPERATION
def test_samples_agree_at_orders_0_1_and_2_on_xla(op: Any):
    """As above, in the bounds of NumPy: a program is compiled for each."""
    check_samples(op, "xla")


def check_samples(op: Any, executor: str) -> None:
    numbers: Counter[int] = Counter()
    orders = [0, *([1] * is_differentiable(op)), *([2] * is_differentiable_twice(op))]
    for count, found in enumerate(compared(op, dtype_of(op), executor=executor), 1):
        numbers += found
        if count >= SOME and all(numbers[order] for order in orders):
            break
    missing = [order for order in orders if not numbers[order]]
    assert not missing, f"of the orders {missing} no number was compared"


@pytest.mark.sweep(7)
@pytest.mark.slow
@EVERY_OPERATION
def test_further_samples_agree_at_orders_0_1_and_2(op: Any):
    for _ in compared(op, dtype_of(op), chosen=further):
        pass


@needs_jax
@pytest.mark.exhaustive
@EVERY_OPERATION
def test_further_samples_agree_on_xla(op: Any):
    for _ in compared(op, dtype_of(op), chosen=further, executor="xla"):
        pass


def further(samples: Iterator[Any]) -> list[Any]:
    """Some of those after the first, from begin to end: the options change from one to the next."""
    others = list(samples)[SOME:]
    return others[:: -(-len(others) // FURTHER) or 1]


@pytest.mark.sweep(7)
@pytest.mark.slow
@pytest.mark.parametrize("op", IN_FLOAT32, ids=map(label, IN_FLOAT32))
def test_samples_of_float32_agree_at_orders_0_and_1_and_stay_float32(op: Any):
    check_float32(op, "reference")


@needs_jax
@pytest.mark.exhaustive
@pytest.mark.parametrize("op", IN_FLOAT32, ids=map(label, IN_FLOAT32))
def test_samples_of_float32_agree_on_xla(op: Any):
    check_float32(op, "xla")


def check_float32(op: Any, executor: str) -> None:
    numbers: Counter[int] = Counter()
    samples = compared(op, torch.float32, orders=1, executor=executor)
    for count, found in enumerate(samples, 1):
        numbers += found
        if count >= SOME_IN_FLOAT32 and numbers[0] and numbers[1]:
            break
    assert numbers[0] and numbers[1], "no number was compared"


def compared(
    op: Any,
    dtype: Any,
    orders: int = 2,
    chosen: Callable[..., Any] = iter,
    executor: str = "reference",
) -> Iterator[Counter[int]]:
    """Compare sample by sample: how many finite numbers it were at each order."""
    attention = torch.nn.attention  # of which this kind alone has second derivatives
    # PyTorch sets a seed for each sample, and for a GPU not begun keeps the stack: 6 ms each.  It
    # looks for the unittest that asks for samples in all modules of the stack: 80 ms each time.
    with (
        attention.sdpa_kernel(attention.SDPBackend.MATH),
        mock.patch.object(torch.cuda, "manual_seed_all", lambda seed: None),
        mock.patch.object(torch.xpu, "manual_seed_all", lambda seed: None),
        mock.patch.object(torch.mtia, "manual_seed_all", lambda seed: None),
        mock.patch.object(samples_made, "extract_test_fn", lambda: None),
        mock.patch.object(common_utils, "extract_test_fn", lambda: None),
    ):
        torch.manual_seed(0)
        for sample in chosen(samples_of(op, dtype)):
            try:
                found = Compared(op, TABLE[op.name], sample, orders, executor).check()
            except Exception as error:
                given = (sample.input, *sample.args, *sample.kwargs.items())
                error.add_note(f"{op.name}({', '.join(shown(value) for value in given)})")
                raise
            COUNTS[max(found, default=0)] += 1
            yield found


def samples_of(op: Any, dtype: Any) -> Iterator[Any]:
    """The samples that are compared: without those left out for a reason."""
    for sample in op.sample_inputs("cpu", dtype, requires_grad=is_differentiable(op)):
        if any(leave(op, sample) for leave, _ in opinfo_excluded.SAMPLES.get(op.name, ())):
            COUNTS["left out"] += 1
        else:
            yield sample


def tripled_slope(x: Any) -> Any:
    """tanh, with a gradient that is right and a second derivative that is not."""
    slope = 1 - np.tanh(x) ** 2
    other = 3 * slope - 2 * cr.stop_gradient(slope)
    return cr.stop_gradient(np.tanh(x)) + linear(other, x)


def linear(slope: Any, x: Any) -> Any:
    """0, with this slope: what the slope depends on counts at the second order alone."""
    return slope * (x - cr.stop_gradient(x))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda x: np.tanh(x) * (1 + 1e-6), "value"),
        (lambda x: np.tanh(x) + linear(1e-6, x), "gradient"),
        (tripled_slope, "second derivative"),
        (lambda x: np.tanh(x).astype(np.float32), "float32"),
    ],
)
def test_a_planted_fault_is_found(fault: Callable[..., Any], message: str):
    (op,) = [op for op in OPERATIONS if op.name == "tanh"]
    samples = list(samples_of(op, torch.float64))
    assert sum(Compared(op, np.tanh, samples[0]).check().values()) > 0
    with pytest.raises(AssertionError, match=message):
        for sample in samples:
            Compared(op, fault, sample).check()


def test_samples_without_elements_count_as_nothing():
    (op,) = [op for op in OPERATIONS if op.name == "tanh"]
    (sample, *_) = samples_of(op, torch.float64)
    sample.input = torch.zeros((0, 3), dtype=torch.float64, requires_grad=True)
    assert sum(Compared(op, np.tanh, sample).check().values()) == 0


def test_every_operation_is_compared_or_excluded_with_a_reason():
    known = {label(op) for op in database.op_db} | {op.name for op in database.op_db}
    missing = [
        label(op)
        for op in database.op_db
        if op.name not in TABLE and label(op) not in EXCLUDED and op.name not in EXCLUDED
    ]
    assert not missing, f"add to the tables of tests/opinfo: {', '.join(missing)}"
    assert not [name for name in (*TABLE, *EXCLUDED) if name not in known]
    assert not set(TABLE) & set(EXCLUDED)


ALL_DIFFERENTIABLE = [op for op in database.op_db if is_differentiable(op)]


def test_most_differentiable_operations_are_compared():
    assert len(DIFFERENTIABLE) > 0.75 * len(ALL_DIFFERENTIABLE)


def test_the_counts_are_printed_and_are_those_of_the_docs(capsys: pytest.CaptureFixture[str]):
    compared_ones = set(map(id, DIFFERENTIABLE))  # to compare two of them takes long
    left = [op for op in ALL_DIFFERENTIABLE if id(op) not in compared_ones]
    reasons = Counter(EXCLUDED.get(label(op)) or EXCLUDED[op.name] for op in left)
    share = f"{len(DIFFERENTIABLE)} of {len(ALL_DIFFERENTIABLE)}"
    page = (Path(__file__).parents[2] / "docs" / "numpy-functions.md").read_text(encoding="utf-8")
    assert share in page or "OpInfo (" + ".".join(torch.__version__.split(".")[:2]) not in page
    with capsys.disabled():
        print(f"\nOpInfo: {share} differentiable variants compared, and")
        print(f"{len(OPERATIONS) - len(DIFFERENTIABLE)} others; samples by order: {COUNTS}")
        for reason, count in reasons.most_common():
            print(f"  {count} left out: {reason}")
