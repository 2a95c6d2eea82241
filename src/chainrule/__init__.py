"""A training step as one explicit computational graph with your own names on it."""

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import errors, transforms
from chainrule.annotations import (
    Array,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint32,
)
from chainrule.composites.activations import (
    erf,
    gelu,
    log_softmax,
    logsumexp,
    relu,
    sigmoid,
    softmax,
    softplus,
    stop_gradient,
)
from chainrule.composites.layers import embedding, layer_norm, linear
from chainrule.composites.losses import cross_entropy, squared_error
from chainrule.composites.numpy_names import TABLE
from chainrule.composites.statistics import mean, norm, size_value, std, var
from chainrule.frontend.elementwise import UFUNCS
from chainrule.functional import compile, grad, hvp, jvp, value_and_grad, vjp
from chainrule.graph.graph import Graph
from chainrule.graph.nearest import nearest
from chainrule.graph.node import Node
from chainrule.graph.sizes import Size, maximum, minimum, size, sizes
from chainrule.graph.types import ArrayType
from chainrule.run import CompiledGraph, Run
from chainrule.tracing import trace
from chainrule.train import (
    Optimizer,
    State,
    StateArray,
    TrainingStep,
    adam,
    adamw,
    sgd,
    training_step,
)
from chainrule.transforms import backward, deduplicate, prune, simplify

if TYPE_CHECKING:
    from chainrule import testing
    from chainrule.explain.memory.report import MemoryReport

__version__ = "0.1.0"
__all__ = [
    "Array",
    "ArrayType",
    "CompiledGraph",
    "Graph",
    "MemoryReport",
    "Node",
    "Optimizer",
    "Run",
    "Size",
    "State",
    "StateArray",
    "TrainingStep",
    "adam",
    "adamw",
    "backward",
    "bool_",
    "compile",
    "cross_entropy",
    "deduplicate",
    "embedding",
    "erf",
    "errors",
    "float16",
    "float32",
    "float64",
    "gelu",
    "grad",
    "hvp",
    "int32",
    "int64",
    "jvp",
    "layer_norm",
    "linear",
    "log_softmax",
    "logsumexp",
    "maximum",
    "mean",
    "minimum",
    "norm",
    "prune",
    "relu",
    "sgd",
    "sigmoid",
    "simplify",
    "size",
    "size_value",
    "sizes",
    "softmax",
    "softplus",
    "squared_error",
    "std",
    "stop_gradient",
    "testing",
    "trace",
    "training_step",
    "transforms",
    "uint8",
    "uint32",
    "value_and_grad",
    "var",
    "vjp",
]


def __getattr__(name: str) -> Any:
    """What `import chainrule` does not load: it is loaded when it is first used."""
    if name == "testing":
        return importlib.import_module("chainrule.testing")
    if name == "MemoryReport":
        return importlib.import_module("chainrule.explain.memory.report").MemoryReport
    of_numpy = getattr(np, name, None)
    if callable(of_numpy) and (of_numpy in UFUNCS or of_numpy in TABLE):
        hint = f": write np.{name}, which is traced"
    else:
        near = [] if name.startswith("_") else nearest(name, __all__)
        hint = f"; perhaps {near[0]}" if near else ""
    raise AttributeError(f"module 'chainrule' has no attribute {name!r}{hint}")
