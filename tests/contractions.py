"""Products of two labelled arrays in any memory layout, for tests of planners and executors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.plan.products.contraction import Copy, Gemm, Operand, plan_contraction
from chainrule.primitives.primitive import Primitive, Sample
from chainrule.primitives.products import PRODUCTS

SAMPLES = [(primitive, sample) for primitive in PRODUCTS for sample in primitive.samples]
SAMPLE_NAMES = [f"{primitive.name}-{sample.shapes}" for primitive, sample in SAMPLES]


@dataclass(frozen=True)
class Labelled:
    """An array with a label for each axis."""

    array: np.ndarray
    labels: tuple[int, ...]

    @property
    def operand(self) -> Operand:
        strides = tuple(stride // self.array.itemsize for stride in self.array.strides)
        return Operand(self.labels, strides)

    def copied(self, order: tuple[int, ...]) -> Labelled:
        """What a `Copy` in that order makes: labels that are only repeated are left out."""
        assert len(set(order)) == len(order) and set(order) <= set(self.labels)
        left_out = [place for place, label in enumerate(self.labels) if label not in order]
        assert all(self.array.strides[place] == 0 for place in left_out)
        once = self.array[
            (..., *(0 if p in left_out else slice(None) for p in range(self.array.ndim)))
        ]
        labels = [label for label in self.labels if label in order]
        permuted = np.transpose(once, [labels.index(label) for label in order])
        return Labelled(np.array(permuted, order="C"), order)


@dataclass(frozen=True)
class Product:
    """x, y, the array for the result, and the sizes of their labels."""

    x: Labelled
    y: Labelled
    out: Labelled
    sizes: dict[int, int]

    def expected(self, alpha: float = 1.0, beta: float = 0.0) -> np.ndarray:
        """alpha x y + beta out, in float64; beta = 0 forgets what `out` holds."""
        x, y, out = (one.array.astype(np.float64) for one in (self.x, self.y, self.out))
        x_labels, y_labels, labels = map(list, (self.x.labels, self.y.labels, self.out.labels))
        einsum: Any = np.einsum  # its types know the text form only
        result = alpha * einsum(x, x_labels, y, y_labels, labels)
        return result + beta * out if beta else np.asarray(result)


def after_copies(product: Product) -> tuple[Gemm, Product, list[Copy]]:
    """The plan, the product on which it is to be done, and the copies that were asked for."""
    copies = []
    while True:
        x, y, out = product.x, product.y, product.out
        plan = plan_contraction(x.operand, y.operand, out.operand, product.sizes)
        if isinstance(plan, Gemm):
            return plan, product, copies
        copies.append(plan)
        assert len(copies) <= 4, copies
        operands = {"x": x, "y": y}
        operands[plan.which] = operands[plan.which].copied(plan.order)
        product = Product(**operands, out=out, sizes=product.sizes)


def sample_node(primitive: Primitive, sample: Sample, dtype: str) -> Node:
    """The sample as a node of a graph, with inputs that are nodes of other samples."""
    inputs = tuple(
        Node(primitive, (), (), array_type(np.dtype(dtype), shape)) for shape in sample.shapes
    )
    params = dict(sample.params)
    kind = primitive.result_type(*(one.type for one in inputs), **params)
    return Node(primitive, inputs, tuple(sorted(params.items())), kind)


def laid_out(
    labels: tuple[int, ...],
    sizes: dict[int, int],
    dtype: str,
    memory: list[int] | None = None,
    padded: frozenset[int] = frozenset(),
    backwards: frozenset[int] = frozenset(),
    repeated: frozenset[int] = frozenset(),
) -> tuple[Labelled, np.ndarray]:
    """An array of NaN with its axes in that order in memory, and the whole of the memory.

    Padded axes have two elements more in memory, some run backwards, some are only repeated.
    """
    order = list(labels) if memory is None else [label for label in memory if label in labels]
    shape = [1 if label in repeated else sizes[label] + 2 * (label in padded) for label in order]
    whole = np.full(shape, np.nan, dtype)
    view = whole[(..., *(slice(0, 1 if label in repeated else sizes[label]) for label in order))]
    view = view[(..., *(slice(None, None, -1 if label in backwards else 1) for label in order))]
    view = np.broadcast_to(view, [sizes[label] for label in order]) if repeated else view
    return Labelled(view.transpose([order.index(label) for label in labels]), labels), whole


@st.composite
def products(draw: st.DrawFn, dtype: str, largest: int = 6) -> tuple[Product, np.ndarray]:
    """A product of small integers in any layout, and the memory in which its result lies."""
    count = draw(st.tuples(*[st.integers(0, 2)] * 4))
    labels = list(range(sum(count)))
    batch, rows, columns, inner = (
        frozenset(labels[sum(count[:role]) : sum(count[: role + 1])]) for role in range(4)
    )
    size = st.one_of(st.integers(1, largest), st.integers(0, 1))
    sizes = {label: draw(size) for label in labels}
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    common = draw(st.permutations(labels))
    found, memory = {}, {}
    some = st.frozensets(st.sampled_from(labels)) if labels else st.just(frozenset())
    rarely = st.one_of(st.just(frozenset()), some)
    for name, own in (
        ("x", batch | rows | inner),
        ("y", batch | columns | inner),
        ("out", batch | rows | columns),
    ):
        repeated = draw(rarely) & batch if name != "out" else frozenset()
        found[name], memory[name] = laid_out(
            tuple(draw(st.permutations(sorted(own)))),
            sizes,
            dtype,
            draw(st.one_of(st.just(common), st.permutations(labels))),
            draw(rarely),
            draw(rarely),
            frozenset(repeated),
        )
        if name != "out":
            memory[name][...] = generator.integers(-3, 4, memory[name].shape)
    return Product(**found, sizes=sizes), memory["out"]
