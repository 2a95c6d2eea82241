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
from chainrule.execute import CompiledGraph, Run, register_executor
from chainrule.frontend.functions.elementwise import UFUNCS
from chainrule.functional import compile, grad, hvp, jvp, value_and_grad, vjp
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size, maximum, minimum, size, sizes
from chainrule.graph.types import ArrayType
from chainrule.nn.activations import gelu, log_softmax, logsumexp, relu, softmax, softplus
from chainrule.nn.layers import embedding, layer_norm, linear
from chainrule.nn.losses import cross_entropy, squared_error
from chainrule.numpy.names import TABLE
from chainrule.numpy.of_one_primitive import erf, sigmoid, stop_gradient
from chainrule.numpy.statistics import mean, size_value, std, var
from chainrule.tracing import trace
from chainrule.transforms import backward, deduplicate, prune, simplify
from chainrule.version import VERSION
from chainrule.views import provide_uses

if TYPE_CHECKING:
    from chainrule import data, random, testing
    from chainrule.control import cond, fori_loop, scan, while_loop
    from chainrule.custom import custom_derivative, primitive
    from chainrule.devices.parallel import ParallelStep
    from chainrule.devices.parallelise import parallel
    from chainrule.devices.planning.devices import Devices
    from chainrule.devices.planning.paper.planned import ParallelPlan, plan_parallel
    from chainrule.explain.cost.measured_speeds import measured_speeds
    from chainrule.explain.drawing import Drawing
    from chainrule.explain.equations import Equations
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.explain.report import Report, report
    from chainrule.frontend.by_hand import named, scope
    from chainrule.functional.jacobian import hessian, jacfwd, jacobian, jacrev
    from chainrule.functional.vmap import vmap
    from chainrule.nn.attention import scaled_dot_product_attention
    from chainrule.nn.binary import (
        binary_cross_entropy,
        binary_cross_entropy_with_logits,
    )
    from chainrule.nn.convolution import conv1d, conv2d, conv3d
    from chainrule.nn.distances import absolute_error, huber, kl_divergence
    from chainrule.nn.linear_units import elu, leaky_relu, log_sigmoid, silu
    from chainrule.nn.normalisation import (
        batch_norm,
        group_norm,
        instance_norm,
        rms_norm,
    )
    from chainrule.nn.one_hot import one_hot
    from chainrule.nn.pooling import avg_pool1d, avg_pool2d, max_pool1d, max_pool2d
    from chainrule.nn.transposed_convolution import (
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
    )
    from chainrule.numpy.at import at
    from chainrule.numpy.creating import array
    from chainrule.numpy.norms import norm
    from chainrule.numpy.special import (
        betaln,
        digamma,
        entr,
        erfc,
        erfcx,
        expit,
        gammaln,
        i0e,
        i1e,
        log_ndtr,
        logit,
        ndtr,
        xlogy,
    )
    from chainrule.random.dropout import dropout
    from chainrule.schedule.placement.place import Placement, place_buffers
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
    from chainrule.train.checkpoints import Checkpoints
    from chainrule.train.evaluation.evaluate import evaluate
    from chainrule.train.evaluation.measures import Measures
    from chainrule.train.evaluation.predict import predict
    from chainrule.train.loop.trainer import Trainer
    from chainrule.train.optimizers import schedules
    from chainrule.train.optimizers.clipping import clip_by_global_norm
    from chainrule.train.step.weights import load_weights, save_weights

__version__ = VERSION

provide_uses()
__all__ = [
    "Array",
    "ArrayType",
    "Checkpoints",
    "CompiledGraph",
    "Devices",
    "Drawing",
    "Equations",
    "Graph",
    "Measures",
    "MemoryReport",
    "Node",
    "Optimizer",
    "ParallelPlan",
    "ParallelStep",
    "Placement",
    "Report",
    "Run",
    "Size",
    "State",
    "StateArray",
    "Trainer",
    "TrainingStep",
    "absolute_error",
    "adam",
    "adamw",
    "array",
    "at",
    "avg_pool1d",
    "avg_pool2d",
    "backward",
    "batch_norm",
    "betaln",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "bool_",
    "clip_by_global_norm",
    "compile",
    "cond",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "custom_derivative",
    "data",
    "deduplicate",
    "digamma",
    "dropout",
    "elu",
    "embedding",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "errors",
    "evaluate",
    "expit",
    "float16",
    "float32",
    "float64",
    "fori_loop",
    "gammaln",
    "gelu",
    "grad",
    "group_norm",
    "hessian",
    "huber",
    "hvp",
    "i0e",
    "i1e",
    "instance_norm",
    "int32",
    "int64",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "kl_divergence",
    "layer_norm",
    "leaky_relu",
    "linear",
    "load_weights",
    "log_ndtr",
    "log_sigmoid",
    "log_softmax",
    "logit",
    "logsumexp",
    "max_pool1d",
    "max_pool2d",
    "maximum",
    "mean",
    "measured_speeds",
    "minimum",
    "named",
    "ndtr",
    "norm",
    "one_hot",
    "parallel",
    "place_buffers",
    "plan_parallel",
    "predict",
    "primitive",
    "prune",
    "random",
    "register_executor",
    "relu",
    "report",
    "rms_norm",
    "rmsprop",
    "save_weights",
    "scaled_dot_product_attention",
    "scan",
    "schedules",
    "scope",
    "sgd",
    "sigmoid",
    "silu",
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
    "vmap",
    "while_loop",
    "xlogy",
]


