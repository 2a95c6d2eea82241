"""The table of PyTorch's operators, by their names without and with the overload."""

from __future__ import annotations

from typing import Any

from chainrule.exchange.pytorch.complex_numbers import MADE
from chainrule.exchange.pytorch.creating import CREATORS, DRAWS, STILL
from chainrule.exchange.pytorch.elementwise import ELEMENTWISE, PROMOTED
from chainrule.exchange.pytorch.factors import FACTORS
from chainrule.exchange.pytorch.indexing import INDEXING
from chainrule.exchange.pytorch.layers import LAYERS
from chainrule.exchange.pytorch.losses import LOSSES
from chainrule.exchange.pytorch.pooling import PLACED, POOLING
from chainrule.exchange.pytorch.products import PRODUCTS
from chainrule.exchange.pytorch.recurrent import RECURRENT, RECURRENT_DRAWS
from chainrule.exchange.pytorch.reductions import REDUCTIONS
from chainrule.exchange.pytorch.resampling import RESAMPLING
from chainrule.exchange.pytorch.shapes import SHAPES

OPERATORS: dict[str, Any] = {
    **PROMOTED,
    **ELEMENTWISE,
    **REDUCTIONS,
    **SHAPES,
    **INDEXING,
    **PRODUCTS,
    **FACTORS,
    **LAYERS,
    **LOSSES,
    **POOLING,
    **RESAMPLING,
    **RECURRENT,
    **STILL,
}
# What draws random numbers: the operator, whose first argument is a key, and whether it does.
DRAWING: dict[str, tuple[Any, Any]] = {**DRAWS, **RECURRENT_DRAWS}
KNOWN = frozenset({*OPERATORS, *CREATORS, *DRAWING, *MADE})

# Which of several results there are, where not all.
PARTS: dict[str, frozenset[int]] = {
    **dict.fromkeys((*PLACED, "native_dropout"), frozenset({0})),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), frozenset({0})),
    "_linalg_solve_ex": frozenset({0, 3}),
    "_linalg_det": frozenset({0}),
    "_linalg_slogdet": frozenset({0, 1}),
}

# Operators that give all of their results, for where these are read.
WHOLE: dict[str, Any] = {**PLACED}

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
