"""A training step as one explicit computational graph with your own names on it."""

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import errors, later, transforms
from chainrule.annotations import (
    Array,
    bfloat16,
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
    from chainrule import data, init, random, testing
    from chainrule.advice.batch.along import noise_along
    from chainrule.advice.batch.study import BatchStudy, batch_study
    from chainrule.advice.noise.noise import GradientNoise, gradient_noise
    from chainrule.advice.ways.ways import Ways, ways
    from chainrule.control import cond, fori_loop, scan, while_loop
    from chainrule.custom import custom_derivative, primitive
    from chainrule.devices.parallel import ParallelStep
    from chainrule.devices.parallelise import parallel
    from chainrule.devices.planning.devices import Devices
    from chainrule.devices.planning.paper.planned import ParallelPlan, plan_parallel
    from chainrule.exchange.from_onnx.importing import from_onnx
    from chainrule.exchange.model import Model
    from chainrule.exchange.pytorch.importing import from_torch
    from chainrule.explain.cost.measured_speeds import measured_speeds
    from chainrule.explain.drawing.drawing import Drawing
    from chainrule.explain.equations import Equations
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.explain.report import Report, report
    from chainrule.frontend.by_hand import named, scope
    from chainrule.functional.jacobian import hessian, jacfwd, jacobian, jacrev
    from chainrule.functional.vmap import vmap
    from chainrule.later import *  # noqa: F403  (for type checkers: `_LATER` has the names)
    from chainrule.numpy import fft
    from chainrule.numpy.at import at
    from chainrule.numpy.creating import array
    from chainrule.numpy.norms import norm
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
    from chainrule.train.loop.following import follow
    from chainrule.train.loop.trainer import Trainer
    from chainrule.train.optimizers import schedules
    from chainrule.train.optimizers.clipping import clip_by_global_norm
    from chainrule.train.step.weights import load_weights, save_weights

__version__ = VERSION

provide_uses()
__all__ = [
    "Array",
    "ArrayType",
    "BatchStudy",
    "Checkpoints",
    "CompiledGraph",
    "Devices",
    "Drawing",
    "Equations",
    "GradientNoise",
    "Graph",
    "Measures",
    "MemoryReport",
    "Model",
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
    "Ways",
    "adam",
    "adamw",
    "array",
    "at",
    "backward",
    "batch_study",
    "bfloat16",
    "bool_",
    "clip_by_global_norm",
    "compile",
    "cond",
    "cross_entropy",
    "custom_derivative",
    "data",
    "deduplicate",
    "dropout",
    "embedding",
    "erf",
    "errors",
    "evaluate",
    "fft",
    "float16",
    "float32",
    "float64",
    "follow",
    "fori_loop",
    "from_onnx",
    "from_torch",
    "gelu",
    "grad",
    "gradient_noise",
    "hessian",
    "hvp",
    "init",
    "int32",
    "int64",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "layer_norm",
    "linear",
    "load_weights",
    "log_softmax",
    "logsumexp",
    "maximum",
    "mean",
    "measured_speeds",
    "minimum",
    "named",
    "noise_along",
    "norm",
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
    "rmsprop",
    "save_weights",
    "scan",
    "schedules",
    "scope",
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
    "vmap",
    "ways",
    "while_loop",
]
__all__ += later.__all__


# Names that `import chainrule` does not load, and the modules that have them.
_LATER = {
    **later.MODULES,
    "BatchStudy": "chainrule.advice.batch.study",
    "Checkpoints": "chainrule.train.checkpoints",
    "Devices": "chainrule.devices.planning.devices",
    "Drawing": "chainrule.explain.drawing.drawing",
    "Equations": "chainrule.explain.equations",
    "GradientNoise": "chainrule.advice.noise.noise",
    "Measures": "chainrule.train.evaluation.measures",
    "MemoryReport": "chainrule.explain.memory.report",
    "Model": "chainrule.exchange.model",
    "Optimizer": "chainrule.train",
    "ParallelPlan": "chainrule.devices.planning.paper.planned",
    "ParallelStep": "chainrule.devices.parallel",
    "Placement": "chainrule.schedule.placement.place",
    "Report": "chainrule.explain.report",
    "State": "chainrule.train",
    "StateArray": "chainrule.train",
    "Trainer": "chainrule.train.loop.trainer",
    "TrainingStep": "chainrule.train",
    "adam": "chainrule.train",
    "adamw": "chainrule.train",
    "array": "chainrule.numpy.creating",
    "at": "chainrule.numpy.at",
    "batch_study": "chainrule.advice.batch.study",
    "clip_by_global_norm": "chainrule.train.optimizers.clipping",
    "cond": "chainrule.control",
    "custom_derivative": "chainrule.custom",
    "dropout": "chainrule.random.dropout",
    "evaluate": "chainrule.train.evaluation.evaluate",
    "follow": "chainrule.train.loop.following",
    "fori_loop": "chainrule.control",
    "from_onnx": "chainrule.exchange.from_onnx.importing",
    "from_torch": "chainrule.exchange.pytorch.importing",
    "hessian": "chainrule.functional.jacobian",
    "jacfwd": "chainrule.functional.jacobian",
    "jacobian": "chainrule.functional.jacobian",
    "jacrev": "chainrule.functional.jacobian",
    "load_weights": "chainrule.train.step.weights",
    "gradient_noise": "chainrule.advice.noise.noise",
    "measured_speeds": "chainrule.explain.cost.measured_speeds",
    "named": "chainrule.frontend.by_hand",
    "noise_along": "chainrule.advice.batch.along",
    "norm": "chainrule.numpy.norms",
    "parallel": "chainrule.devices.parallelise",
    "place_buffers": "chainrule.schedule.placement.place",
    "plan_parallel": "chainrule.devices.planning.paper.planned",
    "predict": "chainrule.train.evaluation.predict",
    "primitive": "chainrule.custom",
    "report": "chainrule.explain.report",
    "rmsprop": "chainrule.train",
    "save_weights": "chainrule.train.step.weights",
    "scan": "chainrule.control",
    "scope": "chainrule.frontend.by_hand",
    "sgd": "chainrule.train",
    "training_step": "chainrule.train",
    "vmap": "chainrule.functional.vmap",
    "Ways": "chainrule.advice.ways.ways",
    "ways": "chainrule.advice.ways.ways",
    "while_loop": "chainrule.control",
}


def __getattr__(name: str) -> Any:
    """What `import chainrule` does not load: it is loaded when it is first used."""
    if name in ("data", "init", "random", "testing", "train"):
        return importlib.import_module(f"chainrule.{name}")
    if name == "fft":
        return importlib.import_module("chainrule.numpy.fft")
    if name == "schedules":
        return importlib.import_module("chainrule.train.optimizers.schedules")
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    from chainrule.nearest import nearest  # these are loaded for what does not exist
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