# Names that `import chainrule` does not load, and the modules that have them.
_LATER = {
    "Checkpoints": "chainrule.train.checkpoints",
    "Devices": "chainrule.devices.planning.devices",
    "Drawing": "chainrule.explain.drawing",
    "Equations": "chainrule.explain.equations",
    "Measures": "chainrule.train.evaluation.measures",
    "MemoryReport": "chainrule.explain.memory.report",
    "Optimizer": "chainrule.train",
    "ParallelPlan": "chainrule.devices.planning.paper.planned",
    "ParallelStep": "chainrule.devices.parallel",
    "Placement": "chainrule.schedule.placement.place",
    "Report": "chainrule.explain.report",
    "State": "chainrule.train",
    "StateArray": "chainrule.train",
    "Trainer": "chainrule.train.loop.trainer",
    "TrainingStep": "chainrule.train",
    "absolute_error": "chainrule.nn.distances",
    "adam": "chainrule.train",
    "adamw": "chainrule.train",
    "array": "chainrule.numpy.creating",
    "at": "chainrule.numpy.at",
    "avg_pool1d": "chainrule.nn.pooling",
    "avg_pool2d": "chainrule.nn.pooling",
    "batch_norm": "chainrule.nn.normalisation",
    "betaln": "chainrule.numpy.special",
    "binary_cross_entropy": "chainrule.nn.binary",
    "binary_cross_entropy_with_logits": "chainrule.nn.binary",
    "clip_by_global_norm": "chainrule.train.optimizers.clipping",
    "cond": "chainrule.control",
    "conv1d": "chainrule.nn.convolution",
    "conv2d": "chainrule.nn.convolution",
    "conv3d": "chainrule.nn.convolution",
    "conv_transpose1d": "chainrule.nn.transposed_convolution",
    "conv_transpose2d": "chainrule.nn.transposed_convolution",
    "conv_transpose3d": "chainrule.nn.transposed_convolution",
    "custom_derivative": "chainrule.custom",
    "digamma": "chainrule.numpy.special",
    "dropout": "chainrule.random.dropout",
    "elu": "chainrule.nn.linear_units",
    "entr": "chainrule.numpy.special",
    "erfc": "chainrule.numpy.special",
    "erfcx": "chainrule.numpy.special",
    "evaluate": "chainrule.train.evaluation.evaluate",
    "expit": "chainrule.numpy.special",
    "fori_loop": "chainrule.control",
    "gammaln": "chainrule.numpy.special",
    "group_norm": "chainrule.nn.normalisation",
    "hessian": "chainrule.functional.jacobian",
    "huber": "chainrule.nn.distances",
    "i0e": "chainrule.numpy.special",
    "i1e": "chainrule.numpy.special",
    "instance_norm": "chainrule.nn.normalisation",
    "jacfwd": "chainrule.functional.jacobian",
    "jacobian": "chainrule.functional.jacobian",
    "jacrev": "chainrule.functional.jacobian",
    "kl_divergence": "chainrule.nn.distances",
    "leaky_relu": "chainrule.nn.linear_units",
    "load_weights": "chainrule.train.step.weights",
    "log_ndtr": "chainrule.numpy.special",
    "log_sigmoid": "chainrule.nn.linear_units",
    "logit": "chainrule.numpy.special",
    "max_pool1d": "chainrule.nn.pooling",
    "max_pool2d": "chainrule.nn.pooling",
    "measured_speeds": "chainrule.explain.cost.measured_speeds",
    "named": "chainrule.frontend.by_hand",
    "ndtr": "chainrule.numpy.special",
    "norm": "chainrule.numpy.norms",
    "one_hot": "chainrule.nn.one_hot",
    "parallel": "chainrule.devices.parallelise",
    "place_buffers": "chainrule.schedule.placement.place",
    "plan_parallel": "chainrule.devices.planning.paper.planned",
    "predict": "chainrule.train.evaluation.predict",
    "primitive": "chainrule.custom",
    "report": "chainrule.explain.report",
    "rms_norm": "chainrule.nn.normalisation",
    "rmsprop": "chainrule.train",
    "save_weights": "chainrule.train.step.weights",
    "scaled_dot_product_attention": "chainrule.nn.attention",
    "scan": "chainrule.control",
    "scope": "chainrule.frontend.by_hand",
    "sgd": "chainrule.train",
    "silu": "chainrule.nn.linear_units",
    "training_step": "chainrule.train",
    "vmap": "chainrule.functional.vmap",
    "while_loop": "chainrule.control",
    "xlogy": "chainrule.numpy.special",
}


def __getattr__(name: str) -> Any:
    """What `import chainrule` does not load: it is loaded when it is first used."""
    if name in ("data", "random", "testing", "train"):
        return importlib.import_module(f"chainrule.{name}")
    if name == "schedules":
        return importlib.import_module("chainrule.train.optimizers.schedules")
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    from chainrule.graph.nearest import nearest  # these are loaded for what does not exist
    from chainrule.numpy.elsewhere import ELSEWHERE

    of_numpy = getattr(np, name, None)
    if name in ELSEWHERE:
        hint = f": {ELSEWHERE[name]}"
    elif callable(of_numpy) and (of_numpy in UFUNCS or of_numpy in TABLE):
        hint = f": write np.{name}, which is traced"
    else:
        near = [] if name.startswith("_") else nearest(name, __all__)
        hint = f"; perhaps {near[0]}" if near else ""
    raise AttributeError(f"module 'chainrule' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """The names that are loaded, and those that are loaded when they are first used."""
    return sorted({*globals(), *__all__})
