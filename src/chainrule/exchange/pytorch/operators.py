"""The table of PyTorch's operators, by their names without and with the overload."""

from __future__ import annotations

from typing import Any

from chainrule.exchange.pytorch.creating import CREATORS, DRAWS, STILL
from chainrule.exchange.pytorch.elementwise import ELEMENTWISE, PROMOTED
from chainrule.exchange.pytorch.indexing import INDEXING
from chainrule.exchange.pytorch.layers import LAYERS
from chainrule.exchange.pytorch.products import PRODUCTS
from chainrule.exchange.pytorch.reductions import REDUCTIONS
from chainrule.exchange.pytorch.shapes import SHAPES

OPERATORS: dict[str, Any] = {
    **PROMOTED,
    **ELEMENTWISE,
    **REDUCTIONS,
    **SHAPES,
    **INDEXING,
    **PRODUCTS,
    **LAYERS,
    **STILL,
}
KNOWN = frozenset({*OPERATORS, *CREATORS, *DRAWS})

# Which of several results there are, where not all.
PARTS: dict[str, frozenset[int]] = {
    **{f"adaptive_max_pool{axes}d": frozenset({0}) for axes in (1, 2, 3)},
    **dict.fromkeys(("max_pool2d_with_indices", "native_dropout"), frozenset({0})),
    "_linalg_solve_ex": frozenset({0, 3}),
    "_linalg_det": frozenset({0}),
    "_linalg_slogdet": frozenset({0, 1}),
}

# What says nothing about values: PyTorch's own checks of sizes, layouts and devices.
IGNORED = frozenset(
    {
        "_assert_tensor_metadata",
        "_assert_scalar",
        "_assert_async",
        "_linalg_check_errors",
        "sym_constrain_range",
        "sym_constrain_range_for_size",
    }
)

# Keywords about devices and memory, which a graph does not have.
DROPPED = frozenset(
    {"device", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "driver"}
)
