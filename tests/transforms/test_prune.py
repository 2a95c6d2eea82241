"""What `prune` keeps, and what it is told to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import InputError


def test_another_word_for_what_to_keep_is_refused() -> None:
    def f(x: Any) -> Any:
        h = np.sin(x)  # noqa: F841
        J = np.sum(x * x)
        return J

    graph = cr.trace(f, np.ones(3))
    assert "h" in cr.prune(graph, keep=["h"]).names and "h" in cr.prune(graph, keep="named").names
    assert "h" not in cr.prune(graph).names
    with pytest.raises(InputError, match='keep=\'h\' is neither "outputs" nor "named"') as caught:
        cr.prune(graph, keep="h")
    assert caught.value.hint == "keep=['h']"
