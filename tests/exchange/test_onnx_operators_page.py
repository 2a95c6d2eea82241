"""The page of ONNX's operators is current, and says a reason for each that is not read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.peers
onnx = pytest.importorskip("onnx")

from chainrule.exchange.from_onnx.importing import NEWEST  # noqa: E402
from chainrule.exchange.from_onnx.table import OF_SIZES, STATIC, TABLE  # noqa: E402

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_onnx_operators_page.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("make_onnx_operators_page", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(onnx.defs.onnx_opset_version() != NEWEST, reason="another version of onnx")
def test_the_page_is_current(script: Any) -> None:
    assert script.PAGE.read_text("utf-8") == script.page()


def test_at_least_180_operators_are_read(script: Any) -> None:
    assert sum(map(script.is_read, {one for one in script.operators() if not one[0]})) >= 180


def test_no_operator_has_a_reason_and_a_function(script: Any) -> None:
    assert not script.REASONS.keys() & {name for _, name in TABLE}


def test_tables_speak_of_operators_that_are_read() -> None:
    names = {name for _, name in TABLE}
    assert names >= OF_SIZES and names >= STATIC.keys()
