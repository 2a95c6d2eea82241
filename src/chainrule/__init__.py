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
    rmsprop,
    sgd,
    training_step,
)
from chainrule.transforms import backward, deduplicate, prune, simplify
from chainrule.version import VERSION

if TYPE_CHECKING:
    from chainrule import data, random, testing
    from chainrule.explain.drawing import Drawing
    from chainrule.explain.equations import Equations
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.explain.report import Report, report
    from chainrule.random.dropout import dropout
    from chainrule.train import schedules
    from chainrule.train.checkpoints import Checkpoints
    from chainrule.train.clipping import clip_by_global_norm
    from chainrule.train.evaluation import evaluate
    from chainrule.train.measures import Measures
    from chainrule.train.prediction import predict
    from chainrule.train.trainer import Trainer
    from chainrule.train.weights import load_weights, save_weights

__version__ = VERSION
__all__ = [
    "Array",
    "ArrayType",
    "Checkpoints",
    "CompiledGraph",
    "Drawing",
    "Equations",
    "Graph",
    "Measures",
    "MemoryReport",
    "Node",
    "Optimizer",
    "Report",
    "Run",
    "Size",
    "State",
    "StateArray",
    "Trainer",
    "TrainingStep",
    "adam",
    "adamw",
    "backward",
    "bool_",
    "clip_by_global_norm",
    "compile",
    "cross_entropy",
    "data",
    "deduplicate",
    "dropout",
    "embedding",
    "erf",
    "errors",
    "evaluate",
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
    "load_weights",
    "log_softmax",
    "logsumexp",
    "maximum",
    "mean",
    "minimum",
    "norm",
    "predict",
    "prune",
    "random",
    "relu",
    "report",
    "rmsprop",
    "save_weights",
    "schedules",
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


# Names that `import chainrule` does not load, and the modules that have them.
_LATER = {
    "Checkpoints": "chainrule.train.checkpoints",
    "Drawing": "chainrule.explain.drawing",
    "Equations": "chainrule.explain.equations",
    "Measures": "chainrule.train.measures",
    "MemoryReport": "chainrule.explain.memory.report",
    "Report": "chainrule.explain.report",
    "Trainer": "chainrule.train.trainer",
    "clip_by_global_norm": "chainrule.train.clipping",
    "dropout": "chainrule.random.dropout",
    "evaluate": "chainrule.train.evaluation",
    "load_weights": "chainrule.train.weights",
    "predict": "chainrule.train.prediction",
    "report": "chainrule.explain.report",
    "save_weights": "chainrule.train.weights",
}


def __getattr__(name: str) -> Any:
    """What `import chainrule` does not load: it is loaded when it is first used."""
    if name in ("data", "random", "testing"):
        return importlib.import_module(f"chainrule.{name}")
    if name == "schedules":
        return importlib.import_module("chainrule.train.schedules")
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    of_numpy = getattr(np, name, None)
    if callable(of_numpy) and (of_numpy in UFUNCS or of_numpy in TABLE):
        hint = f": write np.{name}, which is traced"
    else:
        near = [] if name.startswith("_") else nearest(name, __all__)
        hint = f"; perhaps {near[0]}" if near else ""
    raise AttributeError(f"module 'chainrule' has no attribute {name!r}{hint}")
