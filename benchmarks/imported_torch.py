"""Networks of PyTorch at full size, by `cr.from_torch`: numbers, seconds, bytes, pictures.

    python benchmarks/imported_torch.py [--nets resnet18 vit_b_16] [--dtype float64] [--steps 2]
                                        [--pictures FOLDER]

Of torchvision where it is installed (its models load also beside a PyTorch that its compiled
operators are not made for, as no model here uses these), else of timm.  Images of 224 × 224, two
in a batch, trained by SGD beside PyTorch in this process.  Prints for each network its size, how
long the import takes, how far evaluation and the objectives of the steps are from PyTorch's
(relative), seconds a step on both sides, and the bytes of a step as predicted and as taken.
The status is 1 where numbers disagree by more than 1e-9 in float64 or 1e-3 in float32.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
import tracemalloc
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import chainrule as cr

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from measured_memory import aligned_nbytes, arrays_nbytes, constants_nbytes
from numpy_memory import numpy_traced

NETS = ("resnet18", "mobilenet_v3_large", "vit_b_16", "convnext_tiny")
IN_TIMM = {
    "resnet18": "resnet18",
    "mobilenet_v3_large": "mobilenetv3_large_100",
    "vit_b_16": "vit_base_patch16_224",
    "convnext_tiny": "convnext_tiny",
}
RATE = 1e-3
CLOSE = {"float64": 1e-9, "float32": 1e-3}


def torchvision() -> Any:
    """The package, or None; operators of its own library are declared where that does not load."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return None
    warnings.simplefilter("ignore")
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
    text = (Path(spec.origin).parent / "_meta_registrations.py").read_text(encoding="utf-8")
    names = set(re.findall(r'register_(?:fake|meta)\("(?:torchvision::)?(\w+)"\)', text))
    for name in sorted(names):
        torch.library.define(f"torchvision::{name}", "(Tensor x) -> Tensor")
    return importlib.import_module("torchvision.models")


def made(name: str) -> tuple[Any, str]:
    """A network with random weights and no dropout, and where it is from."""
    torch.manual_seed(0)
    models = torchvision()
    if models is not None:
        net = getattr(models, name)(weights=None)
        source = f"torchvision {sys.modules['torchvision'].__version__}"
    else:
        timm: Any = importlib.import_module("timm")
        net, source = timm.create_model(IN_TIMM[name]), f"timm {timm.__version__}"
    for one in net.modules():  # whose random numbers are each library's own
        if isinstance(one, torch.nn.Dropout):
            one.p = 0.0
        if hasattr(one, "drop_prob"):
            one.drop_prob = 0.0
        if type(one).__name__ == "StochasticDepth":
            one.p = 0.0
        for name, part in one.named_children():
            if isinstance(part, torch.nn.Hardsigmoid):
                setattr(one, name, Hardsigmoid())
    return net, source


class Hardsigmoid(torch.nn.Module):
    """The gradient of PyTorch's own is wrong by 3e-8 in float64: it has 1/6 in float32."""

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.relu6(x + 3) / 6


def distance(found: Any, wanted: Any) -> float:
    """The largest difference, relative to the largest element; what is below 0.001 everywhere (the
    bias before a normalisation, whose gradient is 0 but for rounding) counts as 0.001 large."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    return float(np.max(np.abs(found - wanted)) / max(float(np.max(np.abs(wanted))), 1e-3))


def measured(name: str, dtype: str, steps: int, pictures: Path | None) -> bool:
    net, source = made(name)
    net = net.to(getattr(torch, dtype)).train()
    rng = np.random.default_rng(0)
    batch = {
        "x": rng.standard_normal((2, 3, 224, 224)).astype(dtype),
        "y": rng.integers(0, 1000, 2),
    }
    start = time.perf_counter()
    model = cr.from_torch(net, (batch["x"],))
    seconds = time.perf_counter() - start
    count = sum(one.size for one in model.parameters.values())
    print(f"{name} of {source}: {count:,} parameters, imported in {seconds:.1f} s")

    x, y = torch.from_numpy(batch["x"]), torch.from_numpy(batch["y"])
    evaluated = model.eval()
    net.eval()
    with torch.no_grad():
        apart = distance(evaluated(batch["x"]), net(x).numpy())
    net.train()
    print(f"  evaluation: {len(evaluated.graph.nodes)} nodes, {apart:.1e} from PyTorch's")
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        evaluated.graph.draw().save(pictures / f"{name}.svg")

    def objective(x: Any, y: Any, parameters: Any, buffers: Any) -> Any:
        logits, buffers = model(x, parameters, buffers)
        J = cr.cross_entropy(logits, y)
        return J, {"buffers": buffers}

    arrays = {"parameters": model.parameters, "buffers": model.buffers}
    start = time.perf_counter()
    step = cr.training_step(
        objective, "parameters", cr.sgd(RATE), state="buffers", **batch, **arrays
    )
    state = step.init(arrays)
    traced = time.perf_counter() - start
    report = step.memory()
    there = arrays_nbytes(dict(state)) + arrays_nbytes(batch) + constants_nbytes(report)
    ours = []
    with numpy_traced():
        start = time.perf_counter()
        ours.append(step(state, batch))
        first = time.perf_counter() - start
        tracemalloc.reset_peak()
        ours.append(step(state, batch))
        taken = tracemalloc.get_traced_memory()[1] - aligned_nbytes(report, recycled_results=False)

    optimizer = torch.optim.SGD(net.parameters(), RATE)

    def theirs() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    wanted = [theirs(), theirs()]
    clock, own, other = time.perf_counter, [], []
    for _ in range(steps):
        start = clock()
        ours.append(step(state, batch))
        own.append(clock() - start)
        start = clock()
        wanted.append(theirs())
        other.append(clock() - start)
    drift = max(distance(a, b) for a, b in zip(ours, wanted, strict=True))
    tensors = net.state_dict()
    far = max(
        distance(array, tensors[key].numpy())
        for key, array in {**state["parameters"], **state["buffers"]}.items()
    )
    print(
        f"  step: traced in {traced:.1f} s, planned and compiled in {first:.1f} s; "
        f"{median(own):.2f} s a step, PyTorch {median(other):.2f} s"
    )
    print(f"  {len(ours)} steps: objectives {drift:.1e}, arrays {far:.1e} from PyTorch's")
    print(
        f"  memory: {report.main.peak_nbytes:,} bytes predicted, of which {there:,} are the state "
        f"and the batch; taken {there + taken:,}"
    )
    return max(apart, drift, far) <= CLOSE[dtype]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nets", nargs="+", choices=NETS, default=NETS)
    parser.add_argument("--dtype", choices=CLOSE, default="float64")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    agree = [
        measured(name, options.dtype, options.steps, options.pictures) for name in options.nets
    ]
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
