"""Models that wheels carry (speech, characters, faces): onnxruntime's numbers, true gradients."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.peers, pytest.mark.slow]
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from wheel_models import MODELS, WheelModel, checked  # noqa: E402


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_model_of_a_wheel(model: WheelModel) -> None:
    """Outputs as those of onnxruntime; gradients as differences in float64; it trains."""
    if model.path() is None:
        pytest.skip(f"pip install {model.package.replace('_', '-')}")
    found = checked(model)
    assert found.apart <= 1e-4
    assert found.slope_error <= 1e-6
    assert abs(found.descent - 1) <= 0.01
